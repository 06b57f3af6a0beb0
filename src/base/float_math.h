/* float_math.h: exp and log in plain arithmetic. libm chooses its variants by the CPU (with or without FMA), so its bits
 * are not the same everywhere; these are, given -ffp-contract=off. */
#ifndef BASE_FLOAT_MATH_H
#define BASE_FLOAT_MATH_H

#include <stdint.h>
#include <string.h>

#include "base/fp16.h"

/* e^x within 2 ulp; x <= 88. Below -87 (results that are not normal numbers) it is 0. NaN gives no NaN: check before. */
static inline float math_exp(float x)
{
    const float shifted = x * 0x1.715476p+0f + 0x1.8p23f; /* rounds x / ln 2 to an integer in the low bits */
    const float n = shifted - 0x1.8p23f;
    const float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f; /* ln 2 in two parts: n times the first is exact */
    const float p =
        1.0f +
        r * (1.0f +
             r * (0x1p-1f + r * (0x1.555556p-3f +
                                 r * (0x1.555556p-5f + r * (0x1.111112p-7f + r * (0x1.6c16c2p-10f + r * 0x1.a01a02p-13f))))));
    const float scale = f32_from_bits((f32_bits(shifted) + 127) << 23);
    const uint32_t keep = x < -87.0f ? 0 : UINT32_MAX; /* a mask and no branch, so that compilers can use vectors */
    return f32_from_bits(f32_bits(p * scale) & keep);
}

/* Natural logarithm within 2 ulp; x is positive, normal and finite. */
static inline double math_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    /* x = m 2^e with m from sqrt(1/2) to sqrt(2): 0x3fe6a09e667f3bcd is sqrt(1/2) */
    const uint64_t shifted = bits - 0x3fe6a09e667f3bcd;
    const int64_t e = (int64_t)shifted >> 52;
    bits -= (uint64_t)e << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    const double s = (m - 1) / (m + 1), q = s * s;
    /* log m = 2 artanh s; |s| <= 0.1716, the first term left out is below 2^-58 */
    double sum = 1.0 / 21;
    for (int k = 19; k >= 3; k -= 2)
        sum = sum * q + 1.0 / k;
    return 2 * s + (2 * s * q * sum + (double)e * 0x1.62e42fefa39efp-1);
}

#endif
