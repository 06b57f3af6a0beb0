/* init_avxvnni.c: what vpdpbusd on 256 bits does better. */
#include "kernels/init.h"

#if defined(__x86_64__)
#include "kernels/x86/x86.h"

void kernels_init_avxvnni(struct kernels *k) { matmul_q8_init_avxvnni(k); }
#endif
