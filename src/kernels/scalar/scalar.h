/* scalar.h: the parts of the reference table. */
#ifndef KERNELS_SCALAR_SCALAR_H
#define KERNELS_SCALAR_SCALAR_H

#include <math.h>

#include "base/float_math.h"
#include "kernels/pack/pack.h"

void matmul_q8_init_scalar(struct kernels *k);
void matmul_f32_init_scalar(struct kernels *k);
void quantize_q8_scalar(void *row, const float *x, int n);
void quantize_q8_rest_scalar(void *rest, const void *row, const float *x, int n);
void layer_init_scalar(struct kernels *k); /* norm, rope, gated products, cache writes */
void attention_init_scalar(struct kernels *k);

enum {
    RMS_NORM_LANES = 16
};

/* Squares are summed in 16 lanes, lane i % 16 in ascending order, and the lanes folded: 8 apart, 4, 2, 1. Returns
 * 1 / sqrt(mean + eps); lanes is overwritten. */
static inline float rms_norm_scale(float *lanes, float eps, int n)
{
    for (int apart = RMS_NORM_LANES / 2; apart > 0; apart /= 2)
        for (int i = 0; i < apart; i++)
            lanes[i] += lanes[i + apart];
    return 1.0f / sqrtf(lanes[0] / (float)n + eps);
}

/* cap * tanh(x / cap) */
static inline float soft_cap_value(float x, float cap)
{
    const float u = x / cap;
    const float e = math_exp(-2.0f * (u < 0 ? -u : u)); /* never overflows */
    const float t = (1.0f - e) / (1.0f + e);
    return cap * (u < 0 ? -t : t);
}

#endif
