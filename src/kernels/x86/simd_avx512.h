/* simd_avx512.h: small idioms of AVX-512 F, BW, DQ and VL. KERNELS_EMULATE_AVX512 is set by a test that runs these kernels
 * where the CPU has no AVX-512: the intrinsics are then functions in plain C. */
#ifndef KERNELS_X86_SIMD_AVX512_H
#define KERNELS_X86_SIMD_AVX512_H

#if defined(KERNELS_EMULATE_AVX512)
#include "kernels/avx512_emulation.h" /* tests/kernels */
#else
#include <immintrin.h>
#define simd512_as_bf16(v) ((__m512bh)(v)) /* a register of 32-bit lanes as pairs of bf16 */
#endif
#include <stdint.h>
#include <string.h>

#define SIMD512_INLINE static inline __attribute__((always_inline))

enum {
    SIMD512_FLOATS = 16
};

SIMD512_INLINE __m512i simd512_load(const void *p) { return _mm512_loadu_si512(p); }

/* Four bytes to every 32-bit lane. */
SIMD512_INLINE __m512i simd512_broadcast_32(const void *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm512_set1_epi32(v);
}

/* Sixteen f16 or bf16 to floats. */
SIMD512_INLINE __m512 simd512_load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
SIMD512_INLINE __m512 simd512_load_bf16(const void *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}

/* Every byte shifted by n bits, to the right if n > 0, and masked; the mask hides what crosses from byte to byte. */
SIMD512_INLINE __m512i simd512_shift_mask(__m512i v, int n, int mask)
{
    if (n > 0)
        v = _mm512_srli_epi16(v, (unsigned)n);
    else if (n < 0)
        v = _mm512_slli_epi16(v, (unsigned)-n);
    return _mm512_and_si512(v, _mm512_set1_epi8((char)mask));
}

/* The first n (1 or more) of 16 floats. */
SIMD512_INLINE void simd512_store_first(float *out, __m512 v, int n)
{
    _mm512_mask_storeu_ps(out, n >= SIMD512_FLOATS ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1), v);
}

#endif
