/* kernels.h: inner loops on one thread, behind one table. The scalar reference fills the table first, each better
 * instruction set overwrites what it does better. A kernel neither allocates, logs, starts threads nor reads globals.
 * The numeric rule (docs/architecture.md): a row's bits depend on that row alone, never on n_row or on tiles; float
 * sums run in ascending order with one accumulator per output; no libm, no reciprocal approximations. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/attention.h"
#include "quant/quant.h"

enum {
    Q8_BLOCK = 32
}; /* activations in one int8 block */

/* An activation row of n values in int8: the values q[n], then for each block of 32 a scale d, the product d * (s0 + s1)
 * and the pair s0, s1: the sums of q over the block's first and second half. n is padded with zeros to whole blocks; the
 * row's bytes are a multiple of 64 and rows are 64-byte aligned. x ~ d * q, q in -127..127, d = max |x| / 127. A block
 * that holds an infinity or a NaN has d = NaN and q = 0, so that every product with it is NaN; a block whose maximum
 * lies below 2^-100 is zero. */
static inline int q8_n_blocks(int n) { return (n + Q8_BLOCK - 1) / Q8_BLOCK; }
static inline size_t q8_row_bytes(int n)
{
    const size_t bytes = (size_t)q8_n_blocks(n) * (Q8_BLOCK + 2 * sizeof(float) + 2 * sizeof(int16_t));
    return (bytes + 63) / 64 * 64;
}
static inline const int8_t *q8_q(const void *row) { return (const int8_t *)row; }
static inline const float *q8_d(const void *row, int n)
{
    return (const float *)((const char *)row + (size_t)q8_n_blocks(n) * Q8_BLOCK);
}
static inline const float *q8_ds(const void *row, int n) { return q8_d(row, n) + q8_n_blocks(n); }
/* Block b's sums are at [2 * b] and [2 * b + 1]. */
static inline const int16_t *q8_s(const void *row, int n) { return (const int16_t *)(q8_ds(row, n) + q8_n_blocks(n)); }

enum activation {
    ACTIVATION_F32,
    ACTIVATION_Q8,
    ACTIVATION_BF16, /* floats, which the product rounds to bf16 */
    N_ACTIVATIONS
};

/* A product with weights of one block type. Weights are packed into panels of nr outputs each (the last one padded with
 * zero weights); a packed layout is meaningful only to the kernel it was made for. Weights are w[n_out][n_in]. */
struct matmul {
    const char *name;           /* "q4_0_q8_avx2", shown by inspect; NULL: this table has no such product */
    int nr;                     /* outputs in a panel */
    enum activation activation; /* what x holds: float[n_in], or for ACTIVATION_Q8 an int8 row as above */
    size_t (*panel_bytes)(int n_in);
    /* One panel from n_out <= nr rows of the file, row_bytes apart. */
    void (*pack)(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in);
    /* Row `o` of the panel back as floats, bit-identical to the block type's decode (embedding look-up on tied weights). */
    void (*unpack)(float *out, const void *panel, int o, int n_in);
    /* out[r * ld_out + o] = sum_k w[o][k] x[r][k] for r < n_row, o < n_out. packed: at a panel's start, the following
     * panels behind it; ld_out in floats, ld_x in bytes. Nothing is written at o >= n_out. */
    void (*run)(float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out, int n_in);
};

enum rope_style {
    ROPE_PAIRS,  /* rotates (x[2i], x[2i+1]) */
    ROPE_HALVES, /* rotates (x[i], x[i + n_rot/2]) */
    N_ROPE_STYLES
};

enum glu_kind {
    GLU_SILU, /* x / (1 + exp(-x)) */
    GLU_GELU, /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    N_GLU_KINDS
};

struct kernels {
    const char *isa; /* the best level in this table */
    struct matmul matmul[QUANT_TYPE_END][N_ACTIVATIONS];
    /* x[n] to an int8 row. */
    void (*quantize_q8)(void *row, const float *x, int n);
    /* x[n] - d q, where d and q are those of `row`, to another int8 row. */
    void (*quantize_q8_rest)(void *rest, const void *row, const float *x, int n);
    /* out[i] = x[i] * w[i] / sqrt(mean x^2 + eps); out may be x. */
    void (*rms_norm)(float *out, const float *x, const float *w, float eps, int n);
    /* out[i] = (x[i] - mean) * w[i] / sqrt(variance + eps) + b[i]; out may be x. Ba et al. 2016, arXiv:1607.06450. */
    void (*layer_norm)(float *out, const float *x, const float *w, const float *b, float eps, int n);
    /* out[i] = f(that), f as in GLU_GELU: one pass over a row in front of a product. */
    void (*layer_norm_gelu)(float *out, const float *x, const float *w, const float *b, float eps, int n);
    /* x[i] = f(x[i]) */
    void (*activate[N_GLU_KINDS])(float *x, int n);
    /* x[i] = f(x[i] + b[i]): what stands behind a product. */
    void (*add_gelu)(float *x, const float *b, int n);
    /* x[i] += y[i] */
    void (*add)(float *x, const float *y, int n);
    /* x[i] *= y[i] */
    void (*multiply)(float *x, const float *y, int n);
    /* x[i] += y[i] * s */
    void (*add_scaled)(float *x, const float *y, float s, int n);
    /* x[i] *= s */
    void (*scale)(float *x, float s, int n);
    /* x[i] = cap * tanh(x[i] / cap) */
    void (*soft_cap)(float *x, float cap, int n);
    /* out[i] = f(gate[i]) * up[i]; out may be gate. */
    void (*glu[N_GLU_KINDS])(float *out, const float *gate, const float *up, int n);
    /* Turn the n_rot / 2 pairs of one head by the angles whose cosines and sines are given. */
    void (*rope[N_ROPE_STYLES])(float *x, const float *cosine, const float *sine, int n_rot);
    /* Round k[head_dim], v[head_dim] and write them as token `slot` (0 to 15) of one KV head's part of a block. */
    void (*kv_write[N_KV_TYPES])(void *head_block, int slot, const float *k, const float *v, int head_dim);
    void (*attention[N_KV_TYPES])(const struct attention_job *job);
    /* (m, l, acc) = the state after the positions of (m, l, acc) and, behind them, those of (m2, l2, acc2). */
    void (*attention_merge)(float *m, float *l, float *acc, float m2, float l2, const float *acc2, int head_dim);
    /* out[d] = acc[d] / l */
    void (*attention_finish)(float *out, const float *acc, float l, int head_dim);
};

/* Fill *k with the best kernels for this CPU. */
void kernels_select(struct kernels *k, unsigned cpu_features);

#endif
