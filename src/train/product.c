/* product.c: packing on the fly around the f32 kernel. */
#include "train/product.h"

#include <stdlib.h>
#include <string.h>

#include "base/fp16.h"
#include "base/memory.h"

enum {
    NR = 16,                 /* outputs in a panel of floats (kernels/panel.h) */
    PART_IN = 1024,          /* longest part of a sum: a panel of it has 64 KB */
    PANEL_FLOATS = 64 << 10, /* packed at a time: 256 KB, half of a usual second-level cache */
    ADD_ROWS = 48,           /* rows that wait to be added: those of the kernel's block */
    ADD_OUTS = 256,
    ADD_FLOATS = ADD_ROWS * ADD_OUTS,
    SCRATCH_FLOATS = PANEL_FLOATS + ADD_FLOATS,
    THIN_OUTS = 4 * NR,
    PIECE_ROWS = 1536, /* enough for panels that each piece packs again: a panel costs a hundredth of what it is used for */
    ROUND_PIECE = 1 << 14,
    TRANSPOSE_ROWS = 32
};

enum mr_status compute_init(struct compute *c, struct thread_pool *pool, unsigned cpu_features, size_t n_transposed,
                            struct mr_error *err)
{
    *c = (struct compute){.pool = pool, .n_thread = pool_n_thread(pool), .n_transposed = n_transposed};
    size_t scratch, transposed;
    kernels_select(&c->kernels, cpu_features);
    if (!size_mul(&scratch, (size_t)c->n_thread, SCRATCH_FLOATS * sizeof(float)) ||
        !size_mul(&transposed, n_transposed, sizeof(float)))
        return mr_fail(err, MR_NO_MEMORY, "no memory for products of %zu floats", n_transposed);
    c->panels = mem_aligned(64, scratch);
    c->transposed = mem_aligned(64, transposed + 64);
    if (c->panels != NULL && c->transposed != NULL)
        return MR_OK;
    compute_release(c);
    return mr_fail(err, MR_NO_MEMORY, "no memory for products of %zu floats", n_transposed);
}

void compute_release(struct compute *c)
{
    free(c->panels);
    free(c->transposed);
    c->panels = c->transposed = NULL;
}

float *compute_scratch(const struct compute *c, int thread) { return c->panels + (size_t)thread * SCRATCH_FLOATS; }

static int min_int(int a, int b) { return a < b ? a : b; }

/* Parts of about the same length. */
static int part_length(int n_in)
{
    const int n_part = (n_in - 1) / PART_IN + 1;
    return (n_in - 1) / n_part + 1;
}

/* Outputs of the panels that fit into the scratch beside each other. */
static int outs_at_once(int n_in) { return min_int(PANEL_FLOATS / part_length(n_in) / NR * NR, ADD_OUTS); }

/* The product of bf16 weights: of activations that it rounds itself, where there is one. */
static const struct matmul *bf16_kernel(const struct compute *c)
{
    const struct matmul *own = c->kernels.matmul[QUANT_BF16];
    return &own[own[ACTIVATION_BF16].name != NULL ? ACTIVATION_BF16 : ACTIVATION_F32];
}

/* As pack, [n_in][16] of bf16. */
static void pack_bf16(uint16_t *panel, const struct small_product *p, int o, int n_out, int first, int n_in)
{
    const size_t by_out = p->columns ? 1 : p->ld_w, by_in = p->columns ? p->ld_w : 1;
    const float *from = p->w + (size_t)o * by_out + (size_t)first * by_in;
    memset(panel, 0, n_out < NR ? sizeof *panel * NR * (size_t)n_in : 0);
    for (int k = 0; k < n_in; k++)
        for (int i = 0; i < n_out; i++)
            panel[(size_t)k * NR + (size_t)i] = bf16_from_f32(from[(size_t)i * by_out + (size_t)k * by_in]);
}

