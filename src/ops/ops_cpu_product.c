/* ops_cpu_product.c: one piece of a product: its rows, and the second terms of those that are fine. */
#include "ops/ops_cpu_product.h"

enum {
    /* A single row reads weights once. Shorter pieces begin too often with an empty prefetch; what takes more than 100
     * microseconds would keep others waiting for a thread that was descheduled. */
    ONE_ROW_MIN = 64 << 10,
    ONE_ROW_MAX = 768 << 10,
    PAIR_OUTS = CPU_REST_ROWS * CPU_REST_OUTS / 2
};

static int at_most(int n, size_t limit) { return (size_t)n < limit ? n : (int)limit; }

size_t cpu_piece_bytes(const struct cpu_device *d, size_t bytes, bool one_row)
{
    const size_t share = bytes / (4 * (size_t)d->n_thread);
    if (!one_row)
        return share < CPU_PIECE_BYTES ? share : CPU_PIECE_BYTES;
    return share < ONE_ROW_MIN ? ONE_ROW_MIN : share < ONE_ROW_MAX ? share : ONE_ROW_MAX;
}

static int round_up(int n) { return (n + CPU_PIECE_ROWS - 1) / CPU_PIECE_ROWS * CPU_PIECE_ROWS; }

/* Of n_row, those whose products with `panels` panels are work enough: whole looks of so many rows, where it is one or more. */
static int rows_of_piece(int n_row, size_t work, size_t panels, int look)
{
    const size_t most = work / panels, step = most < (size_t)look ? CPU_PIECE_ROWS : (size_t)look;
    return at_most(n_row, most < step ? step : most / step * step);
}

struct cpu_cut cpu_cut_product(const struct weight *w, const struct activation_view *x, int n_row, size_t piece_bytes)
{
    const struct matmul *m = w->kernel;
    const int n_all = (w->n_out - 1) / m->nr + 1, look = cpu_rows_in_cache(w->wants_q8 ? x->q8.row_bytes : x->f32.row_bytes);
    const size_t work = CPU_PIECE_WORK / ((size_t)w->n_in * (size_t)m->nr); /* rows times panels */
    const size_t by_bytes = piece_bytes / m->panel_bytes(w->n_in);
    struct cpu_cut cut = {at_most(n_all, by_bytes < 1 ? 1 : by_bytes), n_row, 1, 0};
    if (n_row > 1) {
        const int rows = rows_of_piece(n_row < look ? n_row : look, work, CPU_PIECE_PANELS, look);
        const size_t panels = work / (size_t)rows / 2 * 2;
        cut.n_panel = at_most(cut.n_panel, panels < 2 ? 2 : panels);
        cut.n_row = rows_of_piece(n_row, work, (size_t)cut.n_panel, look);
        cut.n_row = round_up((n_row - 1) / ((n_row - 1) / cut.n_row + 1) + 1); /* of about the same size */
    }
    cut.row_pieces = (n_row - 1) / cut.n_row + 1;
    cut.n_piece = ((n_all - 1) / cut.n_panel + 1) * cut.row_pieces;
    return cut;
}

struct cpu_block cpu_block_at(const struct cpu_cut *cut, int piece, const struct product *product,
                              const struct activation_view *x, const char *packed, int first_row, int n_row)
{
    const int row = piece % cut->row_pieces * cut->n_row, rows = n_row - row < cut->n_row ? n_row - row : cut->n_row;
    return (struct cpu_block){.product = product,
                              .x = x,
                              .packed = packed,
                              .first_panel = piece / cut->row_pieces * cut->n_panel,
                              .n_panel = cut->n_panel,
                              .first_row = first_row + row,
                              .end_row = first_row + row + rows};
}

static const char *panel_at(const struct cpu_block *b, int first_out)
{
    const struct weight *w = b->product->weight;
    const struct matmul *m = w->kernel;
    return b->packed + (size_t)(b->first_panel + first_out / m->nr) * m->panel_bytes(w->n_in);
}

