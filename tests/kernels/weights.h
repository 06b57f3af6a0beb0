/* weights.h: rows of weights of every block type for the kernel tests: random, extreme, zero. */
#ifndef TESTS_KERNELS_WEIGHTS_H
#define TESTS_KERNELS_WEIGHTS_H

#include "base/fp16.h"
#include "check.h"
#include "quant/sparse.h"

enum fill {
    FILL_RANDOM,    /* any integers, scales about 0.01 */
    FILL_EXACT,     /* any integers, scales that are powers of two: float sums of short rows are exact */
    FILL_ALL_ONES,  /* the largest integers */
    FILL_ALL_ZEROS, /* the smallest integers */
    FILL_NO_SCALE,  /* scales zero */
    FILL_DENORMAL,  /* scales denormal in f16 */
    N_FILLS
};

/* Where the f16 scales of a block stand; -1: none. */
struct scale_place {
    int first, second;
};

static inline struct scale_place scale_place(enum quant_type type)
{
    static const struct scale_place at[QUANT_TYPE_END] = {
        [QUANT_Q4_0] = {0, -1},      [QUANT_Q4_1] = {0, 2},       [QUANT_Q5_0] = {0, -1},      [QUANT_Q5_1] = {0, 2},
        [QUANT_Q8_0] = {0, -1},      [QUANT_Q2_K] = {80, 82},     [QUANT_Q3_K] = {108, -1},    [QUANT_Q4_K] = {0, 2},
        [QUANT_Q5_K] = {0, 2},       [QUANT_Q6_K] = {208, -1},    [QUANT_IQ4_NL] = {0, -1},    [QUANT_Q8_0_2OF4] = {0, -1},
        [QUANT_Q8_0_4OF8] = {0, -1}, [QUANT_Q4_0_2OF4] = {0, -1}, [QUANT_Q4_0_4OF8] = {0, -1},
    };
    return at[type];
}

static inline uint16_t fill_scale(struct check *c, enum fill fill)
{
    switch (fill) {
    case FILL_EXACT:
        return f16_from_f32(check_random(c) & 1 ? 0x1p-6f : -0x1p-7f);
    case FILL_NO_SCALE:
        return 0;
    case FILL_DENORMAL:
        return (uint16_t)(check_random(c) & 0x83ff);
    default:
        return f16_from_f32(0.01f * check_gauss(c));
    }
}

static inline float fill_float(struct check *c, enum fill fill)
{
    switch (fill) {
    case FILL_EXACT:
        return (float)((int)(check_random(c) % 31) - 15) * 0x1p-5f;
    case FILL_ALL_ONES:
        return 1000;
    case FILL_ALL_ZEROS:
        return -1000;
    case FILL_NO_SCALE:
        return check_random(c) & 1 ? 0.0f : -0.0f;
    case FILL_DENORMAL:
        return check_uniform(c) * 0x1p-130f;
    default:
        return 0.1f * check_gauss(c);
    }
}

/* Every type: those that store all weights, then the others. */
static inline const struct quant *any_quant_at(int i)
{
    int n = 0;
    while (quant_at(n) != NULL)
        n++;
    return i < n ? quant_at(i) : quant_sparse_at(i - n);
}

/* Any map that the pattern allows; in extreme fills the first or the last weights of each group. */
static inline void fill_map(struct check *c, enum fill fill, const struct quant_pattern *pattern, uint8_t *map)
{
    float score[Q8_BLOCK];
    for (int i = 0; i < Q8_BLOCK; i++)
        score[i] = fill == FILL_ALL_ONES ? (float)i : fill == FILL_ALL_ZEROS ? 0 : check_uniform(c);
    sparse_choose(map, score, Q8_BLOCK, pattern->kept, pattern->of);
}

/* Those with float weights and a map. */
static inline void fill_bf16_blocks(struct check *c, enum fill fill, const struct quant *q, uint8_t *rows, size_t n_block)
{
    for (size_t b = 0; b < n_block; b++) {
        struct block_bf16_sparse block;
        fill_map(c, fill, quant_pattern(q), block.map);
        for (int i = 0; i < SPARSE_KEPT; i++)
            block.w[i] = bf16_from_f32(fill_float(c, fill));
        memcpy(rows + b * q->bytes, &block, sizeof block);
    }
}

static inline void fill_blocks(struct check *c, enum fill fill, const struct quant *q, uint8_t *rows, size_t n_block)
{
    const struct scale_place at = scale_place(q->type);
    for (size_t i = 0; i < n_block * q->bytes; i++)
        rows[i] = (uint8_t)(fill == FILL_ALL_ONES ? 0xff : fill == FILL_ALL_ZEROS ? 0 : check_random(c));
    for (size_t b = 0; b < n_block; b++) {
        const uint16_t first = fill_scale(c, fill), second = fill_scale(c, fill);
        memcpy(rows + b * q->bytes + at.first, &first, 2);
        if (quant_pattern(q) != NULL)
            fill_map(c, fill, quant_pattern(q), rows + b * q->bytes + 2);
        if (at.second >= 0)
            memcpy(rows + b * q->bytes + at.second, &second, 2);
    }
}

/* n_out rows of n_in weights; free with check_free. */
static inline uint8_t *fill_weights(struct check *c, enum fill fill, const struct quant *q, int n_out, int n_in)
{
    const size_t n = (size_t)n_out * (size_t)n_in;
    uint8_t *rows = check_alloc(n / (size_t)q->block * q->bytes);
    if (quant_pattern(q) != NULL && quant_pattern(q)->dense == QUANT_BF16) {
        fill_bf16_blocks(c, fill, q, rows, n / (size_t)q->block);
        return rows;
    }
    if (q->block > 1) {
        fill_blocks(c, fill, q, rows, n / (size_t)q->block);
        return rows;
    }
    for (size_t i = 0; i < n; i++) {
        const float f = fill_float(c, fill);
        q->encode(rows + i * q->bytes, &f, 1);
    }
    return rows;
}

/* The matrix in panels; free with check_free. */
static inline void *pack_weights(const struct matmul *m, const uint8_t *rows, size_t row_bytes, int n_out, int n_in)
{
    const size_t bytes = m->panel_bytes(n_in);
    char *packed = check_alloc((size_t)((n_out + m->nr - 1) / m->nr) * bytes);
    for (int o = 0, i = 0; o < n_out; o += m->nr, i++)
        m->pack(packed + (size_t)i * bytes, rows + (size_t)o * row_bytes, row_bytes, n_out - o < m->nr ? n_out - o : m->nr,
                n_in);
    return packed;
}

#endif
