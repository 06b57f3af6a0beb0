/* attention_avx2.c: attention of one KV head with AVX2. A block of 16-bit keys and values is widened once for all queries.
 * Scores: fma over d, ascending. Values: acc = fma(p[t], v[t], acc), t ascending. Four queries share what they load. */
#include "kernels/attention.h"

#if defined(__x86_64__)
#include <math.h>

#include "kernels/scalar/scalar.h"
#include "kernels/x86/float_math_avx2.h"
#include "kernels/x86/x86.h"

enum {
    T = ATTENTION_BLOCK,
    TILE = 4, /* queries: 8 sums, 2 keys or values, 1 broadcast in 16 registers */
    LINE = 64 /* bytes of a cache line: 16-bit keys and values of all tokens of a block for one d */
};

/* What the queries of a tile make of one block. */
struct tile {
    const char *next;           /* what the next block reads, fetched line by line meanwhile; NULL: nothing is */
    int begin[TILE], end[TILE]; /* visible tokens of the block */
    float *acc[TILE];
    _Alignas(32) float p[TILE][T];
};

/* Eight keys or values as floats, from where element i of a block's part stands. */
typedef __m256 load_fn(const void *part, int i);

SIMD_INLINE __m256 load_f32(const void *part, int i) { return _mm256_loadu_ps((const float *)part + i); }
SIMD_INLINE __m256 load_f16(const void *part, int i) { return simd_load_f16((const uint16_t *)part + i); }
SIMD_INLINE __m256 load_bf16(const void *part, int i) { return simd_load_bf16((const uint16_t *)part + i); }

/* scores of all 16 tokens, those that a query must not see included */
SIMD_INLINE void tile_scores(load_fn *load, struct tile *tile, const struct attention_job *job, int first, int n_query,
                             const void *k)
{
    const int head_dim = job->head_dim;
    const float *q = job->q + (size_t)first * (size_t)head_dim;
    __m256 sum[TILE][2];
#pragma GCC unroll 4
    for (int i = 0; i < n_query; i++)
        sum[i][0] = sum[i][1] = _mm256_setzero_ps();
    for (int d = 0; d < head_dim; d++) {
        const __m256 k0 = load(k, d * T), k1 = load(k, d * T + SIMD_FLOATS);
        if (load != load_f32)
            _mm_prefetch(tile->next + d * LINE, _MM_HINT_T0);
#pragma GCC unroll 4
        for (int i = 0; i < n_query; i++) {
            const __m256 x = _mm256_broadcast_ss(q + i * head_dim + d);
            sum[i][0] = _mm256_fmadd_ps(x, k0, sum[i][0]);
            sum[i][1] = _mm256_fmadd_ps(x, k1, sum[i][1]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < n_query; i++)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            __m256 s = _mm256_mul_ps(sum[i][h], _mm256_set1_ps(job->scale));
            if (job->cap > 0)
                s = simd_soft_cap(s, _mm256_set1_ps(job->cap));
            _mm256_store_ps(tile->p[i] + SIMD_FLOATS * h, s);
        }
}

/* The reference's exp_below: 1 above the maximum, which a NaN score can leave behind. */
SIMD_INLINE __m256 exp_below(__m256 x, __m256 top)
{
    const __m256 d = _mm256_sub_ps(x, top), above = _mm256_cmp_ps(d, _mm256_setzero_ps(), _CMP_GT_OQ);
    return _mm256_blendv_ps(simd_exp(d), _mm256_set1_ps(1), above);
}

/* Lanes begin <= t < end of one half of a block. */
SIMD_INLINE __m256 visible(int half, int begin, int end)
{
    const __m256i t = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(SIMD_FLOATS * half));
    return _mm256_castsi256_ps(
        _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(begin), t), _mm256_cmpgt_epi32(_mm256_set1_epi32(end), t)));
}

