/* avx512_emulation.h: the AVX-512 intrinsics that kernels use, as functions in plain C. */
#ifndef TESTS_KERNELS_AVX512_EMULATION_H
#define TESTS_KERNELS_AVX512_EMULATION_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "base/fp16.h"

/* A register, of either kind. */
union emulated_512 {
    int32_t i32[16];
    uint32_t u32[16];
    float f[16];
    uint8_t u8[64];
    int8_t i8[64];
    uint16_t u16[32];
    int16_t i16[32];
};

#define EMULATED __attribute__((noinline, unused)) static union emulated_512
#define __m512i  union emulated_512
#define __m512   union emulated_512

EMULATED emulated_load(const void *p)
{
    union emulated_512 r;
    memcpy(&r, p, sizeof r);
    return r;
}

__attribute__((noinline, unused)) static void emulated_store(void *p, union emulated_512 v) { memcpy(p, &v, sizeof v); }

__attribute__((noinline, unused)) static void emulated_mask_store(float *out, unsigned mask, union emulated_512 v)
{
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            out[i] = v.f[i];
}

EMULATED emulated_set1_epi32(int32_t x)
{
    union emulated_512 r;
    for (int i = 0; i < 16; i++)
        r.i32[i] = x;
    return r;
}

EMULATED emulated_set1_epi8(char x)
{
    union emulated_512 r;
    memset(&r, x, sizeof r);
    return r;
}

EMULATED emulated_set1_ps(float x)
{
    union emulated_512 r;
    for (int i = 0; i < 16; i++)
        r.f[i] = x;
    return r;
}

EMULATED emulated_add_32(union emulated_512 a, union emulated_512 b)
{
    for (int i = 0; i < 16; i++)
        a.u32[i] += b.u32[i];
    return a;
}

EMULATED emulated_and(union emulated_512 a, union emulated_512 b)
{
    for (int i = 0; i < 16; i++)
        a.u32[i] &= b.u32[i];
    return a;
}

EMULATED emulated_or(union emulated_512 a, union emulated_512 b)
{
    for (int i = 0; i < 16; i++)
        a.u32[i] |= b.u32[i];
    return a;
}

/* Lanes of 16 bits, to the left if n < 0. */
EMULATED emulated_shift_16(union emulated_512 a, int n)
{
    for (int i = 0; i < 32; i++)
        a.u16[i] = (uint16_t)(n < 0 ? a.u16[i] << -n : a.u16[i] >> n);
    return a;
}

EMULATED emulated_shift_32(union emulated_512 a, int n)
{
    for (int i = 0; i < 16; i++)
        a.u32[i] = n < 0 ? a.u32[i] << -n : a.u32[i] >> n;
    return a;
}

EMULATED emulated_shuffle_epi8(union emulated_512 table, union emulated_512 index)
{
    union emulated_512 r;
    for (int i = 0; i < 64; i++)
        r.u8[i] = index.u8[i] & 0x80 ? 0 : table.u8[i / 16 * 16 + index.u8[i] % 16];
    return r;
}

EMULATED emulated_broadcast_i32x4(__m128i v)
{
    union emulated_512 r;
    for (int i = 0; i < 4; i++)
        memcpy(r.u8 + 16 * i, &v, sizeof v);
    return r;
}

EMULATED emulated_mask_blend_epi16(uint32_t mask, union emulated_512 a, union emulated_512 b)
{
    for (int i = 0; i < 32; i++)
        a.u16[i] = mask >> i & 1 ? b.u16[i] : a.u16[i];
    return a;
}

EMULATED emulated_cvtph_ps(const void *p)
{
    uint16_t h[16];
    union emulated_512 r;
    memcpy(h, p, sizeof h);
    for (int i = 0; i < 16; i++)
        r.f[i] = f32_from_f16(h[i]);
    return r;
}

EMULATED emulated_cvtepu16_epi32(const void *p)
{
    uint16_t h[16];
    union emulated_512 r;
    memcpy(h, p, sizeof h);
    for (int i = 0; i < 16; i++)
        r.i32[i] = h[i];
    return r;
}

EMULATED emulated_cvtepu8_epi32(__m128i v)
{
    uint8_t b[16];
    union emulated_512 r;
    memcpy(b, &v, sizeof b);
    for (int i = 0; i < 16; i++)
        r.i32[i] = b[i];
    return r;
}

EMULATED emulated_cvtepi8_epi32(__m128i v)
{
    int8_t b[16];
    union emulated_512 r;
    memcpy(b, &v, sizeof b);
    for (int i = 0; i < 16; i++)
        r.i32[i] = b[i];
    return r;
}

EMULATED emulated_cvtepi32_ps(union emulated_512 a)
{
    union emulated_512 r;
    for (int i = 0; i < 16; i++)
        r.f[i] = (float)a.i32[i];
    return r;
}

EMULATED emulated_madd_epi16(union emulated_512 a, union emulated_512 b)
{
    union emulated_512 r;
    for (int i = 0; i < 16; i++)
        r.i32[i] = a.i16[2 * i] * b.i16[2 * i] + a.i16[2 * i + 1] * b.i16[2 * i + 1];
    return r;
}

EMULATED emulated_dpbusd(union emulated_512 sum, union emulated_512 u, union emulated_512 x)
{
    for (int i = 0; i < 64; i++)
        sum.i32[i / 4] += u.u8[i] * x.i8[i];
    return sum;
}

EMULATED emulated_mul_ps(union emulated_512 a, union emulated_512 b)
{
    for (int i = 0; i < 16; i++)
        a.f[i] *= b.f[i];
    return a;
}

