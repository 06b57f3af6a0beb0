/* attention_avx2.c: attention of one KV head with AVX2. Four queries read a block as it stands; more share a copy of it in f32.
 * Scores: fma over d, ascending. Values: acc = fma(p[t], v[t], acc), t ascending. Four queries share what they load. */
#include "kernels/attention.h"

#if defined(__x86_64__)
#include <math.h>

#include "kernels/scalar/scalar.h"
#include "kernels/x86/float_math_avx2.h"
#include "kernels/x86/kv_read_avx2.h"
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

/* scores of all 16 tokens, those that a query must not see included */
SIMD_INLINE void tile_scores(const struct reader *read, struct tile *tile, const struct attention_job *job, int first,
                             int n_query, const struct part *k)
{
    const int head_dim = job->head_dim;
    const float *q = job->q + (size_t)first * (size_t)head_dim;
    __m256 sum[TILE][2];
#pragma GCC unroll 4
    for (int i = 0; i < n_query; i++)
        sum[i][0] = sum[i][1] = _mm256_setzero_ps();
    for (int d = 0; d < head_dim; d++) {
        const __m256 k0 = read->key(k, d, 0), k1 = read->key(k, d, SIMD_FLOATS);
        if (read->fetch)
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
SIMD_INLINE void add_values(const struct reader *read, const struct tile *tile, int first, int n_query, int n_part,
                            const struct part *v, int d)
{
    const int begin = tile->begin[first], end = tile->end[first];
    const struct part values = *v; /* not read again for every token */
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
            value[h] = read->value(&values, t, d + SIMD_FLOATS * h);
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
SIMD_INLINE void add_last_values(const struct reader *read, const struct tile *tile, int first, int n_query,
                                 const struct part *v, int d, int head_dim)
{
    const int left = head_dim - d;
    for (int i = first; i < first + n_query; i++)
        for (int t = tile->begin[i]; t < tile->end[i]; t++) {
            float value[SIMD_FLOATS]; /* ends at the row's end: nothing behind the block is read */
            _mm256_storeu_ps(value, read->value(v, t, head_dim - SIMD_FLOATS));
            for (int j = 0; j < left; j++)
                tile->acc[i][d + j] += tile->p[i][t] * value[SIMD_FLOATS - left + j];
        }
}

SIMD_INLINE void add_all_values(const struct reader *read, const struct tile *tile, int first, int n_query,
                                const struct part *v, int head_dim)
{
    int d = 0;
    for (; d + 2 * SIMD_FLOATS <= head_dim; d += 2 * SIMD_FLOATS)
        add_values(read, tile, first, n_query, 2, v, d);
    if (d + SIMD_FLOATS <= head_dim) {
        add_values(read, tile, first, n_query, 1, v, d);
        d += SIMD_FLOATS;
    }
    if (d < head_dim)
        add_last_values(read, tile, first, n_query, v, d, head_dim);
}

/* Queries first .. first + n_query, all of which see something of block b. */
SIMD_INLINE void add_tile(const struct reader *read, struct tile *tile, const struct attention_job *job, int first, int n_query,
                          const struct part *k, const struct part *v)
{
    bool alike = true; /* the same tokens visible to all */
    tile_scores(read, tile, job, first, n_query, k);
    for (int i = 0; i < n_query; i++) {
        tile->acc[i] = job->acc + (size_t)(first + i) * (size_t)job->head_dim;
        softmax(tile, job, first, i);
        alike = alike && tile->begin[i] == tile->begin[0] && tile->end[i] == tile->end[0];
    }
    if (alike)
        add_all_values(read, tile, 0, n_query, v, job->head_dim);
    else
        for (int i = 0; i < n_query; i++)
            add_all_values(read, tile, i, 1, v, job->head_dim);
}

/* Block b for all queries, in tiles of neighbours that see something of it. */
SIMD_INLINE void add_block(const struct reader *read, const struct attention_job *job, int b, const struct part *k,
                           const struct part *v, const char *next)
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
                add_tile(read, &tile, job, first, 1, k, v);
                break;
            case 2:
                add_tile(read, &tile, job, first, 2, k, v);
                break;
            case 3:
                add_tile(read, &tile, job, first, 3, k, v);
                break;
            default:
                add_tile(read, &tile, job, first, TILE, k, v);
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

/* Keys and values of a block, and the same of the next one, which is fetched meanwhile. */
struct head_block {
    struct part k, v;
    const char *next;
};

SIMD_INLINE struct head_block head_block(enum kv_type type, const struct attention_job *job, int b)
{
    const char *at = block_at(job, b);
    const int head_dim = job->head_dim;
    const size_t bytes = kv_head_block_bytes(type, head_dim);
    const struct kv_int8_parts int8 = kv_int8_parts((void *)(uintptr_t)at, head_dim);
    return (struct head_block){
        .k = {.at = at, .scale = type == KV_INT8 ? int8.k_scale : NULL, .n_column = T},
        .v = {.at = at + bytes / 2,
              .scale = type == KV_INT8 ? int8.v_scale : NULL,
              .n_column = head_dim,
              .n_scale = kv_n_scale(head_dim)},
        .next = block_at(job, b + 1 < job->last_block ? b + 1 : b),
    };
}

static void add_f32_block(const struct attention_job *job, int b, const struct head_block *x)
{
    add_block(&read_f32, job, b, &x->k, &x->v, x->next);
}

static void attention_f32_avx2(const struct attention_job *job)
{
    start(job);
    for (int b = job->first_block; b < job->last_block; b++) {
        const struct head_block block = head_block(KV_F32, job, b);
        add_f32_block(job, b, &block);
    }
}

static void add_widened_block(const struct attention_job *job, int b)
{
    const struct head_block block = {.k = {.at = job->scratch, .n_column = T},
                                     .v = {.at = job->scratch + T * job->head_dim, .n_column = job->head_dim}};
    add_f32_block(job, b, &block);
}

/* One tile of queries widens keys and values as it goes, more share a widened copy. Blocks lie apart, so that the CPU's own
 * prefetching begins anew with each: the next one is fetched while this one is at work. */
SIMD_INLINE void attention_16(enum kv_type type, const struct reader *read, const struct attention_job *job)
{
    const bool few = job->n_query <= TILE && job->head_dim >= SIMD_FLOATS;
    start(job);
    for (int b = job->first_block; b < job->last_block; b++) {
        const struct head_block block = head_block(type, job, b);
        if (few) {
            add_block(read, job, b, &block.k, &block.v, block.next);
            continue;
        }
        const struct part flat = {.at = block.k.at}; /* keys and behind them values */
        for (int i = 0; i < 2 * T * job->head_dim; i += 2 * T) {
            _mm_prefetch(block.next + 2 * i, _MM_HINT_T0);
#pragma GCC unroll 4
            for (int j = 0; j < 2 * T; j += SIMD_FLOATS)
                _mm256_storeu_ps(job->scratch + i + j, read->key(&flat, 0, i + j));
        }
        add_widened_block(job, b);
    }
}

static void attention_f16_avx2(const struct attention_job *job) { attention_16(KV_F16, &read_f16, job); }
static void attention_bf16_avx2(const struct attention_job *job) { attention_16(KV_BF16, &read_bf16, job); }

static void widen_int8(float *to, const struct head_block *from, int head_dim)
{
    float *v = to + T * head_dim;
    for (int d = 0; d < head_dim; d++)
        for (int t = 0; t < T; t += SIMD_FLOATS)
            _mm256_storeu_ps(to + d * T + t, load_int8_key(&from->k, d, t));
    for (int t = 0; t < T; t++) {
        int d = 0;
        for (; d + SIMD_FLOATS <= head_dim; d += SIMD_FLOATS)
            _mm256_storeu_ps(v + t * head_dim + d, load_int8_value(&from->v, t, d));
        for (; d < head_dim; d++)
            v[t * head_dim + d] = (float)((const int8_t *)from->v.at)[t * head_dim + d] *
                                  from->v.scale[t * from->v.n_scale + d / KV_SCALE_CHANNELS];
    }
}

static void attention_int8_avx2(const struct attention_job *job)
{
    const bool few = job->n_query <= TILE && job->head_dim % SIMD_FLOATS == 0;
    start(job);
    for (int b = job->first_block; b < job->last_block; b++) {
        const struct head_block block = head_block(KV_INT8, job, b);
        for (size_t i = 0; i < kv_head_block_bytes(KV_INT8, job->head_dim); i += LINE)
            _mm_prefetch(block.next + i, _MM_HINT_T0);
        if (few) {
            add_block(&read_int8, job, b, &block.k, &block.v, block.next);
        } else {
            widen_int8(job->scratch, &block, job->head_dim);
            add_widened_block(job, b);
        }
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
