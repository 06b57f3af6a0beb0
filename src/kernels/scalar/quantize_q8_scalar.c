/* quantize_q8_scalar.c: float activations to int8, the reference. */
#include <math.h>
#include <string.h>

#include "base/fp16.h"
#include "kernels/scalar/scalar.h"

/* To the nearest integer, ties to even, for |v| < 2^22: the sum's last bit is 1. */
static int round_to_even(float v)
{
    const float magic = 0x1.8p23f;
    return (int)(f32_bits(v + magic) - f32_bits(magic));
}

static uint32_t largest_magnitude(const float *x)
{
    uint32_t largest = 0;
    for (int k = 0; k < Q8_BLOCK; k++) {
        const uint32_t magnitude = f32_bits(x[k]) & 0x7fffffff;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

/* One block of 32: q and s are written, d is returned. */
static float quantize_block(int8_t *q, int16_t *s, const float *x)
{
    const float largest = f32_from_bits(largest_magnitude(x));
    s[0] = s[1] = 0;
    if (!(largest >= 0x1p-100f && largest < INFINITY)) { /* the comparison with a NaN is false */
        memset(q, 0, Q8_BLOCK);
        return largest < 1 ? 0 : NAN;
    }
    const float inverse = 127 / largest;
    for (int k = 0; k < Q8_BLOCK; k++) {
        q[k] = (int8_t)round_to_even(x[k] * inverse);
        s[k / (Q8_BLOCK / 2)] = (int16_t)(s[k / (Q8_BLOCK / 2)] + q[k]);
    }
    return largest / 127;
}

void quantize_q8_scalar(void *row, const float *x, int n)
{
    int8_t *q = row;
    float *d = (float *)(q + (size_t)q8_n_blocks(n) * Q8_BLOCK);
    float *ds = d + q8_n_blocks(n);
    int16_t *s = (int16_t *)(ds + q8_n_blocks(n));
    for (int b = 0; b < q8_n_blocks(n); b++, q += Q8_BLOCK, s += 2) {
        float block[Q8_BLOCK] = {0};
        const int rest = n - b * Q8_BLOCK;
        memcpy(block, x + b * Q8_BLOCK, sizeof(float) * (size_t)(rest < Q8_BLOCK ? rest : Q8_BLOCK));
        d[b] = quantize_block(q, s, block);
        ds[b] = d[b] * (float)(s[0] + s[1]);
    }
}
