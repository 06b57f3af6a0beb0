/* quantize_q8_avx2.c: float activations to int8, the reference's bits. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <math.h>

#include "kernels/x86/simd_avx2.h"
#include "kernels/x86/x86.h"

enum {
    N_PARTS = Q8_BLOCK / SIMD_FLOATS
};

static inline float largest_magnitude(const __m256 x[N_PARTS])
{
    const __m256i sign = _mm256_set1_epi32(INT32_MAX);
    __m256i largest = _mm256_setzero_si256(); /* of bit patterns: a NaN is larger than infinity */
    for (int i = 0; i < N_PARTS; i++)
        largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(x[i]), sign));
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(m));
}

/* The sums of the first and the second 16 of 32 signed bytes. */
static inline void sum_halves(int16_t *s, __m256i q)
{
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), q);
    __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0x4e));
    sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0xb1));
    s[0] = (int16_t)_mm_cvtsi128_si32(_mm256_castsi256_si128(sums));
    s[1] = (int16_t)_mm_cvtsi128_si32(_mm256_extracti128_si256(sums, 1));
}

static inline float quantize_block(int8_t *q, int16_t *s, const __m256 v[N_PARTS])
{
    const float largest = largest_magnitude(v);
    if (!(largest >= 0x1p-100f && largest < INFINITY)) { /* the comparison with a NaN is false */
        simd_store(q, _mm256_setzero_si256());
        s[0] = s[1] = 0;
        return largest < 1 ? 0 : NAN;
    }
    const __m256 inverse = _mm256_set1_ps(127 / largest);
    __m256i n[N_PARTS];
    for (int i = 0; i < N_PARTS; i++)
        n[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse)); /* to nearest, ties to even */
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
    const __m256i in_order = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    simd_store(q, in_order);
    sum_halves(s, in_order);
    return largest / 127;
}

/* Where the parts of a row are that is being written. */
struct q8_parts {
    int8_t *q;
    float *d, *ds;
    int16_t *s;
};

static inline struct q8_parts parts_of(void *row, int n)
{
    const int n_block = q8_n_blocks(n);
    float *d = (float *)((int8_t *)row + (size_t)n_block * Q8_BLOCK);
    return (struct q8_parts){row, d, d + n_block, (int16_t *)(d + 2 * n_block)};
}

static inline void write_block(const struct q8_parts *to, int b, const __m256 v[N_PARTS])
{
    int16_t *s = to->s + 2 * b;
    to->d[b] = quantize_block(to->q + b * Q8_BLOCK, s, v);
    to->ds[b] = to->d[b] * (float)(s[0] + s[1]);
}

static inline void read_block(__m256 v[N_PARTS], const float *x, int b, int n)
{
    const int rest = n - b * Q8_BLOCK;
    float padded[Q8_BLOCK] = {0};
    if (rest < Q8_BLOCK)
        memcpy(padded, x + b * Q8_BLOCK, sizeof(float) * (size_t)rest);
    for (int i = 0; i < N_PARTS; i++)
        v[i] = _mm256_loadu_ps((rest < Q8_BLOCK ? padded : x + b * Q8_BLOCK) + i * SIMD_FLOATS);
}

static void quantize_q8_avx2(void *row, const float *x, int n)
{
    const struct q8_parts to = parts_of(row, n);
    for (int b = 0; b < q8_n_blocks(n); b++) {
        __m256 v[N_PARTS];
        read_block(v, x, b, n);
        write_block(&to, b, v);
    }
}

static void quantize_q8_rest_avx2(void *rest, const void *row, const float *x, int n)
{
    const struct q8_parts to = parts_of(rest, n);
    for (int b = 0; b < q8_n_blocks(n); b++) {
        const __m256 d = _mm256_set1_ps(q8_d(row, n)[b]);
        __m256 v[N_PARTS];
        read_block(v, x, b, n);
        for (int i = 0; i < N_PARTS; i++) {
            const __m128i q = _mm_loadl_epi64((const __m128i *)(q8_q(row) + b * Q8_BLOCK + i * SIMD_FLOATS));
            v[i] = _mm256_sub_ps(v[i], _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q))));
        }
        write_block(&to, b, v);
    }
}

void quantize_q8_init_avx2(struct kernels *k)
{
    k->quantize_q8 = quantize_q8_avx2;
    k->quantize_q8_rest = quantize_q8_rest_avx2;
}
#endif
