/* scalar.h: the parts of the reference table. */
#ifndef KERNELS_SCALAR_SCALAR_H
#define KERNELS_SCALAR_SCALAR_H

#include "base/float_math.h"
#include "kernels/pack/pack.h"

void matmul_q8_init_scalar(struct kernels *k);
void matmul_f32_init_scalar(struct kernels *k);
void quantize_q8_scalar(void *row, const float *x, int n);
void layer_init_scalar(struct kernels *k); /* norm, rope, gated products, cache writes */
void attention_init_scalar(struct kernels *k);

/* cap * tanh(x / cap) */
static inline float soft_cap_value(float x, float cap)
{
    const float u = x / cap;
    const float e = math_exp(-2.0f * (u < 0 ? -u : u)); /* never overflows */
    const float t = (1.0f - e) / (1.0f + e);
    return cap * (u < 0 ? -t : t);
}

#endif
