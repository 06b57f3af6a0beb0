/* scalar.h: the parts of the reference table. */
#ifndef KERNELS_SCALAR_SCALAR_H
#define KERNELS_SCALAR_SCALAR_H

#include "kernels/pack/pack.h"

void matmul_q8_init_scalar(struct kernels *k);
void matmul_f32_init_scalar(struct kernels *k);
void quantize_q8_scalar(void *row, const float *x, int n);

#endif
