/* float_math_avx2.h: base/float_math.h on eight lanes: the same operations, without fused ones, hence the same bits. */
#ifndef KERNELS_X86_FLOAT_MATH_AVX2_H
#define KERNELS_X86_FLOAT_MATH_AVX2_H

#include "kernels/x86/simd_avx2.h"

/* math_exp: x <= 88. */
SIMD_INLINE __m256 simd_exp(__m256 x)
{
    static const float c[] = {0x1.6c16c2p-10f, 0x1.111112p-7f, 0x1.555556p-5f, 0x1.555556p-3f, 0x1p-1f, 1.0f, 1.0f};
    const __m256 magic = _mm256_set1_ps(0x1.8p23f);
    const __m256 shifted = _mm256_add_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)), magic);
    const __m256 n = _mm256_sub_ps(shifted, magic);
    const __m256 r = _mm256_sub_ps(_mm256_sub_ps(x, _mm256_mul_ps(n, _mm256_set1_ps(0x1.62e4p-1f))),
                                   _mm256_mul_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f)));
    __m256 p = _mm256_set1_ps(0x1.a01a02p-13f);
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        p = _mm256_add_ps(_mm256_set1_ps(c[i]), _mm256_mul_ps(r, p));
    const __m256i exponent = _mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(127));
    const __m256 scale = _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
    const __m256 lost = _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_LT_OQ);
    return _mm256_andnot_ps(lost, _mm256_mul_ps(p, scale));
}

/* soft_cap_value: cap * tanh(x / cap). */
SIMD_INLINE __m256 simd_soft_cap(__m256 x, __m256 cap)
{
    const __m256 sign = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1);
    const __m256 u = _mm256_div_ps(x, cap), negative = _mm256_cmp_ps(u, _mm256_setzero_ps(), _CMP_LT_OQ);
    const __m256 flip = _mm256_and_ps(sign, negative), size = _mm256_xor_ps(u, flip);
    const __m256 e = simd_exp(_mm256_mul_ps(_mm256_set1_ps(-2), size));
    const __m256 t = _mm256_div_ps(_mm256_sub_ps(one, e), _mm256_add_ps(one, e));
    return _mm256_mul_ps(cap, _mm256_xor_ps(t, flip));
}

#endif