/* Panel of outputs o <= i < o + n_out <= o + 16, terms first <= k < first + n_in. */
static void pack(const struct compute *c, float *panel, const struct small_product *p, int o, int n_out, int first, int n_in)
{
    if (!p->columns) {
        c->kernels.matmul[QUANT_F32][ACTIVATION_F32].pack(panel, p->w + (size_t)o * p->ld_w + first, p->ld_w * sizeof(float),
                                                          n_out, n_in);
        return;
    }
    const float *from = p->w + (size_t)first * p->ld_w + o;
    for (int k = 0; k < n_in; k++, from += p->ld_w, panel += NR) {
        if (n_out == NR) {
            memcpy(panel, from, NR * sizeof *panel);
            continue;
        }
        memcpy(panel, from, (size_t)n_out * sizeof *panel);
        memset(panel + n_out, 0, (size_t)(NR - n_out) * sizeof *panel);
    }
}

/* The packed panels times all rows, to outputs from o on. */
static void multiply(const struct compute *c, const struct small_product *p, float *scratch, int o, int n_out, int first,
                     int n_in, bool add)
{
    const struct matmul *m = p->is_bf16 ? bf16_kernel(c) : &c->kernels.matmul[QUANT_F32][ACTIVATION_F32];
    float *sums = scratch + PANEL_FLOATS;
    if (!add) {
        m->run(p->out + o, p->ld_out, scratch, p->x + first, p->ld_x * sizeof(float), p->n_row, n_out, n_in);
        return;
    }
    for (int r = 0; r < p->n_row; r += ADD_ROWS) {
        const int n = min_int(ADD_ROWS, p->n_row - r);
        m->run(sums, ADD_OUTS, scratch, p->x + (size_t)r * p->ld_x + first, p->ld_x * sizeof(float), n, n_out, n_in);
        for (int i = 0; i < n; i++)
            c->kernels.add(p->out + (size_t)(r + i) * p->ld_out + o, sums + (size_t)i * ADD_OUTS, n_out);
    }
}

void product_small(const struct compute *c, const struct small_product *p, float *scratch)
{
    const int part = part_length(p->n_in), outs = outs_at_once(p->n_in);
    for (int o = 0; o < p->n_out; o += outs) {
        const int n_out = min_int(outs, p->n_out - o);
        for (int first = 0; first < p->n_in; first += part) {
            const int n_in = min_int(part, p->n_in - first);
            for (int i = 0; i < n_out; i += NR) {
                const size_t at = (size_t)i * (size_t)n_in;
                if (p->is_bf16)
                    pack_bf16((uint16_t *)scratch + at, p, o + i, min_int(NR, n_out - i), first, n_in);
                else
                    pack(c, scratch + at, p, o + i, min_int(NR, n_out - i), first, n_in);
            }
            multiply(c, p, scratch, o, n_out, first, n_in, p->add || first > 0);
        }
    }
}

/* A product cut into pieces by outputs; one of very many rows by rows, which would otherwise be read once for each piece, and
 * so one of few outputs, which would keep one thread busy. */
struct cut {
    const struct compute *c;
    struct small_product whole;
    int rows, outs; /* of a piece: of one of the two all */
};

static void multiply_piece(void *context, int piece, int thread)
{
    const struct cut *cut = context;
    struct small_product p = cut->whole;
    const int o = cut->rows < p.n_row ? 0 : piece * cut->outs, r = cut->rows < p.n_row ? piece * cut->rows : 0;
    p.n_out = min_int(cut->outs, p.n_out - o);
    p.n_row = min_int(cut->rows, p.n_row - r);
    p.x += (size_t)r * p.ld_x;
    p.out += (size_t)r * p.ld_out + (size_t)o;
    p.w += p.columns ? (size_t)o : (size_t)o * p.ld_w;
    product_small(cut->c, &p, compute_scratch(cut->c, thread));
}

struct rounding {
    float *to;
    const float *from;
    size_t n;
};

static void round_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rounding *a = context;
    const size_t first = (size_t)piece * ROUND_PIECE, end = a->n - first < ROUND_PIECE ? a->n : first + ROUND_PIECE;
    for (size_t i = first; i < end; i++)
        a->to[i] = f32_from_bf16(bf16_from_f32(a->from[i]));
}

