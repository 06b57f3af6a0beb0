/* peaks_avx512.c: the peaks and the read loop of AVX-512. */
#include "kernels/x86/peaks_avx512.h"

#include <immintrin.h>

#include "kernels/peaks.h"

static void peak_f32_avx512(int64_t n_round)
{
#define FMA(i) "vfmadd231ps %%zmm24,%%zmm25,%%zmm" #i "\n"
    PEAK_LOOP_AVX512(n_round, FMA);
}

/* The sequence without VNNI, as in peaks_avx2.c. */
static void peak_int8_avx512(int64_t n_round)
{
#define DOT(i)                                                                                                                 \
    "vpmaddubsw %%zmm24,%%zmm25,%%zmm26\n"                                                                                     \
    "vpmaddwd %%zmm24,%%zmm26,%%zmm26\n"                                                                                       \
    "vpaddd %%zmm26,%%zmm" #i ",%%zmm" #i "\n"
    PEAK_LOOP_AVX512(n_round, DOT);
}

static inline uint64_t read_streams(const char *p, size_t n, int n_stream)
{
    __m512i sum[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    for (size_t i = 0; i < n; i += 256)
        for (int s = 0; s < n_stream; s++)
            for (int k = 0; k < 4; k++)
                sum[k] = _mm512_add_epi64(sum[k], _mm512_load_si512(p + n * (size_t)s + i + 64 * (size_t)k));
    const __m512i all = _mm512_add_epi64(_mm512_add_epi64(sum[0], sum[1]), _mm512_add_epi64(sum[2], sum[3]));
    return (uint64_t)_mm512_reduce_add_epi64(all);
}

static uint64_t read_avx512(const void *p, size_t bytes, int n_stream)
{
    const size_t n = bytes / (size_t)n_stream;
    return n_stream == 4 ? read_streams(p, n, 4) : n_stream == 2 ? read_streams(p, n, 2) : read_streams(p, n, 1);
}

void peaks_init_avx512(struct peaks *p)
{
    p->peak[PEAK_F32] = (struct peak){"vfmadd231ps zmm", PEAK_ACCUMULATORS_AVX512 * 32, peak_f32_avx512};
    p->peak[PEAK_INT8] = (struct peak){"vpmaddubsw, vpmaddwd, vpaddd zmm", PEAK_ACCUMULATORS_AVX512 * 128, peak_int8_avx512};
    p->read = read_avx512;
}
