/* peaks_avx512vnni.c: the int8 peak of AVX-512 VNNI. */
#include "kernels/peaks.h"
#include "kernels/x86/peaks_avx512.h"

static void peak_int8_avx512vnni(int64_t n_round)
{
#define DOT(i) "vpdpbusd %%zmm24,%%zmm25,%%zmm" #i "\n"
    PEAK_LOOP_AVX512(n_round, DOT);
}

void peaks_init_avx512vnni(struct peaks *p)
{
    p->peak[PEAK_INT8] = (struct peak){"vpdpbusd zmm", PEAK_ACCUMULATORS_AVX512 * 128, peak_int8_avx512vnni};
}