/* The lanes folded: 8 apart, 4, 2, 1. */
SIMD_INLINE float fold_max(__m256 a, __m256 b)
{
    const __m256 m = _mm256_max_ps(a, b);
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}

SIMD_INLINE float fold_sum(__m256 a, __m256 b)
{
    const __m256 m = _mm256_add_ps(a, b);
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
}

SIMD_INLINE void shrink_state(float *acc, __m256 shrink, int head_dim)
{
    int d = 0;
    for (; d + SIMD_FLOATS <= head_dim; d += SIMD_FLOATS)
        _mm256_storeu_ps(acc + d, _mm256_mul_ps(_mm256_loadu_ps(acc + d), shrink));
    for (; d < head_dim; d++)
        acc[d] *= _mm256_cvtss_f32(shrink);
}

/* Scores of query `first + i` to weights; m, l and acc are brought to the new maximum. */
SIMD_INLINE void softmax(struct tile *tile, const struct attention_job *job, int first, int i)
{
    const __m256 none = _mm256_set1_ps(-INFINITY);
    float *m = &job->m[first + i], *l = &job->l[first + i], *acc = tile->acc[i];
    const __m256 seen[2] = {visible(0, tile->begin[i], tile->end[i]), visible(1, tile->begin[i], tile->end[i])};
    __m256 s[2];
    for (int h = 0; h < 2; h++)
        s[h] = _mm256_blendv_ps(none, _mm256_load_ps(tile->p[i] + SIMD_FLOATS * h), seen[h]);
    const float highest = fold_max(s[0], s[1]), top = highest > *m ? highest : *m;
    for (int h = 0; h < 2; h++) {
        s[h] = _mm256_and_ps(exp_below(s[h], _mm256_set1_ps(top)), seen[h]);
        _mm256_store_ps(tile->p[i] + SIMD_FLOATS * h, s[h]);
    }
    const float sum = fold_sum(s[0], s[1]);
    if (top == *m && top > -INFINITY) { /* exp(0) is 1: the state stays as it is, which holds for most blocks */
        *l += sum;
        return;
    }
    const __m256 shrink = exp_below(_mm256_set1_ps(*m), _mm256_set1_ps(top));
    *m = top;
    *l = *l * _mm256_cvtss_f32(shrink) + sum;
    shrink_state(acc, shrink, job->head_dim);
}

