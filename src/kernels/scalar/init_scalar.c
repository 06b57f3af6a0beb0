/* init_scalar.c: the reference table. */
#include "kernels/init.h"
#include "kernels/scalar/scalar.h"

void kernels_init_scalar(struct kernels *k)
{
    matmul_q8_init_scalar(k);
    matmul_f32_init_scalar(k);
    k->quantize_q8 = quantize_q8_scalar;
    k->quantize_q8_rest = quantize_q8_rest_scalar;
    layer_init_scalar(k);
    attention_init_scalar(k);
}
