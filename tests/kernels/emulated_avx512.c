/* emulated_avx512.c: the AVX-512 products on CPUs without AVX-512: their own source, its intrinsics replaced by functions in
 * plain C (avx512_emulation.h). Slow, and no proof that the real instructions are used well; test_matmul is that, where
 * the CPU has them. */
#include "check_matmul.h"
#include "kernels/x86/x86.h"

int main(void)
{
    static struct kernels reference, k;
    struct check c = {.seed = 1, .state = 1, .isa = "avx512 emulated"};
    kernels_select(&reference, 0);
    kernels_select(&k, 0);
    matmul_f32_init_avx512(&k);
    matmul_q8_init_avx512vnni(&k);
    check_matmul(&c, &reference, &k);
    printf("%d checks, %d failed\n", c.n_check, c.n_fail);
    return c.n_fail != 0;
}
