/* panel_avx2.h: blocks of packed weights in AVX2 registers. All functions take the block type as a constant: inlined, a type
 * leaves only its own instructions. A half is 8 of the panel's 16 outputs. */
#ifndef KERNELS_X86_PANEL_AVX2_H
#define KERNELS_X86_PANEL_AVX2_H

#include "kernels/panel.h"
#include "kernels/x86/simd_avx2.h"

#if !defined(PANEL_VNNI)
#define PANEL_VNNI 0 /* 1: with vpdpbusd, see below */
#endif
#if PANEL_VNNI && defined(KERNELS_EMULATE_AVXVNNI)
#include "kernels/avxvnni_emulation.h" /* tests/kernels */
#endif

/* Products of unsigned weights and int8 activations are added in int16 lanes, pairs over several steps, before one
 * multiply-add to int32. A group is a run of steps whose sums fit: 2 x 127 x largest u x steps < 2^15. It also ends where
 * a scale of its own begins. Weights of 8 bits leave no room: they are signed here, and each product is widened alone.
 * vpdpbusd adds four products to int32 at once: a group is what shares a scale, and all weights stay unsigned. */
SIMD_INLINE int group_steps(enum quant_type type)
{
    const enum panel_scale scale = panel_formats[type].scale;
    if (PANEL_VNNI)
        return scale == PANEL_SCALE_HALVES || scale == PANEL_SCALE_NIBBLES ? 4 : 8;
    switch (type) {
    case QUANT_Q5_0:
    case QUANT_Q5_1:
    case QUANT_Q5_K:
    case QUANT_Q2_K:
    case QUANT_Q3_K:
        return 4;
    case QUANT_Q6_K:
        return 2;
    default:
        return 8;
    }
}

/* The sums of a group, and u x: int16 lanes of pairs, or with vpdpbusd int32 lanes of fours. */
SIMD_INLINE __m256i add_products(__m256i sum, __m256i u, __m256i x)
{
#if PANEL_VNNI
    return simd_keep(_mm256_dpbusd_avx_epi32(sum, u, x));
#else
    return simd_keep(_mm256_add_epi16(sum, _mm256_maddubs_epi16(u, x)));
#endif
}

SIMD_INLINE bool is_signed(enum quant_type type) { return !PANEL_VNNI && (panel_formats[type].byte || type == QUANT_IQ4_NL); }

/* Vectors of 64 bytes that a block of 16 outputs expands to; behind signed weights stand their magnitudes. */
SIMD_INLINE int expanded_steps(enum quant_type type) { return is_signed(type) ? 2 * PANEL_STEPS : PANEL_STEPS; }

SIMD_INLINE int n_groups(enum quant_type type) { return PANEL_STEPS / group_steps(type); }

/* isum + four products in each 32-bit lane, w in -128..127: vpmaddubsw wants one unsigned factor, so the sign moves from w to
 * x. 2 x 128 x 127 fits into its 16 bits. */
