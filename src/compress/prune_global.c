/* prune_global.c: all shapes of a size, and what each of them loses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compress/prune.h"

/* Of a kind: lost[layer][k], the sum of a layer's k lowest scores; a unit of width or of whole layers has one row. */
struct losses {
    double *lost;
    int n; /* structures of a layer */
};

struct allocation {
    const struct train_model *m;
    const struct structures *score;
    unsigned parts;
    size_t n_weight;
    struct losses group, channel, width;
    int *by_layer; /* layers by rising score */
};

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Prefix sums over each row's sorted scores. */
static enum mr_status sum_lowest(struct losses *l, const float *score, int n_row, int n, struct mr_error *err)
{
    float *row = mem_array((size_t)n, sizeof *row);
    l->n = n;
    l->lost = mem_array((size_t)n_row * ((size_t)n + 1), sizeof *l->lost);
    if (row == NULL || l->lost == NULL) {
        free(row);
        return mr_fail(err, MR_NO_MEMORY, "no memory for the sums of %d scores", n);
    }
    for (int r = 0; r < n_row; r++) {
        double *sum = l->lost + (size_t)r * ((size_t)n + 1);
        memcpy(row, score + (size_t)r * (size_t)n, (size_t)n * sizeof *row);
        qsort(row, (size_t)n, sizeof *row, ascending);
        sum[0] = 0;
        for (int i = 0; i < n; i++)
            sum[i + 1] = sum[i] + (double)row[i];
    }
    free(row);
    return MR_OK;
}

static double lost_of(const struct losses *l, int layer, int keep)
{
    return l->lost[(size_t)layer * ((size_t)l->n + 1) + (size_t)(l->n - keep)];
}

/* Layers that stay lose heads and channels; those that go lose themselves. */
static double loss_of(const struct allocation *a, struct prune_shape s)
{
    const int n = a->m->h.n_layer, gone = n - s.n_layer;
    double sum = lost_of(&a->width, 0, s.n_embd);
    for (int i = 0; i < n; i++)
        sum += i < gone ? (double)a->score->layer[a->by_layer[i]]
                        : lost_of(&a->group, a->by_layer[i], s.n_group) + lost_of(&a->channel, a->by_layer[i], s.n_ff);
    return sum;
}

/* The next smaller number of a kind that may stay: a unit less, down to one; 0: none. */
static int less(int n, int unit, bool may)
{
    const int next = (n - 1) / unit * unit;
    return may && next > 0 ? next : 0;
}

/* The most channels that fit the size beside the rest; 0: none do. */
static int channels_that_fit(const struct allocation *a, struct prune_shape s)
{
    while (s.n_ff > 0 && prune_weights(a->m, s) > a->n_weight)
        s.n_ff = less(s.n_ff, PRUNE_TILE, (a->parts & PRUNE_CHANNELS) != 0);
    return s.n_ff;
}

static bool search(struct prune_shape *best, const struct allocation *a)
{
    const struct prune_shape whole = prune_whole(&a->m->h);
    struct prune_shape s = whole;
    double least = INFINITY;
    for (s.n_layer = whole.n_layer; s.n_layer > 0; s.n_layer = less(s.n_layer, 1, (a->parts & PRUNE_LAYERS) != 0))
        for (s.n_embd = whole.n_embd; s.n_embd > 0; s.n_embd = less(s.n_embd, PRUNE_TILE, (a->parts & PRUNE_WIDTH) != 0))
            for (s.n_group = whole.n_group; s.n_group > 0; s.n_group = less(s.n_group, 1, (a->parts & PRUNE_HEADS) != 0)) {
                s.n_ff = whole.n_ff;
                s.n_ff = channels_that_fit(a, s);
                const double loss = s.n_ff > 0 ? loss_of(a, s) : INFINITY;
                if (loss < least) {
                    least = loss;
                    *best = s;
                }
            }
    return isfinite(least);
}

static enum mr_status prepare(struct allocation *a, struct mr_error *err)
{
    const struct structures *s = a->score;
    a->by_layer = mem_array((size_t)s->n_layer, sizeof *a->by_layer);
    if (a->by_layer == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for %d layers", s->n_layer);
    prune_order(a->by_layer, s->layer, s->n_layer);
    MR_TRY(sum_lowest(&a->group, s->group, s->n_layer, s->n_group, err));
    MR_TRY(sum_lowest(&a->channel, s->channel, s->n_layer, s->n_ff, err));
    return sum_lowest(&a->width, s->width, 1, s->n_embd, err);
}

enum mr_status prune_shape_global(struct prune_shape *out, const struct train_model *m, const struct structures *score,
                                  unsigned parts, size_t n_weight, struct mr_error *err)
{
    struct allocation a = {.m = m, .score = score, .parts = parts, .n_weight = n_weight};
    enum mr_status status = prepare(&a, err);
    if (status == MR_OK && !search(out, &a))
        status = mr_fail(err, MR_BAD_INPUT, "%zu of %zu weights cannot be reached", n_weight, m->n_weight);
    free(a.group.lost);
    free(a.channel.lost);
    free(a.width.lost);
    free(a.by_layer);
    return status;
}
