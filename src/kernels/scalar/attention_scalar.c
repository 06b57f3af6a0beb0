/* attention_scalar.c: attention of one KV head over blocks of 16 tokens with a running maximum (Milakov & Gimelshein 2018,
 * arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135): the reference. */
#include <math.h>
#include <string.h>

#include "base/float_math.h"
#include "base/fp16.h"
#include "kernels/scalar/scalar.h"

enum {
    T = ATTENTION_BLOCK
};

/* e^(x - top) for x <= top; 0 where x is minus infinity. */
static float exp_below(float x, float top)
{
    const float d = x - top;
    return d > 0 ? 1.0f : math_exp(d);
}

/* scores[t] of all 16 tokens of a block, those that the query must not see included. */
static void block_scores(float *scores, const float *q, const float *k, const struct attention_job *job)
{
    memset(scores, 0, T * sizeof *scores);
    for (int d = 0; d < job->head_dim; d++)
        for (int t = 0; t < T; t++)
            scores[t] += q[d] * k[d * T + t];
    for (int t = 0; t < T; t++)
        scores[t] *= job->scale;
    if (job->cap > 0)
        for (int t = 0; t < T; t++)
            scores[t] = soft_cap_value(scores[t], job->cap);
}

/* Add the tokens begin <= t < end of one block to the state of query i. */
static void add_block(const struct attention_job *job, int i, const float *k, const float *v, int begin, int end)
{
    const int head_dim = job->head_dim;
    float *acc = job->acc + (size_t)i * (size_t)head_dim;
    float p[T];
    block_scores(p, job->q + (size_t)i * (size_t)head_dim, k, job);
    float top = job->m[i];
    for (int t = begin; t < end; t++)
        top = p[t] > top ? p[t] : top;
    const float shrink = exp_below(job->m[i], top);
    float sum = 0;
    for (int t = begin; t < end; t++) {
        p[t] = exp_below(p[t], top);
        sum += p[t];
    }
    job->m[i] = top;
    job->l[i] = job->l[i] * shrink + sum;
    for (int d = 0; d < head_dim; d++)
        acc[d] *= shrink;
    for (int t = begin; t < end; t++)
        for (int d = 0; d < head_dim; d++)
            acc[d] += p[t] * v[t * head_dim + d];
}

static void start(const struct attention_job *job)
{
    for (int i = 0; i < job->n_query; i++) {
        job->m[i] = -INFINITY;
        job->l[i] = 0;
    }
    memset(job->acc, 0, (size_t)job->n_query * (size_t)job->head_dim * sizeof *job->acc);
}

static void add_block_to_all(const struct attention_job *job, int b, const float *k, const float *v)
{
    for (int i = 0; i < job->n_query; i++) {
        const int begin = job->begin[i] > b * T ? job->begin[i] - b * T : 0;
        const int end = job->end[i] < (b + 1) * T ? job->end[i] - b * T : T;
        if (begin < end)
            add_block(job, i, k, v, begin, end);
    }
}

static void attention_f32_scalar(const struct attention_job *job)
{
    start(job);
    for (int b = job->first_block; b < job->last_block; b++) {
        const float *k = (const float *)(job->base + job->block[b] * job->stride);
        add_block_to_all(job, b, k, k + T * job->head_dim);
    }
}

static inline void attention_16(float (*widen)(uint16_t), const struct attention_job *job)
{
    const int n = T * job->head_dim;
    start(job);
    for (int b = job->first_block; b < job->last_block; b++) {
        const uint16_t *block = (const uint16_t *)(job->base + job->block[b] * job->stride);
        for (int i = 0; i < 2 * n; i++)
            job->scratch[i] = widen(block[i]);
        add_block_to_all(job, b, job->scratch, job->scratch + n);
    }
}

static void attention_f16_scalar(const struct attention_job *job) { attention_16(f32_from_f16, job); }
static void attention_bf16_scalar(const struct attention_job *job) { attention_16(f32_from_bf16, job); }

static void attention_int8_scalar(const struct attention_job *job)
{
    const int head_dim = job->head_dim, n_scale = kv_n_scale(head_dim);
    float *k = job->scratch, *v = k + T * head_dim;
    start(job);
    for (int b = job->first_block; b < job->last_block; b++) {
        const struct kv_int8_parts from = kv_int8_parts((void *)(job->base + job->block[b] * job->stride), head_dim);
        for (int d = 0; d < head_dim; d++)
            for (int t = 0; t < T; t++) {
                k[d * T + t] = (float)from.k[d * T + t] * from.k_scale[d / KV_SCALE_CHANNELS * T + t];
                v[t * head_dim + d] = (float)from.v[t * head_dim + d] * from.v_scale[t * n_scale + d / KV_SCALE_CHANNELS];
            }
        add_block_to_all(job, b, k, v);
    }
}

static void attention_merge_scalar(float *m, float *l, float *acc, float m2, float l2, const float *acc2, int head_dim)
{
    const float top = m2 > *m ? m2 : *m;
    const float shrink = exp_below(*m, top), shrink2 = exp_below(m2, top);
    *m = top;
    *l = *l * shrink + l2 * shrink2;
    for (int d = 0; d < head_dim; d++)
        acc[d] = acc[d] * shrink + acc2[d] * shrink2;
}

static void attention_finish_scalar(float *out, const float *acc, float l, int head_dim)
{
    for (int d = 0; d < head_dim; d++)
        out[d] = acc[d] / l;
}

void attention_init_scalar(struct kernels *k)
{
    k->attention[KV_F32] = attention_f32_scalar;
    k->attention[KV_F16] = attention_f16_scalar;
    k->attention[KV_BF16] = attention_bf16_scalar;
    k->attention[KV_INT8] = attention_int8_scalar;
    k->attention_merge = attention_merge_scalar;
    k->attention_finish = attention_finish_scalar;
}
