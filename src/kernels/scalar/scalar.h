/* scalar.h: the parts of the reference table. */
#ifndef KERNELS_SCALAR_SCALAR_H
#define KERNELS_SCALAR_SCALAR_H

#include <math.h>

#include "base/float_math.h"
#include "base/fp16.h"
#include "kernels/pack/pack.h"

void matmul_q8_init_scalar(struct kernels *k);
void matmul_f32_init_scalar(struct kernels *k);
void quantize_q8_scalar(void *row, const float *x, int n);
void quantize_q8_rest_scalar(void *rest, const void *row, const float *x, int n);
void layer_init_scalar(struct kernels *k); /* norm, rope, gated products, cache writes */
void attention_init_scalar(struct kernels *k);
void kv_write_int8_scalar(void *head_block, int slot, const float *k, const float *v, int head_dim);

/* To the nearest integer, ties to even, for |v| < 2^22: the sum's last bit is 1. */
static inline int round_to_even(float v)
{
    const float magic = 0x1.8p23f;
    return (int)(f32_bits(v + magic) - f32_bits(magic));
}

enum {
    NORM_LANES = 16
};

/* The sum of the lanes, folded 8 apart, 4, 2, 1; lanes is overwritten. */
static inline float norm_lanes_sum(float *lanes)
{
    for (int apart = NORM_LANES / 2; apart > 0; apart /= 2)
        for (int i = 0; i < apart; i++)
            lanes[i] += lanes[i + apart];
    return lanes[0];
}

/* 1 / sqrt(mean + eps) of squares that were summed in 16 lanes, lane i % 16 in ascending order. */
static inline float norm_scale(float *lanes, float eps, int n) { return 1.0f / sqrtf(norm_lanes_sum(lanes) / (float)n + eps); }

/* 1 / (1 + exp(-x)); the argument of exp is bounded, and beyond the bound the result is 0 in effect. */
static inline float sigmoid_value(float x) { return 1.0f / (1.0f + math_exp(x < -88.0f ? 88.0f : -x)); }

/* (1 + tanh u) / 2 is the sigmoid of 2 u. */
static inline float gelu_value(float x)
{
    const float u = 0.797884560802865f * (x + 0.044715f * x * x * x); /* sqrt(2 / pi) */
    return x * sigmoid_value(2 * u);
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