/* acc[query][d .. d + 8 n_part) += p v over the tokens begin .. end */
SIMD_INLINE void add_values(load_fn *load, const struct tile *tile, int first, int n_query, int n_part, const void *v, int d,
                            int head_dim)
{
    const int begin = tile->begin[first], end = tile->end[first];
    __m256 sum[TILE][2];
#pragma GCC unroll 4
    for (int i = 0; i < n_query; i++)
#pragma GCC unroll 2
        for (int h = 0; h < n_part; h++)
            sum[i][h] = _mm256_loadu_ps(tile->acc[first + i] + d + SIMD_FLOATS * h);
    for (int t = begin; t < end; t++) {
        __m256 value[2];
#pragma GCC unroll 2
        for (int h = 0; h < n_part; h++)
            value[h] = load(v, t * head_dim + d + SIMD_FLOATS * h);
#pragma GCC unroll 4
        for (int i = 0; i < n_query; i++) {
            const __m256 p = _mm256_broadcast_ss(&tile->p[first + i][t]);
#pragma GCC unroll 2
            for (int h = 0; h < n_part; h++)
                sum[i][h] = _mm256_fmadd_ps(p, value[h], sum[i][h]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < n_query; i++)
#pragma GCC unroll 2
        for (int h = 0; h < n_part; h++)
            _mm256_storeu_ps(tile->acc[first + i] + d + SIMD_FLOATS * h, sum[i][h]);
}

/* The last values of heads whose size is no multiple of eight. */
SIMD_INLINE void add_last_values(load_fn *load, const struct tile *tile, int first, int n_query, const void *v, int d,
                                 int head_dim)
{
    const int left = head_dim - d;
    for (int i = first; i < first + n_query; i++)
        for (int t = tile->begin[i]; t < tile->end[i]; t++) {
            float value[SIMD_FLOATS]; /* ends at the row's end: nothing behind the block is read */
            _mm256_storeu_ps(value, load(v, t * head_dim + head_dim - SIMD_FLOATS));
            for (int j = 0; j < left; j++)
                tile->acc[i][d + j] += tile->p[i][t] * value[SIMD_FLOATS - left + j];
        }
}

SIMD_INLINE void add_all_values(load_fn *load, const struct tile *tile, int first, int n_query, const void *v, int head_dim)
{
    int d = 0;
    for (; d + 2 * SIMD_FLOATS <= head_dim; d += 2 * SIMD_FLOATS)
        add_values(load, tile, first, n_query, 2, v, d, head_dim);
    if (d + SIMD_FLOATS <= head_dim) {
        add_values(load, tile, first, n_query, 1, v, d, head_dim);
        d += SIMD_FLOATS;
    }
    if (d < head_dim)
        add_last_values(load, tile, first, n_query, v, d, head_dim);
}

/* Queries first .. first + n_query, all of which see something of block b. */
SIMD_INLINE void add_tile(load_fn *load, struct tile *tile, const struct attention_job *job, int first, int n_query,
                          const void *k, const void *v)
{
    bool alike = true; /* the same tokens visible to all */
    tile_scores(load, tile, job, first, n_query, k);
    for (int i = 0; i < n_query; i++) {
        tile->acc[i] = job->acc + (size_t)(first + i) * (size_t)job->head_dim;
        softmax(tile, job, first, i);
        alike = alike && tile->begin[i] == tile->begin[0] && tile->end[i] == tile->end[0];
    }
    if (alike)
        add_all_values(load, tile, 0, n_query, v, job->head_dim);
    else
        for (int i = 0; i < n_query; i++)
            add_all_values(load, tile, i, 1, v, job->head_dim);
}

/* Block b for all queries, in tiles of neighbours that see something of it. */
SIMD_INLINE void add_block(load_fn *load, const struct attention_job *job, int b, const void *k, const void *v,
                           const char *next)
{
    struct tile tile = {.next = next};
    int first = 0, n = 0;
    for (int i = 0; i <= job->n_query; i++) {
        bool sees = false;
        if (i < job->n_query) {
            tile.begin[n] = job->begin[i] > b * T ? job->begin[i] - b * T : 0;
            tile.end[n] = job->end[i] < (b + 1) * T ? job->end[i] - b * T : T;
            sees = tile.begin[n] < tile.end[n];
        }
        first = n == 0 ? i : first;
        n += sees;
        if (n == TILE || (n > 0 && !sees)) {
            switch (n) {
            case 1:
                add_tile(load, &tile, job, first, 1, k, v);
                break;
            case 2:
                add_tile(load, &tile, job, first, 2, k, v);
                break;
            case 3:
                add_tile(load, &tile, job, first, 3, k, v);
                break;
            default:
                add_tile(load, &tile, job, first, TILE, k, v);
            }
            n = 0;
        }
    }
}

static void start(const struct attention_job *job)
{
    for (int i = 0; i < job->n_query; i++) {
        job->m[i] = -INFINITY;
        job->l[i] = 0;
    }
    memset(job->acc, 0, (size_t)job->n_query * (size_t)job->head_dim * sizeof *job->acc);
}

static const char *block_at(const struct attention_job *job, int b) { return job->base + job->block[b] * job->stride; }

static void attention_f32_avx2(const struct attention_job *job)
{
    start(job);
    for (int b = job->first_block; b < job->last_block; b++) {
        const float *k = (const float *)block_at(job, b);
        add_block(load_f32, job, b, k, k + T * job->head_dim, NULL);
    }
}

static void add_widened_block(const struct attention_job *job, int b)
{
    add_block(load_f32, job, b, job->scratch, job->scratch + T * job->head_dim, NULL);
}

/* Keys and values of 16 bits: one tile of queries widens them as it goes, more share a widened copy. Blocks lie apart, so
 * that the CPU's own prefetching begins anew with each: the next one is fetched while this one is at work. */
SIMD_INLINE void attention_16(load_fn *load, const struct attention_job *job)
{
    const int n = T * job->head_dim;
    const bool few = job->n_query <= TILE && job->head_dim >= SIMD_FLOATS;
    start(job);
    for (int b = job->first_block; b < job->last_block; b++) {
        const uint16_t *block = (const uint16_t *)block_at(job, b);
        const char *next = block_at(job, b + 1 < job->last_block ? b + 1 : b);
        if (few) {
            add_block(load, job, b, block, block + n, next);
            continue;
        }
        for (int i = 0; i < 2 * n; i += 2 * T) {
            _mm_prefetch(next + 2 * i, _MM_HINT_T0);
#pragma GCC unroll 4
            for (int j = 0; j < 2 * T; j += SIMD_FLOATS)
                _mm256_storeu_ps(job->scratch + i + j, load(block, i + j));
        }
        add_widened_block(job, b);
    }
}

static void attention_f16_avx2(const struct attention_job *job) { attention_16(load_f16, job); }
static void attention_bf16_avx2(const struct attention_job *job) { attention_16(load_bf16, job); }

/* Eight int8 as floats. */
SIMD_INLINE __m256 load_int8(const int8_t *q)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)q)));
}

