/* init_avx512.c: what AVX-512 does better than AVX2. */
#include "kernels/init.h"

#if defined(__x86_64__)
#include "kernels/x86/x86.h"

void kernels_init_avx512(struct kernels *k) { matmul_f32_init_avx512(k); }
#endif
