/* init_avx512vnni.c: what vpdpbusd does better. */
#include "kernels/init.h"

#if defined(__x86_64__)
#include "kernels/x86/x86.h"

void kernels_init_avx512vnni(struct kernels *k) { matmul_q8_init_avx512vnni(k); }
#endif
