/* ops_cpu_experts.c: routed experts: the choice, the rows of each expert side by side, products over them, and their sum.
 * A row's results depend neither on which rows share its experts nor on how many: the products' kernels do not, and the sum
 * runs in the order of the row's own router. */
#include <math.h>
#include <string.h>

#include "base/float_math.h"
#include "ops/ops_cpu_product.h"

static int32_t *int_row(const struct tensor *t, int row) { return (int32_t *)cpu_row(t, row); }

struct choice {
    const struct routing *routing;
    const struct tensor *score;
};

/* The best score that is not taken; the first one where none is larger than minus infinity. */
static int best_left(const float *score, const bool *taken, int n)
{
    int best = -1;
    for (int e = 0; e < n; e++)
        if (!taken[e] && (best < 0 || score[e] > score[best]))
            best = e;
    return best;
}

/* The sum of e^(score - top), NaN where a score is NaN or infinite. */
static float sum_of_exp(const float *score, float top, int n)
{
    float sum = 0, poison = 0;
    for (int e = 0; e < n; e++) {
        const float below = score[e] - top;
        sum += below > 0 ? 1.0f : math_exp(below);
        poison += score[e] - score[e];
    }
    return sum + poison;
}

static void choose_row(const struct routing *r, const float *score, int32_t *expert, float *weight)
{
    bool taken[MAX_EXPERTS] = {false};
    float total = 0, top = -INFINITY;
    for (int e = 0; e < r->n_expert; e++)
        top = score[e] > top ? score[e] : top;
    const float sum = sum_of_exp(score, top, r->n_expert);
    for (int j = 0; j < r->n_used; j++) {
        const int e = best_left(score, taken, r->n_expert);
        taken[e] = true;
        expert[j] = e;
        weight[j] = math_exp(score[e] - top) / sum;
        total += weight[j];
    }
    for (int j = 0; r->normalize && j < r->n_used; j++)
        weight[j] /= total;
}

static void choose_rows(struct cpu_device *d, const void *context, int first, int end)
{
    (void)d;
    const struct choice *c = context;
    for (int r = first; r < end; r++)
        choose_row(c->routing, cpu_row(c->score, r), int_row(&c->routing->slot, r), cpu_row(&c->routing->weight, r));
}

/* From each row's experts, which stand where its slots will, to slots sorted by expert and row. */
static void group_rows(const struct routing *r, int n_row)
{
    int32_t *row = int_row(&r->row, 0), *group = int_row(&r->group, 0), *end = group + 1 + r->n_expert;
    memset(group, 0, (size_t)routing_group_ints(r->n_expert) * sizeof *group);
    for (int i = 0; i < n_row; i++)
        for (int j = 0; j < r->n_used; j++)
            end[int_row(&r->slot, i)[j] + 1]++;
    for (int e = 0; e < r->n_expert; e++)
        end[e + 1] += end[e];
    for (int i = 0; i < n_row; i++) /* each expert's first slot grows to its end */
        for (int j = 0; j < r->n_used; j++) {
            int32_t *slot = &int_row(&r->slot, i)[j];
            *slot = end[*slot]++;
            row[*slot] = i;
        }
    int32_t first = 0, n = 0;
    for (int e = 0; e < r->n_expert; e++) {
        const int32_t last = end[e];
        if (last == first)
            continue;
        group[1 + n] = e;
        end[n++] = first;
        first = last;
    }
    end[n] = first;
    group[0] = n;
}

void cpu_route(struct device *d, const struct routing *out, const struct tensor *score)
{
    const struct choice c = {out, score};
    cpu_for_rows(cpu_of(d), choose_rows, &c, score->n_row, 16 * score->n_col);
    group_rows(out, score->n_row);
}

struct slots {
    const struct activation_view *out, *x;
    const int32_t *row;
    int n_fine; /* of x */
};

/* Where a row stands among the fine ones; n_fine: it is none of them. */
static int fine_place(const struct slots *g, int row)
{
    const int32_t *fine = cpu_fine_rows(g->x);
    const int i = cpu_lower_bound(fine, g->n_fine, row);
    return i < g->n_fine && fine[i] == row ? i : g->n_fine;
}

static void list_fine_slots(const struct slots *g, int n_slot)
{
    int n = 0;
    for (int s = 0; s < n_slot; s++)
        if (fine_place(g, g->row[s]) < g->n_fine)
            int_row(&g->out->fine_row, 0)[n++] = s;
}

static void gather_some_rests(struct cpu_device *d, const void *context, int first, int end)
{
    (void)d;
    const struct slots *g = context;
    for (int i = first; i < end; i++) {
        const int slot = int_row(&g->out->fine_row, 0)[i];
        memcpy(cpu_row(&g->out->q8_rest, i), cpu_row(&g->x->q8_rest, fine_place(g, g->row[slot])), g->x->q8_rest.row_bytes);
    }
}

