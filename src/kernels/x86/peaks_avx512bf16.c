/* peaks_avx512bf16.c: the bf16 peak of AVX-512 BF16. */
#include "kernels/peaks.h"
#include "kernels/x86/peaks_avx512.h"

static void peak_bf16_avx512bf16(int64_t n_round)
{
#define DOT(i) "vdpbf16ps %%zmm24,%%zmm25,%%zmm" #i "\n"
    PEAK_LOOP_AVX512(n_round, DOT);
}

void peaks_init_avx512bf16(struct peaks *p)
{
    p->peak[PEAK_BF16] = (struct peak){"vdpbf16ps zmm", PEAK_ACCUMULATORS_AVX512 * 64, peak_bf16_avx512bf16};
}
