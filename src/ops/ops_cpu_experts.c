/* ops_cpu_experts.c: routed experts: the choice, the rows of each expert side by side, products over them, and their sum.
 * A row's results depend neither on which rows share its experts nor on how many: the products' kernels do not, and the sum
 * runs in the order of the row's own router. */
#include <math.h>
#include <string.h>

#include "base/float_math.h"
#include "ops/ops_cpu.h"

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
};

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
    const struct slots g = {out, x, int_row(&routing->row, 0)};
    cpu_for_rows(cpu_of(d), gather_some_slots, &g, routing->row.n_col, x->f32.n_col);
}

/* One product's panels, cut into n_piece pieces of n_panel for each expert. */
struct cut {
    const struct product *product;
    const struct matmul *kernel;
    size_t panel_bytes;
    int n_panel;
    int n_piece;
};

enum {
    MAX_PRODUCTS = 4
};

struct expert_run {
    const struct cpu_device *device;
    const struct activation_view *x;
    struct cut cut[MAX_PRODUCTS];
    int n_cut;
    int n_piece; /* of all products of one expert */
    const int32_t *expert, *first_slot;
};

static struct cut make_cut(const struct product *p, size_t piece_bytes)
{
    const struct matmul *m = p->weight->kernel;
    const size_t bytes = m->panel_bytes(p->weight->n_in), n = piece_bytes / bytes;
    const int n_all = (p->weight->n_out - 1) / m->nr + 1, n_panel = n < 1 ? 1 : n < (size_t)n_all ? (int)n : n_all;
    return (struct cut){p, m, bytes, n_panel, (n_all - 1) / n_panel + 1};
}

/* The slots first <= s < end at one piece of an expert's matrix. */
static void run_slots(const struct expert_run *run, const struct cut *cut, int expert, int piece, int first, int end)
{
    const struct weight *w = cut->product->weight;
    const struct tensor *x = w->wants_q8 ? &run->x->q8 : &run->x->f32, *to = &cut->product->out;
    const int o = piece * cut->n_panel * cut->kernel->nr, most = cut->n_panel * cut->kernel->nr;
    const char *packed = cpu_address(w->buffer, w->offset + (size_t)expert * w->expert_bytes) +
                         (size_t)(piece * cut->n_panel) * cut->panel_bytes;
    const int step = cpu_rows_at_a_time(run->device, x->row_bytes);
    for (int s = first; s < end; s += step)
        cut->kernel->run(cpu_row(to, s) + o, to->row_bytes / sizeof(float), packed, cpu_row(x, s), x->row_bytes,
                         end - s < step ? end - s : step, w->n_out - o < most ? w->n_out - o : most, w->n_in);
}

static void run_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct expert_run *run = context;
    const int group = piece / run->n_piece;
    int rest = piece % run->n_piece, i = 0;
    while (rest >= run->cut[i].n_piece)
        rest -= run->cut[i++].n_piece;
    run_slots(run, &run->cut[i], run->expert[group], rest, run->first_slot[group], run->first_slot[group + 1]);
}

void cpu_matmul_experts(struct device *d, const struct product *product, int n_product, const struct activation_view *x,
                        const struct routing *routing)
{
    const int32_t *group = int_row(&routing->group, 0);
    struct expert_run run = {.device = cpu_of(d), .x = x, .expert = group + 1, .first_slot = group + 1 + routing->n_expert};
    size_t piece = product[0].weight->expert_bytes * (size_t)group[0] / (4 * (size_t)cpu_of(d)->n_thread);
    if (routing->row.n_col > group[0] && piece > CPU_PIECE_BYTES)
        piece = CPU_PIECE_BYTES;
    for (; run.n_cut < n_product && run.n_cut < MAX_PRODUCTS; run.n_cut++) {
        run.cut[run.n_cut] = make_cut(&product[run.n_cut], piece);
        run.n_piece += run.cut[run.n_cut].n_piece;
    }
    pool_run(cpu_of(d)->pool, run_piece, &run, group[0] * run.n_piece);
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
