/* ops_cpu_matmul.c: products, cut into runs of panels. The sum is never cut: a piece computes its outputs whole. */
#include "ops/ops_cpu.h"

enum {
    MAX_PRODUCTS = 8,
    /* A single row reads weights once. Shorter pieces begin too often with an empty prefetch; what takes more than 100
     * microseconds would keep others waiting for a thread that was descheduled. */
    ONE_ROW_MIN = 64 << 10,
    ONE_ROW_MAX = 768 << 10,
    PAIR_OUTS = CPU_REST_ROWS * CPU_REST_OUTS / 2
};

struct run { /* one product, in pieces of n_panel panels */
    const struct matmul *kernel;
    const char *packed;
    size_t panel_bytes;
    int n_panel;
    int first_piece;
};

struct products {
    struct cpu_device *device;
    const struct product *product;
    const struct activation_view *x;
    struct run run[MAX_PRODUCTS];
    int n_product;
    int n_piece;
};

static int panels_of(const struct weight *w) { return (w->n_out - 1) / ((const struct matmul *)w->kernel)->nr + 1; }

static void plan(struct products *p, int n_thread)
{
    size_t total = 0;
    for (int i = 0; i < p->n_product; i++)
        total += p->product[i].weight->bytes;
    size_t piece = total / (4 * (size_t)n_thread);
    if (p->x->f32.n_row > 1)
        piece = piece < CPU_PIECE_BYTES ? piece : CPU_PIECE_BYTES;
    else
        piece = piece < ONE_ROW_MIN ? ONE_ROW_MIN : piece < ONE_ROW_MAX ? piece : ONE_ROW_MAX;
    p->n_piece = 0;
    for (int i = 0; i < p->n_product; i++) {
        const struct weight *w = p->product[i].weight;
        const struct matmul *m = w->kernel;
        const size_t bytes = m->panel_bytes(w->n_in), n = piece / bytes;
        const int n_panel = n < 1 ? 1 : n < (size_t)panels_of(w) ? (int)n : panels_of(w);
        p->run[i] = (struct run){m, cpu_address(w->buffer, w->offset), bytes, n_panel, p->n_piece};
        p->n_piece += (panels_of(w) - 1) / n_panel + 1;
    }
}

/* Rows first_row <= r < first_row + n_row, outputs first <= o < first + n_out. */
static void run_rows(const struct products *p, int i, int first_panel, int n_out, int first_row, int n_row)
{
    const struct product *product = &p->product[i];
    const struct run *run = &p->run[i];
    const struct tensor *x = product->weight->wants_q8 ? &p->x->q8 : &p->x->f32;
    const int first = first_panel * run->kernel->nr;
    run->kernel->run(cpu_row(&product->out, first_row) + first, product->out.row_bytes / sizeof(float),
                     run->packed + (size_t)first_panel * run->panel_bytes, cpu_row(x, first_row), x->row_bytes, n_row, n_out,
                     product->weight->n_in);
}

/* A kernel on the fine rows f <= i < f + n_row of the list, added to their outputs first <= o < first + n_out. */
static void add_rest(const struct products *p, int i, int first_panel, int n_out, int f, int n_row, float *scratch)
{
    const struct product *product = &p->product[i];
    const struct run *run = &p->run[i];
    const struct tensor *rest = &p->x->q8_rest;
    run->kernel->run(scratch, CPU_REST_OUTS, run->packed + (size_t)first_panel * run->panel_bytes, cpu_row(rest, f),
                     rest->row_bytes, n_row, n_out, product->weight->n_in);
    for (int r = 0; r < n_row; r++) {
        float *out = cpu_row(&product->out, p->x->fine_row[f + r]) + first_panel * run->kernel->nr;
        for (int o = 0; o < n_out; o++)
            out[o] += scratch[r * CPU_REST_OUTS + o];
    }
}

static void run_rest(const struct products *p, int i, int first_panel, int n_out, float *scratch)
{
    const int nr = p->run[i].kernel->nr, n_fine = p->x->q8_rest.n_row, step = p->device->untiled ? 1 : CPU_REST_ROWS;
    for (int o = 0; o < n_out; o += CPU_REST_OUTS)
        for (int f = 0; f < n_fine; f += step)
            add_rest(p, i, first_panel + o / nr, n_out - o < CPU_REST_OUTS ? n_out - o : CPU_REST_OUTS, f,
                     n_fine - f < step ? n_fine - f : step, scratch);
}

