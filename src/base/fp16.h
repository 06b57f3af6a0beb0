/* fp16.h: IEEE 754 binary16 and bfloat16 to and from float, in plain C, exact and round to nearest even. */
#ifndef BASE_FP16_H
#define BASE_FP16_H

#include <stdint.h>
#include <string.h>

static inline float f32_from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t f32_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float f32_from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t exponent = h >> 10 & 0x1f;
    const uint32_t fraction = h & 0x3ff;
    if (exponent == 0x1f)
        return f32_from_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) { /* zero or subnormal: fraction * 2^-24 is exact in float */
        const float f = (float)fraction * 0x1p-24f;
        return f32_from_bits(f32_bits(f) | sign);
    }
    return f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Overflow gives infinity, a NaN stays a NaN (quiet). */
static inline uint16_t f16_from_f32(float f)
{
    const uint32_t bits = f32_bits(f);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x47800000) /* 2^16 and above */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: subnormal; adding 0.5 rounds at bit 2^-24 */
        const float rounded = f32_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (f32_bits(rounded) - 0x3f000000));
    }
    const uint32_t odd = magnitude >> 13 & 1; /* a carry into the exponent is right, up to infinity */
    return (uint16_t)(sign | ((magnitude - 0x38000000 + 0xfff + odd) >> 13));
}

static inline float f32_from_bf16(uint16_t h) { return f32_from_bits((uint32_t)h << 16); }

static inline uint16_t bf16_from_f32(float f)
{
    const uint32_t bits = f32_bits(f);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
