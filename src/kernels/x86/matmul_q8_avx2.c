/* matmul_q8_avx2.c: products of int8 activations with AVX2. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include "kernels/x86/matmul_q8_256.h"
#include "kernels/x86/x86.h"

#define MATMUL_ISA "avx2"
MATMUL_Q8_TYPES(MATMUL_Q8_RUN)
MATMUL_Q8_SPARSE_TYPES(MATMUL_Q8_RUN)

void matmul_q8_init_avx2(struct kernels *k)
{
    MATMUL_Q8_TYPES(MATMUL_Q8_SET)
    MATMUL_Q8_SPARSE_TYPES(MATMUL_Q8_SET)
}
#endif
