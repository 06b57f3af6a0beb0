/* panel_avx512.h: blocks of packed weights in AVX-512 registers, one register for a step of a whole panel. The block type is a
 * constant: inlined, a type leaves only its own instructions. */
#ifndef KERNELS_X86_PANEL_AVX512_H
#define KERNELS_X86_PANEL_AVX512_H

#include "kernels/panel.h"
#include "kernels/x86/simd_avx512.h"

/* u of step s. */
SIMD512_INLINE __m512i load_step(enum quant_type type, const uint8_t *planes, int s)
{
    const struct panel_format f = panel_formats[type];
    if (f.byte)
        return simd512_load(planes + s * PANEL_STEP);
    __m512i u = _mm512_setzero_si512();
    int low = 0;
    if (f.nibble) {
        u = simd512_shift_mask(simd512_load(planes + s / 2 * PANEL_STEP), 4 * (s % 2), 15);
        planes += 4 * PANEL_STEP;
        low = 4;
    }
    if (type == QUANT_IQ4_NL)
        return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)panel_iq4_nl)), u);
    if (f.two) {
        const __m512i bits = simd512_shift_mask(simd512_load(planes + s / 4 * PANEL_STEP), 2 * (s % 4) - low, 3 << low);
        u = low == 0 ? bits : _mm512_or_si512(u, bits);
        planes += 2 * PANEL_STEP;
        low += 2;
    }
    if (f.one)
        u = _mm512_or_si512(u, simd512_shift_mask(simd512_load(planes), s - low, 1 << low));
    return u;
}

/* What the integers of a block do to its sums. */
enum kind {
    KIND_PLAIN,     /* no integer scales, no minimum */
    KIND_FLOAT_MIN, /* no integer scales, a float minimum */
    KIND_SCALE_MIN, /* one scale and one minimum for the block */
    KIND_HALVES,    /* a scale for each half */
    KIND_HALVES_MIN /* a scale and a minimum for each half */
};

SIMD512_INLINE enum kind kind_of(enum quant_type type)
{
    const struct panel_format f = panel_formats[type];
    switch (f.scale) {
    case PANEL_SCALE_NONE:
        return f.has_min ? KIND_FLOAT_MIN : KIND_PLAIN;
    case PANEL_SCALE_MIN:
        return KIND_SCALE_MIN;
    case PANEL_SCALE_HALVES:
        return KIND_HALVES;
    default:
        return KIND_HALVES_MIN;
    }
}

SIMD512_INLINE bool has_halves(enum kind kind) { return kind == KIND_HALVES || kind == KIND_HALVES_MIN; }

/* The scales of one block. Integer scales stand as floats: their products with integer sums are below 2^24, hence exact. */
struct block_scales {
    __m512 d, m;
    __m512 scale[2]; /* of the halves, or [0] of the block */
    __m512i minimum; /* int16 pairs that multiply the sums s0, s1 */
};

SIMD512_INLINE __m512i pair_of(__m512i first, __m512i second)
{
    return _mm512_mask_blend_epi16(0xaaaaaaaa, first, _mm512_slli_epi32(second, 16));
}

SIMD512_INLINE struct block_scales load_scales(enum quant_type type, const uint8_t *head, const uint8_t *body)
{
    const enum kind kind = kind_of(type);
    struct block_scales b;
    b.d = simd512_load_f16(head);
    b.m = panel_formats[type].has_min ? simd512_load_f16(head + PANEL_HALVES) : b.d;
    b.scale[0] = b.scale[1] = b.d; /* what no kind reads */
    b.minimum = _mm512_setzero_si512();
    if (kind == KIND_PLAIN || kind == KIND_FLOAT_MIN)
        return b;
    const __m128i bytes[2] = {_mm_loadu_si128((const __m128i *)body), _mm_loadu_si128((const __m128i *)(body + PANEL_NR))};
    if (kind == KIND_HALVES) {
        b.scale[0] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes[0]));
        b.scale[1] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes[1]));
        return b;
    }
    const __m512i first = _mm512_cvtepu8_epi32(bytes[0]), second = _mm512_cvtepu8_epi32(bytes[1]);
    if (kind == KIND_SCALE_MIN) {
        b.scale[0] = _mm512_cvtepi32_ps(first);
        b.minimum = pair_of(second, second);
        return b;
    }
    const __m512i low = _mm512_set1_epi32(15);
    b.scale[0] = _mm512_cvtepi32_ps(_mm512_and_si512(first, low));
    b.scale[1] = _mm512_cvtepi32_ps(_mm512_and_si512(second, low));
    b.minimum = pair_of(_mm512_srli_epi32(first, 4), _mm512_srli_epi32(second, 4));
    return b;
}

/* One row of activations in one block. */
struct block_row {
    const int8_t *q;
    float d, ds;
    const int16_t *s; /* the two sums */
};

SIMD512_INLINE struct block_row load_row(const void *row, int n_in, int b)
{
    return (struct block_row){q8_q(row) + b * Q8_BLOCK, q8_d(row, n_in)[b], q8_ds(row, n_in)[b], q8_s(row, n_in) + 2 * b};
}

/* The start of a half's sum: what the offset of u takes away; a block without halves is one half. */
SIMD512_INLINE __m512i start_sum(enum kind kind, int offset, const struct block_row *x, int half)
{
    return _mm512_set1_epi32(-offset * (has_halves(kind) ? x->s[half] : x->s[0] + x->s[1]));
}

/* The float operations of one block, the same in every path: those of AVX2, and with the same bits. */
SIMD512_INLINE __m512 add_block(enum kind kind, __m512 acc, const struct block_scales *b, const __m512i isum[2],
                                const struct block_row *x)
{
    const __m512 dx = _mm512_set1_ps(x->d);
    __m512 sum = _mm512_cvtepi32_ps(isum[0]);
    if (kind == KIND_SCALE_MIN)
        sum = _mm512_mul_ps(sum, b->scale[0]);
    if (has_halves(kind))
        sum = _mm512_fmadd_ps(b->scale[1], _mm512_cvtepi32_ps(isum[1]), _mm512_mul_ps(sum, b->scale[0]));
    acc = _mm512_fmadd_ps(_mm512_mul_ps(b->d, dx), sum, acc);
    if (kind == KIND_FLOAT_MIN)
        return _mm512_fmadd_ps(b->m, _mm512_set1_ps(x->ds), acc);
    if (kind != KIND_SCALE_MIN && kind != KIND_HALVES_MIN)
        return acc;
    const __m512i minima = _mm512_madd_epi16(b->minimum, simd512_broadcast_32(x->s));
    return _mm512_fmadd_ps(_mm512_mul_ps(b->m, dx), _mm512_cvtepi32_ps(minima), acc);
}

#endif
