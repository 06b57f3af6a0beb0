/* quantize_q8_scalar.c: float activations to int8, the reference. */
#include <math.h>
#include <string.h>

#include "base/fp16.h"
#include "kernels/scalar/scalar.h"

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

/* Where the parts of a row are that is being written. */
struct q8_parts {
    int8_t *q;
    float *d, *ds;
    int16_t *s;
};

static struct q8_parts parts_of(void *row, int n)
{
    const int n_block = q8_n_blocks(n);
    float *d = (float *)((int8_t *)row + (size_t)n_block * Q8_BLOCK);
    return (struct q8_parts){row, d, d + n_block, (int16_t *)(d + 2 * n_block)};
}

static void write_block(const struct q8_parts *to, int b, const float *x)
{
    int16_t *s = to->s + 2 * b;
    to->d[b] = quantize_block(to->q + b * Q8_BLOCK, s, x);
    to->ds[b] = to->d[b] * (float)(s[0] + s[1]);
}

static void read_block(float *out, const float *x, int b, int n)
{
    const int rest = n - b * Q8_BLOCK;
    memset(out, 0, Q8_BLOCK * sizeof *out);
    memcpy(out, x + b * Q8_BLOCK, sizeof *out * (size_t)(rest < Q8_BLOCK ? rest : Q8_BLOCK));
}

void quantize_q8_scalar(void *row, const float *x, int n)
{
    const struct q8_parts to = parts_of(row, n);
    for (int b = 0; b < q8_n_blocks(n); b++) {
        float block[Q8_BLOCK];
        read_block(block, x, b, n);
        write_block(&to, b, block);
    }
}

void quantize_q8_rest_scalar(void *rest, const void *row, const float *x, int n)
{
    const struct q8_parts to = parts_of(rest, n);
    for (int b = 0; b < q8_n_blocks(n); b++) {
        const int8_t *q = q8_q(row) + b * Q8_BLOCK;
        float block[Q8_BLOCK];
        read_block(block, x, b, n);
        for (int k = 0; k < Q8_BLOCK; k++)
            block[k] -= q8_d(row, n)[b] * (float)q[k];
        write_block(&to, b, block);
    }
}
