/* quant.h: block types of weights: layout, encode, decode. One file per type, one row in quant.c.
 * A block type stores `block` consecutive weights of a row in `bytes` bytes. Numbers and layouts are those of the
 * GGUF specification (ggml type ids); decode is bit-identical to the PyPI package gguf. Types that store only some weights
 * (sparse.h) are ours. */
#ifndef QUANT_QUANT_H
#define QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum quant_type { /* ids in a file */
    QUANT_F32 = 0,
    QUANT_F16 = 1,
    QUANT_Q4_0 = 2,
    QUANT_Q4_1 = 3,
    QUANT_Q5_0 = 6,
    QUANT_Q5_1 = 7,
    QUANT_Q8_0 = 8,
    QUANT_Q2_K = 10,
    QUANT_Q3_K = 11,
    QUANT_Q4_K = 12,
    QUANT_Q5_K = 13,
    QUANT_Q6_K = 14,
    QUANT_IQ4_NL = 20,
    QUANT_BF16 = 30,
    QUANT_Q8_0_2OF4 = 112, /* ours: sparse.h */
    QUANT_Q8_0_4OF8 = 113,
    QUANT_Q4_0_2OF4 = 114,
    QUANT_Q4_0_4OF8 = 115,
    QUANT_BF16_2OF4 = 116,
    QUANT_BF16_4OF8 = 117,
    QUANT_TYPE_END = 118 /* one past the largest id: arrays indexed by type have this many places */
};

struct quant {
    enum quant_type type;
    const char *name; /* lower case, as users type it: "q4_k" */
    int block;        /* weights in a block */
    size_t bytes;     /* bytes of a block */
    /* out[n] from n / block blocks; n is a multiple of block. in may be unaligned. */
    void (*decode)(float *out, const void *in, size_t n);
    /* The reverse, by rounding to the nearest value that the type's scales allow. */
    void (*encode)(void *out, const float *in, size_t n);
};

/* NULL: this build does not know the type. */
const struct quant *quant_find(uint32_t type);
const struct quant *quant_find_name(const char *name);

/* The i-th known type that stores all weights, NULL past the end. */
const struct quant *quant_at(int i);

/* No weight among n (a multiple of block) is a NaN or an infinity: none has a scale that is. */
bool quant_is_finite(const struct quant *q, const void *blocks, size_t n);

/* Bytes of a row of n weights; 0 where n is not a multiple of the block. */
size_t quant_row_bytes(const struct quant *q, size_t n);

#endif
