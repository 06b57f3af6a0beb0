/* init_avx512bf16.c: what vdpbf16ps does better. */
#include "kernels/init.h"

#if defined(__x86_64__)
#include "kernels/x86/x86.h"

void kernels_init_avx512bf16(struct kernels *k) { matmul_bf16_init_avx512bf16(k); }
#endif
