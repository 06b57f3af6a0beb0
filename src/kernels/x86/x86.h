/* x86.h: the parts of the x86 tables, one function for each file. */
#ifndef KERNELS_X86_X86_H
#define KERNELS_X86_X86_H

#include "kernels/kernels.h"

void matmul_q8_init_avx2(struct kernels *k);
void matmul_f32_init_avx2(struct kernels *k);
void matmul_bf16_sparse_init_avx2(struct kernels *k);
void quantize_q8_init_avx2(struct kernels *k);
void layer_init_avx2(struct kernels *k); /* norm, rope, gated products, cache writes */
void attention_init_avx2(struct kernels *k);
void matmul_q8_init_avxvnni(struct kernels *k);
void matmul_f32_init_avx512(struct kernels *k);
void matmul_q8_init_avx512vnni(struct kernels *k);
void matmul_bf16_init_avx512bf16(struct kernels *k);
void matmul_q8_init_amx(struct kernels *k);
void matmul_bf16_init_amx(struct kernels *k);

#endif