static void multiply_rows(const struct cpu_device *d, const struct cpu_block *b)
{
    const struct weight *w = b->product->weight;
    const struct matmul *m = w->kernel;
    const struct tensor *x = w->wants_q8 ? &b->x->q8 : &b->x->f32, *out = &b->product->out;
    const int step = d->untiled ? 1 : cpu_rows_in_cache(x->row_bytes), first = cpu_block_first_out(b);
    for (int r = b->first_row; r < b->end_row; r += step)
        m->run(cpu_row(out, r) + first, out->row_bytes / sizeof(float), panel_at(b, 0), cpu_row(x, r), x->row_bytes,
               b->end_row - r < step ? b->end_row - r : step, cpu_block_n_out(b), w->n_in);
}

/* The second terms of the fine rows f <= i < f + n_row of the list, added to n_out outputs from the block's o-th on. */
static void add_rest(const struct cpu_block *b, int f, int n_row, int o, int n_out, float *scratch)
{
    const struct tensor *rest = &b->x->q8_rest;
    const struct weight *w = b->product->weight;
    ((const struct matmul *)w->kernel)
        ->run(scratch, CPU_REST_OUTS, panel_at(b, o), cpu_row(rest, f), rest->row_bytes, n_row, n_out, w->n_in);
    for (int r = 0; r < n_row; r++) {
        float *out = cpu_row(&b->product->out, cpu_fine_rows(b->x)[f + r]) + cpu_block_first_out(b) + o;
        for (int i = 0; i < n_out; i++)
            out[i] += scratch[r * CPU_REST_OUTS + i];
    }
}

static void add_rests(const struct cpu_device *d, const struct cpu_block *b, int first, int end, float *scratch)
{
    const int n_out = cpu_block_n_out(b), step = d->untiled ? 1 : CPU_REST_ROWS;
    for (int o = 0; o < n_out; o += CPU_REST_OUTS)
        for (int f = first; f < end; f += step)
            add_rest(b, f, end - f < step ? end - f : step, o, n_out - o < CPU_REST_OUTS ? n_out - o : CPU_REST_OUTS, scratch);
}

/* A single row and its second term, which is `fine` of the list: the weights are read once for both. */
static void multiply_pair(const struct cpu_block *b, int fine, float *scratch)
{
    const struct weight *w = b->product->weight;
    const char *x = (const char *)cpu_row(&b->x->q8, b->first_row), *rest = (const char *)cpu_row(&b->x->q8_rest, fine);
    const int n_out = cpu_block_n_out(b);
    float *out = cpu_row(&b->product->out, b->first_row) + cpu_block_first_out(b);
    for (int first = 0; first < n_out; first += PAIR_OUTS) {
        const int n = n_out - first < PAIR_OUTS ? n_out - first : PAIR_OUTS;
        ((const struct matmul *)w->kernel)->run(scratch, PAIR_OUTS, panel_at(b, first), x, (size_t)(rest - x), 2, n, w->n_in);
        for (int o = 0; o < n; o++)
            out[first + o] = scratch[o] + scratch[PAIR_OUTS + o];
    }
}

void cpu_multiply(struct cpu_device *d, const struct cpu_block *b, int thread)
{
    float *scratch = d->rest + (size_t)thread * CPU_REST_ROWS * CPU_REST_OUTS;
    int fine = 0, end = 0;
    if (b->product->weight->wants_q8) {
        fine = cpu_lower_bound(cpu_fine_rows(b->x), b->x->q8_rest.n_row, b->first_row);
        end = cpu_lower_bound(cpu_fine_rows(b->x), b->x->q8_rest.n_row, b->end_row);
    }
    if (b->end_row - b->first_row == 1 && end - fine == 1) {
        multiply_pair(b, fine, scratch);
        return;
    }
    multiply_rows(d, b);
    add_rests(d, b, fine, end, scratch);
}
