/* matmul_q8_avxvnni.c: the same with vpdpbusd, which multiplies and adds four bytes of each lane at once, for CPUs that have it
 * but not AVX-512. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#define PANEL_VNNI 1
#include "kernels/x86/matmul_q8_256.h"
#include "kernels/x86/x86.h"

#define MATMUL_ISA "avxvnni"
MATMUL_Q8_TYPES(MATMUL_Q8_RUN)
MATMUL_Q8_SPARSE_TYPES(MATMUL_Q8_RUN)

void matmul_q8_init_avxvnni(struct kernels *k)
{
    MATMUL_Q8_TYPES(MATMUL_Q8_SET)
    MATMUL_Q8_SPARSE_TYPES(MATMUL_Q8_SET)
}
#endif