/* A single row and its second term: the weights are read once for both. */
static void run_pair(const struct products *p, int i, int first_panel, int n_out, float *scratch)
{
    const struct product *product = &p->product[i];
    const struct run *run = &p->run[i];
    const char *x = (const char *)cpu_row(&p->x->q8, 0), *rest = (const char *)cpu_row(&p->x->q8_rest, 0);
    float *out = cpu_row(&product->out, 0) + first_panel * run->kernel->nr;
    for (int first = 0; first < n_out; first += PAIR_OUTS) {
        const int n = n_out - first < PAIR_OUTS ? n_out - first : PAIR_OUTS;
        run->kernel->run(scratch, PAIR_OUTS, run->packed + (size_t)(first_panel + first / run->kernel->nr) * run->panel_bytes,
                         x, (size_t)(rest - x), 2, n, product->weight->n_in);
        for (int o = 0; o < n; o++)
            out[first + o] = scratch[o] + scratch[PAIR_OUTS + o];
    }
}

static bool is_pair(const struct activation_view *x) { return x->f32.n_row == 1 && x->q8_rest.n_row == 1; }

/* The sum is whole: bias, and what follows it. */
static void finish(const struct products *p, const struct product *product, int first, int n_out, int thread)
{
    const struct kernels *k = &p->device->kernels;
    const bool adapted = product->adaptation != NULL, fused = product->gelu && !adapted;
    const float *bias = product->bias.buffer != NULL ? cpu_row(&product->bias, 0) + first : NULL;
    for (int r = 0; bias != NULL && r < product->out.n_row; r++)
        (fused ? k->add_gelu : k->add)(cpu_row(&product->out, r) + first, bias, n_out);
    if (adapted)
        cpu_adapt_add(p->device, product, first, n_out, thread);
    for (int r = 0; product->gelu && !fused && r < product->out.n_row; r++)
        k->activate[GLU_GELU](cpu_row(&product->out, r) + first, n_out);
}

static void run_piece_rows(const struct products *p, int i, int first_panel, int n_out, float *scratch)
{
    const bool wants_q8 = p->product[i].weight->wants_q8;
    const int n_row = p->x->f32.n_row,
              step = cpu_rows_at_a_time(p->device, wants_q8 ? p->x->q8.row_bytes : p->x->f32.row_bytes);
    for (int r = 0; r < n_row; r += step)
        run_rows(p, i, first_panel, n_out, r, n_row - r < step ? n_row - r : step);
    if (wants_q8)
        run_rest(p, i, first_panel, n_out, scratch);
}

static void run_piece(void *context, int piece, int thread)
{
    const struct products *p = context;
    int i = p->n_product - 1;
    while (p->run[i].first_piece > piece)
        i--;
    const struct weight *w = p->product[i].weight;
    const int first_panel = (piece - p->run[i].first_piece) * p->run[i].n_panel, first = first_panel * p->run[i].kernel->nr;
    const int most = p->run[i].n_panel * p->run[i].kernel->nr, n_out = w->n_out - first < most ? w->n_out - first : most;
    float *scratch = p->device->rest + (size_t)thread * CPU_REST_ROWS * CPU_REST_OUTS;
    if (w->wants_q8 && is_pair(p->x))
        run_pair(p, i, first_panel, n_out, scratch);
    else
        run_piece_rows(p, i, first_panel, n_out, scratch);
    finish(p, &p->product[i], first, n_out, thread);
}

void cpu_matmul(struct device *d, const struct product *product, int n_product, const struct activation_view *x)
{
    while (n_product > 0) {
        struct products p = {.device = cpu_of(d), .product = product, .x = x};
        p.n_product = n_product < MAX_PRODUCTS ? n_product : MAX_PRODUCTS;
        cpu_adapt_inner(cpu_of(d), product, p.n_product, &x->f32);
        plan(&p, cpu_of(d)->n_thread);
        pool_run(cpu_of(d)->pool, run_piece, &p, p.n_piece);
        product += p.n_product;
        n_product -= p.n_product;
    }
}