EMULATED emulated_fmadd_ps(union emulated_512 a, union emulated_512 b, union emulated_512 c)
{
    for (int i = 0; i < 16; i++)
        c.f[i] = __builtin_fmaf(a.f[i], b.f[i], c.f[i]);
    return c;
}

EMULATED emulated_maskz_load_ps(unsigned mask, const float *p)
{
    union emulated_512 r;
    for (int i = 0; i < 16; i++)
        r.f[i] = mask >> i & 1 ? p[i] : 0;
    return r;
}

EMULATED emulated_maskz_load_16(uint32_t mask, const uint16_t *p)
{
    union emulated_512 r;
    for (int i = 0; i < 32; i++)
        r.u16[i] = mask >> i & 1 ? p[i] : 0;
    return r;
}

EMULATED emulated_permute_16(union emulated_512 place, union emulated_512 v)
{
    union emulated_512 r;
    for (int i = 0; i < 32; i++)
        r.u16[i] = v.u16[place.u16[i] % 32];
    return r;
}

/* Denormals to zero, the sign kept. */
static inline float emulated_flush(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0, x) : x; }

/* bf16 has the exponents of f32: what was not denormal does not become so. */
static inline uint16_t emulated_bf16(float x) { return bf16_from_f32(emulated_flush(x)); }

__attribute__((noinline, unused)) static __m256i emulated_cvtneps_pbh(union emulated_512 v)
{
    uint16_t h[16];
    __m256i r;
    for (int i = 0; i < 16; i++)
        h[i] = emulated_bf16(v.f[i]);
    memcpy(&r, h, sizeof r);
    return r;
}

static inline float emulated_fma_bf16(uint16_t a, uint16_t b, float sum)
{
    return emulated_flush(
        __builtin_fmaf(emulated_flush(f32_from_bf16(a)), emulated_flush(f32_from_bf16(b)), emulated_flush(sum)));
}

/* One lane of vdpbf16ps: two accumulations, the second of each pair first. */
static inline float emulated_dot_bf16(float sum, const uint16_t a[2], const uint16_t b[2])
{
    return emulated_fma_bf16(a[0], b[0], emulated_fma_bf16(a[1], b[1], sum));
}

EMULATED emulated_dpbf16(union emulated_512 sum, union emulated_512 a, union emulated_512 b)
{
    for (int i = 0; i < 16; i++)
        sum.f[i] = emulated_dot_bf16(sum.f[i], a.u16 + 2 * i, b.u16 + 2 * i);
    return sum;
}

#define _mm512_loadu_si512(p)             emulated_load(p)
#define _mm512_loadu_ps(p)                emulated_load(p)
#define _mm512_storeu_si512(p, v)         emulated_store(p, v)
#define _mm512_storeu_ps(p, v)            emulated_store(p, v)
#define _mm512_mask_storeu_ps(p, mask, v) emulated_mask_store(p, mask, v)
#define _mm512_set1_epi32(x)              emulated_set1_epi32(x)
#define _mm512_set1_epi8(x)               emulated_set1_epi8(x)
#define _mm512_set1_ps(x)                 emulated_set1_ps(x)
#define _mm512_setzero_si512()            emulated_set1_epi32(0)
#define _mm512_setzero_ps()               emulated_set1_ps(0)
#define _mm512_add_epi32(a, b)            emulated_add_32(a, b)
#define _mm512_and_si512(a, b)            emulated_and(a, b)
#define _mm512_or_si512(a, b)             emulated_or(a, b)
#define _mm512_srli_epi16(a, n)           emulated_shift_16(a, (int)(n))
#define _mm512_slli_epi16(a, n)           emulated_shift_16(a, -(int)(n))
#define _mm512_srli_epi32(a, n)           emulated_shift_32(a, n)
#define _mm512_slli_epi32(a, n)           emulated_shift_32(a, -(n))
#define _mm512_shuffle_epi8(table, index) emulated_shuffle_epi8(table, index)
#define _mm512_broadcast_i32x4(v)         emulated_broadcast_i32x4(v)
#define _mm512_mask_blend_epi16(m, a, b)  emulated_mask_blend_epi16(m, a, b)
#define _mm512_cvtph_ps(v)                emulated_cvtph_ps(&(__m256i[1]){v})
#define _mm512_cvtepu16_epi32(v)          emulated_cvtepu16_epi32(&(__m256i[1]){v})
#define _mm512_cvtepu8_epi32(v)           emulated_cvtepu8_epi32(v)
#define _mm512_cvtepi8_epi32(v)           emulated_cvtepi8_epi32(v)
#define _mm512_cvtepi32_ps(v)             emulated_cvtepi32_ps(v)
#define _mm512_castsi512_ps(v)            (v)
#define _mm512_madd_epi16(a, b)           emulated_madd_epi16(a, b)
#define _mm512_dpbusd_epi32(sum, u, x)    emulated_dpbusd(sum, u, x)
#define _mm512_mul_ps(a, b)               emulated_mul_ps(a, b)
#define _mm512_fmadd_ps(a, b, c)          emulated_fmadd_ps(a, b, c)
#define _mm512_maskz_loadu_ps(mask, p)    emulated_maskz_load_ps(mask, p)
#define _mm512_maskz_loadu_epi16(mask, p) emulated_maskz_load_16(mask, p)
#define _mm512_permutexvar_epi16(i, v)    emulated_permute_16(i, v)
#define _mm512_cvtneps_pbh(v)             emulated_cvtneps_pbh(v)
#define _mm512_dpbf16_ps(sum, a, b)       emulated_dpbf16(sum, a, b)
#define simd512_as_bf16(v)                (v)

#endif
