/* attention.h: the layout of keys and values in the cache, and what an attention kernel is given.
 * A block holds 16 consecutive tokens. For each layer and KV head it stores K transposed, [head_dim][16], so that 16 scores
 * accumulate by broadcasting q[d], and behind it V as [16][head_dim]. */
#ifndef KERNELS_ATTENTION_H
#define KERNELS_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

enum {
    ATTENTION_BLOCK = 16,    /* tokens in a block */
    ATTENTION_SEGMENT = 512, /* positions summed by one running maximum; segments are merged left to right */
    ATTENTION_MAX_QUERIES = 32,
    ATTENTION_MAX_HEAD_DIM = 512
};

enum kv_type {
    KV_F32,
    KV_F16,
    KV_BF16,
    KV_INT8,
    N_KV_TYPES
};

/* int8: the values of one token share a scale for each 32 channels of a head, set when the token is written. */
enum {
    KV_SCALE_CHANNELS = 32
};
static inline int kv_n_scale(int head_dim) { return (head_dim + KV_SCALE_CHANNELS - 1) / KV_SCALE_CHANNELS; }

/* Of keys or values of one KV head and one token. */
static inline size_t kv_vector_bytes(enum kv_type type, int head_dim)
{
    if (type == KV_INT8)
        return (size_t)head_dim + sizeof(float) * (size_t)kv_n_scale(head_dim);
    return (type == KV_F32 ? 4 : 2) * (size_t)head_dim;
}

/* Bytes of K and V of one KV head in one block. */
static inline size_t kv_head_block_bytes(enum kv_type type, int head_dim)
{
    return 2 * ATTENTION_BLOCK * kv_vector_bytes(type, head_dim);
}

/* An int8 block: K, then its scales [n_scale][16], V, then its scales [16][n_scale]. A value is q * scale, q in -127..127. */
struct kv_int8_parts {
    int8_t *k, *v;
    float *k_scale, *v_scale;
};
static inline struct kv_int8_parts kv_int8_parts(void *head_block, int head_dim)
{
    const size_t n = (size_t)ATTENTION_BLOCK * (size_t)head_dim,
                 n_scale = (size_t)ATTENTION_BLOCK * (size_t)kv_n_scale(head_dim);
    int8_t *k = head_block, *v = k + n + n_scale * sizeof(float);
    return (struct kv_int8_parts){k, v, (float *)(k + n), (float *)(v + n)};
}

/* Queries that read the same KV head over part of one segment. Query i sees the positions begin[i] <= p < end[i] of its
 * sequence and no others: what the cache holds elsewhere, NaN included, leaves no trace.
 * State of query i after the visible positions so far: maximum m[i], l[i] = sum exp(s - m), acc[i][d] = sum exp(s - m) v[d].
 * The kernel starts it at m = -inf, l = 0, acc = 0, takes the blocks first_block <= b < last_block in ascending order
 * (block b of the sequence, at base + block[b] * stride, holds the positions 16 b to 16 b + 15), and adds a block's terms in
 * an order that depends on nothing but the position in the block.
 * s = scale * q k, or cap * tanh(scale * q k / cap) where cap > 0. */
struct attention_job {
    const float *q; /* [n_query][head_dim] */
    const int32_t *begin;
    const int32_t *end;
    int n_query; /* 1 to ATTENTION_MAX_QUERIES */
    int head_dim;
    float scale;
    float cap;
    const char *base; /* at the KV head's part of block 0 */
    size_t stride;    /* bytes from block to block */
    const uint32_t *block;
    int first_block;
    int last_block;
    float *m;
    float *l;
    float *acc;     /* [n_query][head_dim] */
    float *scratch; /* attention_scratch_floats(head_dim) of them, 64-byte aligned */
};

static inline size_t attention_scratch_floats(int head_dim) { return 2 * ATTENTION_BLOCK * (size_t)head_dim; }

#endif
