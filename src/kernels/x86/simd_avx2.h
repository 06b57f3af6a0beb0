/* simd_avx2.h: small idioms of AVX2, FMA and F16C. */
#ifndef KERNELS_X86_SIMD_AVX2_H
#define KERNELS_X86_SIMD_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define SIMD_INLINE static inline __attribute__((always_inline))

enum {
    SIMD_BYTES = 32, /* in a register */
    SIMD_FLOATS = 8
};

SIMD_INLINE __m256i simd_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
SIMD_INLINE void simd_store(void *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }

/* The sum in its register, as it stands: gcc would otherwise turn a chain of integer additions into a tree, and spill what
 * the tree needs (measured: half the speed of a tile). */
SIMD_INLINE __m256i simd_keep(__m256i v)
{
    __asm__("" : "+x"(v));
    return v;
}

/* What was loaded before is loaded again behind this: without it, gcc shares broadcasts between groups, and spills them. */
SIMD_INLINE void simd_reload(void) { __asm__ volatile("" : : : "memory"); }

/* Four bytes to every 32-bit lane. */
SIMD_INLINE __m256i simd_broadcast_32(const void *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
}

/* Eight bytes to every 64-bit lane. */
SIMD_INLINE __m256i simd_broadcast_64(const void *p)
{
    int64_t v;
    memcpy(&v, p, sizeof v);
    return _mm256_set1_epi64x(v);
}

/* Sixteen bytes to both lanes. */
SIMD_INLINE __m256i simd_broadcast_128(const void *p)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}

/* Eight f16 to floats. */
SIMD_INLINE __m256 simd_load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }

/* Eight bf16 to floats. */
SIMD_INLINE __m256 simd_load_bf16(const void *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}

/* Every byte shifted by n bits, to the right if n > 0, and masked; the mask hides what crosses from byte to byte. */
SIMD_INLINE __m256i simd_shift_mask(__m256i v, int n, int mask)
{
    if (n > 0)
        v = _mm256_srli_epi16(v, n);
    else if (n < 0)
        v = _mm256_slli_epi16(v, -n);
    return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}

/* Byte j of each 32-bit lane in all four of its bytes. */
SIMD_INLINE __m256i simd_spread_byte(__m256i v, int j)
{
    return _mm256_shuffle_epi8(
        v, _mm256_add_epi8(_mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c),
                           _mm256_set1_epi8((char)j)));
}

/* The first n (1 or more) of 16 floats. */
SIMD_INLINE void simd_store_16(float *out, __m256 low, __m256 high, int n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    if (n >= 2 * SIMD_FLOATS) {
        _mm256_storeu_ps(out, low);
        _mm256_storeu_ps(out + SIMD_FLOATS, high);
        return;
    }
    _mm256_maskstore_ps(out, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane), low);
    if (n > SIMD_FLOATS)
        _mm256_maskstore_ps(out + SIMD_FLOATS, _mm256_cmpgt_epi32(_mm256_set1_epi32(n - SIMD_FLOATS), lane), high);
}

#endif
