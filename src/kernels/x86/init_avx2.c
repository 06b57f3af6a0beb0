/* init_avx2.c: what AVX2 does better than plain C. */
#include "kernels/init.h"

#if defined(__x86_64__)
#include "kernels/x86/x86.h"

void kernels_init_avx2(struct kernels *k)
{
    matmul_q8_init_avx2(k);
    matmul_f32_init_avx2(k);
    matmul_bf16_sparse_init_avx2(k);
    quantize_q8_init_avx2(k);
    layer_init_avx2(k);
    attention_init_avx2(k);
}
#endif