static void gather_some_slots(struct cpu_device *d, const void *context, int first, int end)
{
    (void)d;
    const struct slots *g = context;
    for (int s = first; s < end; s++) {
        if (g->out->f32.buffer != NULL)
            memcpy(cpu_row(&g->out->f32, s), cpu_row(&g->x->f32, g->row[s]), (size_t)g->x->f32.n_col * sizeof(float));
        if (g->out->q8.buffer != NULL)
            memcpy(cpu_row(&g->out->q8, s), cpu_row(&g->x->q8, g->row[s]), g->x->q8.row_bytes);
    }
}

void cpu_gather_slots(struct device *d, const struct activation_view *out, const struct activation_view *x,
                      const struct routing *routing)
{
    const struct slots g = {out, x, int_row(&routing->row, 0), x->q8_rest.n_row};
    cpu_for_rows(cpu_of(d), gather_some_slots, &g, routing->row.n_col, x->f32.n_col);
    if (g.n_fine > 0 && out->fine_row.buffer != NULL)
        list_fine_slots(&g, routing->row.n_col);
    if (g.n_fine > 0 && out->q8_rest.buffer != NULL)
        cpu_for_rows(cpu_of(d), gather_some_rests, &g, out->q8_rest.n_row, x->f32.n_col);
}

enum {
    MAX_PRODUCTS = 4
};

/* The pieces of an expert's products follow each other, those of the experts that have rows too. */
struct expert_run {
    struct cpu_device *device;
    const struct product *product;
    int n_product;
    const struct activation_view *x;
    size_t piece_bytes;
    int n_group;
    const int32_t *expert, *first_slot;
    int32_t first_piece[MAX_EXPERTS + 1];
};

static struct cpu_cut cut_of(const struct expert_run *run, int i, int group)
{
    return cpu_cut_product(run->product[i].weight, run->x, run->first_slot[group + 1] - run->first_slot[group],
                           run->piece_bytes);
}

static void run_piece(void *context, int piece, int thread)
{
    const struct expert_run *run = context;
    const int group = cpu_lower_bound(run->first_piece, run->n_group, piece + 1) - 1;
    const int first = run->first_slot[group], n_slot = run->first_slot[group + 1] - first;
    int i = 0;
    piece -= run->first_piece[group];
    struct cpu_cut cut = cut_of(run, i, group);
    while (piece >= cut.n_piece) {
        piece -= cut.n_piece;
        cut = cut_of(run, ++i, group);
    }
    const struct weight *w = run->product[i].weight;
    const char *packed = cpu_address(w->buffer, w->offset + (size_t)run->expert[group] * w->expert_bytes);
    const struct cpu_block b = cpu_block_at(&cut, piece, &run->product[i], run->x, packed, first, n_slot);
    cpu_multiply(run->device, &b, thread);
}

void cpu_matmul_experts(struct device *d, const struct product *product, int n_product, const struct activation_view *x,
                        const struct routing *routing)
{
    const int32_t *group = int_row(&routing->group, 0);
    struct expert_run run = {.device = cpu_of(d), .product = product, .x = x, .n_group = group[0], .expert = group + 1};
    run.first_slot = group + 1 + routing->n_expert;
    run.n_product = n_product < MAX_PRODUCTS ? n_product : MAX_PRODUCTS;
    run.piece_bytes =
        cpu_piece_bytes(run.device, product[0].weight->expert_bytes * (size_t)group[0], routing->row.n_col == group[0]);
    for (int g = 0; g < run.n_group; g++) {
        run.first_piece[g + 1] = run.first_piece[g];
        for (int i = 0; i < run.n_product; i++)
            run.first_piece[g + 1] += cut_of(&run, i, g).n_piece;
    }
    pool_run(run.device->pool, run_piece, &run, run.first_piece[run.n_group]);
    if (n_product > MAX_PRODUCTS)
        cpu_matmul_experts(d, product + MAX_PRODUCTS, n_product - MAX_PRODUCTS, x, routing);
}

struct mixing {
    const struct tensor *out, *x;
    const struct routing *routing;
};

static void mix_rows(struct cpu_device *d, const void *context, int first, int end)
{
    const struct mixing *m = context;
    for (int r = first; r < end; r++) {
        const int32_t *slot = int_row(&m->routing->slot, r);
        const float *weight = cpu_row(&m->routing->weight, r);
        float *out = cpu_row(m->out, r);
        memset(out, 0, (size_t)m->out->n_col * sizeof *out);
        for (int j = 0; j < m->routing->n_used; j++)
            d->kernels.add_scaled(out, cpu_row(m->x, slot[j]), weight[j], m->out->n_col);
    }
}

void cpu_mix_experts(struct device *d, const struct tensor *out, const struct tensor *x, const struct routing *routing)
{
    const struct mixing m = {out, x, routing};
    cpu_for_rows(cpu_of(d), mix_rows, &m, out->n_row, routing->n_used * out->n_col);
}
