/* redundancy.c: the most that can go, by bisection over how much goes. */
#include "compress/redundancy.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "compress/probe.h"

struct study {
    const struct train_model *m;
    const struct redundancy_options *o;
    struct redundancy *out;
    struct structures score; /* by activation */
    struct probe *probe;
    int *head, *channel; /* [n_layer][n_head], [n_layer][n_ff]: what goes first comes first */
};

enum kind {
    HEADS,
    CHANNELS
};

static int n_of(const struct study *s, enum kind kind) { return kind == HEADS ? s->m->h.n_head : s->m->h.n_ff; }
static int unit_of(enum kind kind) { return kind == HEADS ? 1 : PRUNE_TILE; }
static const int *order_of(const struct study *s, enum kind kind, int layer)
{
    return (kind == HEADS ? s->head : s->channel) + (size_t)layer * (size_t)n_of(s, kind);
}

/* The first n of a layer's order are taken away. */
static void take_away(const struct study *s, enum kind kind, int layer, int n)
{
    float *keep = kind == HEADS ? probe_heads(s->probe, layer) : probe_channels(s->probe, layer);
    const int *order = order_of(s, kind, layer);
    for (int i = 0; i < n_of(s, kind); i++)
        keep[order[i]] = i >= n;
}

/* Nats that the loss rises by when n of a layer, or of each layer (layer < 0), are taken away; all are there again behind it.
 */
static double rise_without(const struct study *s, enum kind kind, int layer, int n)
{
    const int first = layer < 0 ? 0 : layer, end = layer < 0 ? s->m->h.n_layer : layer + 1;
    for (int l = first; l < end; l++)
        take_away(s, kind, l, n);
    const double loss = probe_loss(s->probe, first);
    for (int l = first; l < end; l++)
        take_away(s, kind, l, 0);
    return loss - s->out->loss;
}

/* Of one layer: weights of q, k, v and o that go with the first n heads; keys and values with the last that reads them. */
static double head_share(const struct study *s, int layer, int n)
{
    const struct hparams *h = &s->m->h;
    const int each = h->n_head / h->n_head_kv;
    const int *order = order_of(s, HEADS, layer);
    int groups = 0;
    for (int g = 0; g < h->n_head_kv; g++) {
        int gone = 0;
        for (int i = 0; i < n; i++)
            gone += order[i] / each == g;
        groups += gone == each;
    }
    return (double)(n + groups) / (h->n_head + h->n_head_kv);
}

static double share_of(const struct study *s, enum kind kind, int layer, int n)
{
    double sum = 0;
    if (kind == CHANNELS)
        return (double)n / n_of(s, kind);
    if (layer >= 0)
        return head_share(s, layer, n);
    for (int l = 0; l < s->m->h.n_layer; l++)
        sum += head_share(s, l, n);
    return sum / s->m->h.n_layer;
}

/* The largest number of units whose going is within the rise, taking the rise to grow with the number. */
static enum mr_status bisect(struct removable *r, const struct study *s, enum kind kind, int layer, struct mr_error *err)
{
    const int unit = unit_of(kind), all = n_of(s, kind);
    int low = 0, high = (all + unit - 1) / unit + 1; /* low holds, high does not */
    *r = (struct removable){.of = all};
    while (high - low > 1) {
        const int middle = low + (high - low) / 2, n = middle * unit < all ? middle * unit : all;
        const double rise = rise_without(s, kind, layer, n);
        if (!isfinite(rise))
            return mr_fail(err, MR_BAD_FORMAT, "the loss over the text is not a number");
        if (rise <= s->o->rise) {
            low = middle;
            r->n = n;
            r->rise = rise;
        } else
            high = middle;
    }
    r->share = share_of(s, kind, layer, r->n);
    return MR_OK;
}

