/* kv_read_avx2.h: keys and values of every cache type, eight at a time as floats. */
#ifndef KERNELS_X86_KV_READ_AVX2_H
#define KERNELS_X86_KV_READ_AVX2_H

#include <stdbool.h>

#include "kernels/attention.h"
#include "kernels/x86/simd_avx2.h"

/* A block's keys, [head_dim][16], or its values, [16][head_dim]. */
struct part {
    const void *at;
    const float *scale; /* int8 alone: keys [n_scale][16], values [16][n_scale] */
    int n_column, n_scale;
};

/* Eight of them as floats. */
typedef __m256 load_fn(const struct part *p, int row, int column);

/* How a type of the cache is read. */
struct reader {
    load_fn *key, *value;
    bool fetch; /* the next block line by line, one for each d */
};

SIMD_INLINE __m256 load_f32(const struct part *p, int row, int column)
{
    return _mm256_loadu_ps((const float *)p->at + row * p->n_column + column);
}
SIMD_INLINE __m256 load_f16(const struct part *p, int row, int column)
{
    return simd_load_f16((const uint16_t *)p->at + row * p->n_column + column);
}
SIMD_INLINE __m256 load_bf16(const struct part *p, int row, int column)
{
    return simd_load_bf16((const uint16_t *)p->at + row * p->n_column + column);
}

SIMD_INLINE __m256 load_int8(const struct part *p, int row, int column)
{
    const int8_t *q = (const int8_t *)p->at + row * p->n_column + column;
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)q)));
}
SIMD_INLINE __m256 load_int8_key(const struct part *p, int row, int column)
{
    return _mm256_mul_ps(load_int8(p, row, column),
                         _mm256_loadu_ps(p->scale + row / KV_SCALE_CHANNELS * ATTENTION_BLOCK + column));
}
/* The eight lie within one scale's channels. */
SIMD_INLINE __m256 load_int8_value(const struct part *p, int row, int column)
{
    const __m256 scale = _mm256_broadcast_ss(p->scale + row * p->n_scale + column / KV_SCALE_CHANNELS);
    return _mm256_mul_ps(load_int8(p, row, column), scale);
}

static const struct reader read_f32 = {load_f32, load_f32, false}, read_f16 = {load_f16, load_f16, true},
                           read_bf16 = {load_bf16, load_bf16, true}, read_int8 = {load_int8_key, load_int8_value, false};

#endif