SIMD_INLINE __m256i add_signed(__m256i isum, __m256i w, __m256i magnitude, __m256i x)
{
    const __m256i signed_x = _mm256_sign_epi8(x, w);
#if PANEL_VNNI
    return simd_keep(_mm256_dpbusd_avx_epi32(isum, magnitude, signed_x));
#else
    const __m256i pairs = _mm256_maddubs_epi16(magnitude, signed_x);
    return simd_keep(_mm256_add_epi32(isum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
#endif
}

/* Where the stored weights of four bits of a map stand, for slots 2 s (low nibble) and 2 s + 1 (high nibble): those of the
 * map's low four bits fill slots from 0 up, those of the high four bits from 3 down. */
static const uint8_t panel_low_places[2][16] = {
    {0, 0, 1, 0x10, 2, 0x20, 0x21, 0x10, 3, 0x30, 0x31, 0x10, 0x32, 0x20, 0x21, 0x10},
    {0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 3, 3, 0x32}};
static const uint8_t panel_high_places[2][16] = {
    {0, 0, 0, 0, 0, 0, 0, 0x60, 0, 0, 0, 0x70, 0, 0x70, 0x70, 0x67},
    {0, 0x40, 0x50, 0x45, 0x60, 0x46, 0x56, 0x45, 0x70, 0x47, 0x57, 0x45, 0x67, 0x46, 0x56, 0x45}};

/* Both tables for slots 2 s and 2 s + 1, by the maps of groups 2 g and 2 g + 1; bits 4 to 6 mean nothing, as vpshufb has it. */
SIMD_INLINE __m256i map_places(__m256i maps, int g, int s)
{
    const __m256i mask = _mm256_set1_epi8(15),
                  lane = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c);
    const __m256i two =
        _mm256_shuffle_epi8(maps, _mm256_add_epi8(lane, _mm256_set1_epi16((short)(2 * g + ((2 * g + 1) << 8)))));
    const __m256i low = _mm256_and_si256(two, mask), high = _mm256_and_si256(_mm256_srli_epi16(two, 4), mask);
    const __m256i places = _mm256_or_si256(_mm256_shuffle_epi8(simd_broadcast_128(panel_low_places[s]), low),
                                           _mm256_shuffle_epi8(simd_broadcast_128(panel_high_places[s]), high));
    return _mm256_blend_epi16(places, _mm256_srli_epi16(places, 4), 0xaa);
}

/* Where the slots of step t stand among the activations that it meets (panel.h): at 2 of 4 eight, at 4 of 8 sixteen.
 * planes: the index plane at one half. */
SIMD_INLINE __m256i load_places(enum panel_pattern pattern, const uint8_t *planes, int t)
{
    const __m256i index = simd_load(planes);
    if (pattern == PANEL_2_OF_4)
        return _mm256_or_si256(simd_shift_mask(index, 2 * t, 3), _mm256_set1_epi32(0x04040000));
    return _mm256_or_si256(map_places(index, t / 2, t % 2), _mm256_set1_epi16(0x0800));
}

/* u of the slots of step t, signed types: u - offset. */
SIMD_INLINE __m256i load_slots(enum quant_type type, const uint8_t *planes, int t)
{
    const struct panel_format f = panel_formats[type];
    planes += PANEL_STEP;
    if (f.byte)
        return _mm256_xor_si256(simd_load(planes + t * PANEL_STEP), _mm256_set1_epi8((char)(is_signed(type) ? f.offset : 0)));
    return simd_shift_mask(simd_load(planes + t / 2 * PANEL_STEP), 4 * (t % 2), 15);
}

/* u where a stored weight of the two steps stands at `here`, byte j of each lane of the slots' steps. */
SIMD_INLINE __m256i put_slot(__m256i u, __m256i slots, __m256i places, __m256i here, int j)
{
    return _mm256_blendv_epi8(u, simd_spread_byte(slots, j), _mm256_cmpeq_epi8(simd_spread_byte(places, j), here));
}

/* u of step s, where no weight is stored that of 0. */
SIMD_INLINE __m256i fill_step(enum quant_type type, const uint8_t *planes, int s)
{
    const struct panel_format f = panel_formats[type];
    __m256i u = _mm256_set1_epi8((char)(is_signed(type) ? 0 : f.offset));
    if (f.pattern == PANEL_2_OF_4) {
        const __m256i here = _mm256_set1_epi32(s % 2 == 0 ? 0x03020100 : 0x07060504);
        const __m256i slots = load_slots(type, planes, s / 2), places = load_places(f.pattern, planes, s / 2);
        u = put_slot(u, slots, places, here, 2 * (s % 2));
        return put_slot(u, slots, places, here, 2 * (s % 2) + 1);
    }
    const int group = s / 2;
    const __m256i here = _mm256_add_epi8(_mm256_set1_epi32(0x03020100), _mm256_set1_epi8((char)(4 * (s % 4))));
#pragma GCC unroll 2
    for (int t = group / 2 * 2; t < group / 2 * 2 + 2; t++) {
        const __m256i slots = load_slots(type, planes, t);
        const __m256i places = _mm256_and_si256(load_places(f.pattern, planes, t), _mm256_set1_epi8(15));
        u = put_slot(u, slots, places, here, group % 2);
        u = put_slot(u, slots, places, here, group % 2 + 2);
    }
    return u;
}

/* u of step s of one half, signed types: u - offset. planes: the block's first plane at that half. */
SIMD_INLINE __m256i load_step(enum quant_type type, const uint8_t *planes, int s)
{
    const struct panel_format f = panel_formats[type];
    if (f.pattern != PANEL_ALL)
        return fill_step(type, planes, s);
    const __m256i sign = _mm256_set1_epi8((char)(is_signed(type) ? f.offset : 0)); /* turns the highest bit: u - 128 */
    if (f.byte)
        return _mm256_xor_si256(simd_load(planes + s * PANEL_STEP), sign);
    __m256i u = _mm256_setzero_si256();
    int low = 0;
    if (f.nibble) {
        u = simd_shift_mask(simd_load(planes + s / 2 * PANEL_STEP), 4 * (s % 2), 15);
        planes += 4 * PANEL_STEP;
        low = 4;
    }
    if (type == QUANT_IQ4_NL) {
        const __m128i values = _mm_loadu_si128((const __m128i *)panel_iq4_nl);
        return _mm256_shuffle_epi8(_mm256_xor_si256(_mm256_broadcastsi128_si256(values), sign), u);
    }
    if (f.two) {
        const __m256i bits = simd_shift_mask(simd_load(planes + s / 4 * PANEL_STEP), 2 * (s % 4) - low, 3 << low);
        u = low == 0 ? bits : _mm256_or_si256(u, bits);
        planes += 2 * PANEL_STEP;
        low += 2;
    }
    if (f.one)
        u = _mm256_or_si256(u, simd_shift_mask(simd_load(planes), s - low, 1 << low));
    return u;
}

/* The integers of one half of a block, as int16 pairs in 32-bit lanes. */
struct half_scales {
    __m256i scale[2]; /* (c, c) of the block's first and second half of k, with vpdpbusd c in 32 bits; unused without any */
    __m256i pair;     /* what multiplies the sums s0, s1: the minima, or -offset * scale */
};

SIMD_INLINE __m256i pair_of(__m256i first, __m256i second)
{
    return _mm256_blend_epi16(first, _mm256_slli_epi32(second, 16), 0xaa);
}

/* What scales the sums of a group. */
SIMD_INLINE __m256i scale_lanes(__m256i c) { return PANEL_VNNI ? c : pair_of(c, c); }

/* body: the block's integer scales at this half. */
SIMD_INLINE struct half_scales load_scales(enum quant_type type, const uint8_t *body)
{
    const struct panel_format f = panel_formats[type];
    struct half_scales h;
    if (f.scale == PANEL_SCALE_NONE) {
        h.scale[0] = h.scale[1] = _mm256_set1_epi16(1);
        h.pair = _mm256_set1_epi16((short)-f.offset);
        return h;
    }
    const __m128i bytes[2] = {_mm_loadl_epi64((const __m128i *)body), _mm_loadl_epi64((const __m128i *)(body + PANEL_NR))};
    if (f.scale == PANEL_SCALE_HALVES) {
        const __m256i first = _mm256_cvtepi8_epi32(bytes[0]), second = _mm256_cvtepi8_epi32(bytes[1]);
        h.scale[0] = scale_lanes(first);
        h.scale[1] = scale_lanes(second);
        h.pair = _mm256_mullo_epi16(pair_of(first, second), _mm256_set1_epi16((short)-f.offset));
        return h;
    }
    const __m256i first = _mm256_cvtepu8_epi32(bytes[0]), second = _mm256_cvtepu8_epi32(bytes[1]);
    if (f.scale == PANEL_SCALE_MIN) {
        h.scale[0] = h.scale[1] = scale_lanes(first);
        h.pair = pair_of(second, second);
        return h;
    }
    const __m256i mask = _mm256_set1_epi32(15);
    const __m256i low[2] = {_mm256_and_si256(first, mask), _mm256_and_si256(second, mask)};
    h.scale[0] = scale_lanes(low[0]);
    h.scale[1] = scale_lanes(low[1]);
    h.pair = pair_of(_mm256_srli_epi32(first, 4), _mm256_srli_epi32(second, 4));
    return h;
}

/* The sums of group g, scaled, in int32. */
SIMD_INLINE __m256i scale_group(enum quant_type type, __m256i sum, int g, const struct half_scales *h)
{
    const __m256i scale = h->scale[g * group_steps(type) / (PANEL_STEPS / 2)];
    if (PANEL_VNNI)
        return panel_formats[type].scale == PANEL_SCALE_NONE ? sum : _mm256_mullo_epi32(sum, scale);
    return _mm256_madd_epi16(sum, scale);
}

/* One row's scales of a block, in all lanes. */
struct row_scales {
    __m256 d, ds;
    __m256i s;
};

SIMD_INLINE struct row_scales load_row_scales(const void *row, int n_in, int b)
{
    return (struct row_scales){_mm256_broadcast_ss(q8_d(row, n_in) + b), _mm256_broadcast_ss(q8_ds(row, n_in) + b),
                               simd_broadcast_32(q8_s(row, n_in) + 2 * b)};
}

/* The offset's part of a block's integer sum, but of signed types. */
SIMD_INLINE __m256i add_offset(enum quant_type type, __m256i isum, __m256i pair, const struct row_scales *x)
{
    return panel_formats[type].offset != 0 && !is_signed(type) ? _mm256_add_epi32(isum, _mm256_madd_epi16(pair, x->s)) : isum;
}

/* The float operations of one block: the same in every path, hence the same bits. */
SIMD_INLINE __m256 add_block(enum quant_type type, __m256 acc, __m256 d, __m256 m, __m256i isum, __m256i pair,
                             const struct row_scales *x)
{
    const struct panel_format f = panel_formats[type];
    acc = _mm256_fmadd_ps(_mm256_mul_ps(d, x->d), _mm256_cvtepi32_ps(isum), acc);
    if (!f.has_min)
        return acc;
    if (f.scale == PANEL_SCALE_NONE)
        return _mm256_fmadd_ps(m, x->ds, acc);
    return _mm256_fmadd_ps(_mm256_mul_ps(m, x->d), _mm256_cvtepi32_ps(_mm256_madd_epi16(pair, x->s)), acc);
}

#endif