/* Rows of x as the kernel wants them. */
static const float *rounded(struct compute *c, const float *x, int n_row, int n_in)
{
    struct rounding a = {c->transposed, x, (size_t)n_row * (size_t)n_in};
    if (!c->is_bf16 || bf16_kernel(c)->activation == ACTIVATION_BF16)
        return x;
    pool_run(c->pool, round_piece, &a, (int)((a.n - 1) / ROUND_PIECE + 1));
    return c->transposed;
}

static void run(struct compute *c, const struct small_product *p)
{
    const int share = p->n_out / (4 * c->n_thread) / NR * NR, most = outs_at_once(p->n_in);
    struct cut cut = {c, *p, p->n_row, share < NR ? NR : min_int(share, most)};
    cut.whole.is_bf16 = c->is_bf16;
    const bool is_thin = p->n_out <= THIN_OUTS && p->n_row >= 2 * ADD_ROWS;
    if (is_thin || p->n_row >= 4 * c->n_thread * PIECE_ROWS) {
        const int rows = (p->n_row / (4 * c->n_thread) / ADD_ROWS + 1) * ADD_ROWS;
        cut.rows = is_thin ? min_int(rows, PIECE_ROWS) : PIECE_ROWS;
        cut.outs = p->n_out;
        pool_run(c->pool, multiply_piece, &cut, (p->n_row - 1) / cut.rows + 1);
    } else
        pool_run(c->pool, multiply_piece, &cut, (p->n_out - 1) / cut.outs + 1);
}

void product_forward(struct compute *c, float *y, const float *x, const float *w, int n_row, int n_out, int n_in, bool add)
{
    const struct small_product p = {.out = y,
                                    .x = rounded(c, x, n_row, n_in),
                                    .w = w,
                                    .ld_out = (size_t)n_out,
                                    .ld_x = (size_t)n_in,
                                    .ld_w = (size_t)n_in,
                                    .n_row = n_row,
                                    .n_out = n_out,
                                    .n_in = n_in,
                                    .add = add};
    run(c, &p);
}

void product_input_grad(struct compute *c, float *dx, const float *dy, const float *w, int n_row, int n_out, int n_in, bool add)
{
    const struct small_product p = {.out = dx,
                                    .x = rounded(c, dy, n_row, n_out),
                                    .w = w,
                                    .ld_out = (size_t)n_in,
                                    .ld_x = (size_t)n_out,
                                    .ld_w = (size_t)n_in,
                                    .n_row = n_row,
                                    .n_out = n_in,
                                    .n_in = n_out,
                                    .columns = true,
                                    .add = add};
    run(c, &p);
}

struct transpose {
    float *to;
    const float *from;
    int n_row, n_column;
    bool rounds; /* to bf16 */
};

/* TRANSPOSE_ROWS columns become rows. */
static void transpose_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct transpose *t = context;
    const int first = piece * TRANSPOSE_ROWS, end = min_int(t->n_column, first + TRANSPOSE_ROWS);
    for (int r0 = 0; r0 < t->n_row; r0 += NR)
        for (int i = first; i < end; i++)
            for (int r = r0; r < min_int(t->n_row, r0 + NR); r++)
                t->to[(size_t)i * (size_t)t->n_row + (size_t)r] = t->from[(size_t)r * (size_t)t->n_column + (size_t)i];
    for (size_t i = (size_t)first * (size_t)t->n_row; t->rounds && i < (size_t)end * (size_t)t->n_row; i++)
        t->to[i] = f32_from_bf16(bf16_from_f32(t->to[i]));
}

void product_weight_grad(struct compute *c, float *dw, const float *dy, const float *x, int n_row, int n_out, int n_in)
{
    struct transpose t = {c->transposed, dy, n_row, n_out, c->is_bf16};
    const struct small_product p = {.out = dw,
                                    .x = c->transposed,
                                    .w = x,
                                    .ld_out = (size_t)n_in,
                                    .ld_x = (size_t)n_row,
                                    .ld_w = (size_t)n_in,
                                    .n_row = n_out,
                                    .n_out = n_in,
                                    .n_in = n_row,
                                    .columns = true,
                                    .add = true};
    pool_run(c->pool, transpose_piece, &t, (n_out - 1) / TRANSPOSE_ROWS + 1);
    run(c, &p);
}
