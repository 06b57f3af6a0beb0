/* init_amx.c: what tiles do better. */
#include "kernels/init.h"

#if defined(__x86_64__)
#include "kernels/x86/x86.h"

void kernels_init_amx(struct kernels *k)
{
    matmul_q8_init_amx(k);
    matmul_bf16_init_amx(k);
}
#endif
