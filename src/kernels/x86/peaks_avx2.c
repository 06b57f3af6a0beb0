/* peaks_avx2.c: peaks of AVX2. */
#include <immintrin.h>

#include "kernels/peaks.h"

#define TWELVE(step) step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7) step(8) step(9) step(10) step(11)
#define CLEAR(i)     "vpxor %%ymm" #i ",%%ymm" #i ",%%ymm" #i "\n"
#define CLOBBERS                                                                                                               \
    "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", "ymm10", "ymm11", "ymm12", "ymm13",        \
        "ymm14", "cc"

static void peak_f32_avx2(int64_t n_round)
{
#define FMA(i) "vfmadd231ps %%ymm12,%%ymm13,%%ymm" #i "\n"
    __asm__ volatile(TWELVE(CLEAR) CLEAR(12) CLEAR(13) "1:\n" TWELVE(FMA) "dec %0\njnz 1b\n" : "+r"(n_round) : : CLOBBERS);
#undef FMA
}

/* Without VNNI a sum of products of bytes takes three instructions: 32 products to 16 sums of two, those to 8 sums of
 * four, and the addition. A product with weights of 4 bits may add several of the first sums in 16 bits before it
 * widens them, and so pass this peak. */
static void peak_int8_avx2(int64_t n_round)
{
#define DOT(i)                                                                                                                 \
    "vpmaddubsw %%ymm12,%%ymm13,%%ymm14\n"                                                                                     \
    "vpmaddwd %%ymm12,%%ymm14,%%ymm14\n"                                                                                       \
    "vpaddd %%ymm14,%%ymm" #i ",%%ymm" #i "\n"
    __asm__ volatile(TWELVE(CLEAR) CLEAR(12) CLEAR(13) "1:\n" TWELVE(DOT) "dec %0\njnz 1b\n" : "+r"(n_round) : : CLOBBERS);
#undef DOT
}

static inline uint64_t read_streams(const char *p, size_t n, int n_stream)
{
    __m256i sum[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (size_t i = 0; i < n; i += 128)
        for (int s = 0; s < n_stream; s++)
            for (int k = 0; k < 4; k++)
                sum[k] = _mm256_add_epi64(sum[k], _mm256_load_si256((const __m256i *)(p + n * (size_t)s + i + 32 * (size_t)k)));
    const __m256i all = _mm256_add_epi64(_mm256_add_epi64(sum[0], sum[1]), _mm256_add_epi64(sum[2], sum[3]));
    const __m128i half = _mm_add_epi64(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    return (uint64_t)_mm_cvtsi128_si64(half) + (uint64_t)_mm_extract_epi64(half, 1);
}

static uint64_t read_avx2(const void *p, size_t bytes, int n_stream)
{
    const size_t n = bytes / (size_t)n_stream;
    return n_stream == 4 ? read_streams(p, n, 4) : n_stream == 2 ? read_streams(p, n, 2) : read_streams(p, n, 1);
}

void peaks_init_avx2(struct peaks *p)
{
    p->peak[PEAK_F32] = (struct peak){"vfmadd231ps ymm", 12 * 16, peak_f32_avx2};
    p->peak[PEAK_INT8] = (struct peak){"vpmaddubsw, vpmaddwd, vpaddd ymm", 12 * 64, peak_int8_avx2};
    p->read = read_avx2;
}