static void widen_int8_keys(float *to, const struct kv_int8_parts *from, int head_dim)
{
    for (int d = 0; d < head_dim; d++) {
        const float *scale = from->k_scale + d / KV_SCALE_CHANNELS * T;
        for (int h = 0; h < T; h += SIMD_FLOATS)
            _mm256_storeu_ps(to + d * T + h, _mm256_mul_ps(load_int8(from->k + d * T + h), _mm256_loadu_ps(scale + h)));
    }
}

static void widen_int8_values(float *to, const struct kv_int8_parts *from, int head_dim)
{
    const int n_scale = kv_n_scale(head_dim);
    for (int t = 0; t < T; t++) {
        const float *scale = from->v_scale + t * n_scale;
        int d = 0;
        for (; d + SIMD_FLOATS <= head_dim; d += SIMD_FLOATS) {
            const __m256 s = _mm256_broadcast_ss(scale + d / KV_SCALE_CHANNELS);
            _mm256_storeu_ps(to + t * head_dim + d, _mm256_mul_ps(load_int8(from->v + t * head_dim + d), s));
        }
        for (; d < head_dim; d++)
            to[t * head_dim + d] = (float)from->v[t * head_dim + d] * scale[d / KV_SCALE_CHANNELS];
    }
}

/* A block is widened once for all queries, while the next one is fetched. */
static void attention_int8_avx2(const struct attention_job *job)
{
    const int head_dim = job->head_dim;
    start(job);
    for (int b = job->first_block; b < job->last_block; b++) {
        const struct kv_int8_parts from = kv_int8_parts((void *)block_at(job, b), head_dim);
        const char *next = block_at(job, b + 1 < job->last_block ? b + 1 : b);
        for (size_t i = 0; i < kv_head_block_bytes(KV_INT8, head_dim); i += LINE)
            _mm_prefetch(next + i, _MM_HINT_T0);
        widen_int8_keys(job->scratch, &from, head_dim);
        widen_int8_values(job->scratch + T * head_dim, &from, head_dim);
        add_widened_block(job, b);
    }
}

void attention_init_avx2(struct kernels *k)
{
    k->attention[KV_F32] = attention_f32_avx2;
    k->attention[KV_F16] = attention_f16_avx2;
    k->attention[KV_BF16] = attention_bf16_avx2;
    k->attention[KV_INT8] = attention_int8_avx2;
}
#endif
