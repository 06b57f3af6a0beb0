/* kv_int8_scalar.c: a token's keys and values to int8, one scale for each 32 channels: never looked at again, so that what
 * attention reads does not depend on the tokens behind. */
#include "kernels/scalar/scalar.h"

/* n <= KV_SCALE_CHANNELS values, integer i at q[i * step]; returns the scale. As quantize_q8: NaN where a value is not
 * finite, zero below 2^-100. */
static float write_channels(int8_t *q, int step, const float *x, int n)
{
    uint32_t largest_bits = 0;
    for (int i = 0; i < n; i++) {
        const uint32_t magnitude = f32_bits(x[i]) & 0x7fffffff;
        largest_bits = magnitude > largest_bits ? magnitude : largest_bits;
    }
    const float largest = f32_from_bits(largest_bits);
    const bool fits = largest >= 0x1p-100f && largest < INFINITY; /* false for a NaN */
    const float inverse = fits ? 127 / largest : 0;
    for (int i = 0; i < n; i++)
        q[i * step] = fits ? (int8_t)round_to_even(x[i] * inverse) : 0;
    return fits ? largest / 127 : largest < 1 ? 0 : NAN;
}

void kv_write_int8_scalar(void *head_block, int slot, const float *k, const float *v, int head_dim)
{
    const struct kv_int8_parts to = kv_int8_parts(head_block, head_dim);
    const int n_scale = kv_n_scale(head_dim);
    for (int c = 0; c < n_scale; c++) {
        const int d = c * KV_SCALE_CHANNELS, n = head_dim - d < KV_SCALE_CHANNELS ? head_dim - d : KV_SCALE_CHANNELS;
        to.k_scale[c * ATTENTION_BLOCK + slot] = write_channels(to.k + d * ATTENTION_BLOCK + slot, ATTENTION_BLOCK, k + d, n);
        to.v_scale[slot * n_scale + c] = write_channels(to.v + slot * head_dim + d, 1, v + d, n);
    }
}