/* Heads by what each one's going costs; probe_heads in place of an order that is not known yet. */
static enum mr_status order_heads(const struct study *s, int layer, float *rise, struct mr_error *err)
{
    const int n = s->m->h.n_head;
    float *keep = probe_heads(s->probe, layer);
    for (int i = 0; i < n; i++) {
        keep[i] = 0;
        rise[i] = (float)(probe_loss(s->probe, layer) - s->out->loss);
        keep[i] = 1;
        if (!isfinite(rise[i]))
            return mr_fail(err, MR_BAD_FORMAT, "the loss over the text is not a number");
    }
    prune_order(s->head + (size_t)layer * (size_t)n, rise, n);
    return MR_OK;
}

static enum mr_status study_layer(const struct study *s, int layer, float *rise, struct mr_error *err)
{
    const size_t n_ff = (size_t)s->m->h.n_ff, l = (size_t)layer;
    MR_TRY(order_heads(s, layer, rise, err));
    prune_order(s->channel + l * n_ff, s->score.channel + l * n_ff, (int)n_ff);
    MR_TRY(bisect(&s->out->heads[layer], s, HEADS, layer, err));
    return bisect(&s->out->channels[layer], s, CHANNELS, layer, err);
}

static enum mr_status prepare(struct study *s, struct mr_error *err)
{
    const struct hparams *h = &s->m->h;
    const size_t n = (size_t)h->n_layer;
    const struct importance_options importance = {.method = IMPORTANCE_ACTIVATION,
                                                  .windows = s->o->windows,
                                                  .memory_bytes = SIZE_MAX,
                                                  .pool = s->o->pool,
                                                  .cpu_features = s->o->cpu_features};
    s->head = mem_array(n * (size_t)h->n_head, sizeof *s->head);
    s->channel = mem_array(n * (size_t)h->n_ff, sizeof *s->channel);
    s->out->heads = mem_zero_array(n, sizeof *s->out->heads);
    s->out->channels = mem_zero_array(n, sizeof *s->out->channels);
    if (s->head == NULL || s->channel == NULL || s->out->heads == NULL || s->out->channels == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the structures of %d layers", h->n_layer);
    MR_TRY(structures_create(&s->score, h, err));
    MR_TRY(importance_measure(&s->score, s->m, &importance, err));
    return probe_create(&s->probe, s->m, s->o->windows, (int)s->o->windows->n_train, s->o->pool, s->o->cpu_features, err);
}

/* From the last layer to the first: the states below stay those of the whole model. */
static enum mr_status study(struct study *s, struct mr_error *err)
{
    const int n = s->m->h.n_layer;
    MR_TRY(prepare(s, err));
    float *rise = mem_array((size_t)s->m->h.n_head, sizeof *rise);
    if (rise == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the heads of a layer");
    enum mr_status status = MR_OK;
    s->out->loss = probe_loss(s->probe, 0);
    for (int layer = n - 1; layer >= 0 && status == MR_OK; layer--) {
        status = study_layer(s, layer, rise, err);
        if (status == MR_OK && s->o->go_on != NULL && !s->o->go_on(s->o->context, n - layer, n))
            status = mr_fail(err, MR_CANCELLED, "stopped after %d of %d layers", n - layer, n);
    }
    free(rise);
    MR_TRY(status);
    MR_TRY(bisect(&s->out->all_heads, s, HEADS, -1, err));
    return bisect(&s->out->all_channels, s, CHANNELS, -1, err);
}

enum mr_status redundancy_measure(struct redundancy *out, const struct train_model *m, const struct redundancy_options *options,
                                  struct mr_error *err)
{
    *out = (struct redundancy){.n_layer = m->h.n_layer};
    struct study s = {.m = m, .o = options, .out = out};
    const enum mr_status status = study(&s, err);
    structures_release(&s.score);
    probe_free(s.probe);
    free(s.head);
    free(s.channel);
    return status;
}

void redundancy_release(struct redundancy *r)
{
    free(r->heads);
    free(r->channels);
    *r = (struct redundancy){0};
}
