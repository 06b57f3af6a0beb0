/* kv_cache_state.h: what the files behind kv_cache.h share. */
#ifndef CACHE_KV_CACHE_STATE_H
#define CACHE_KV_CACHE_STATE_H

#include "cache/kv_cache.h"

struct kv_group_state {
    struct kv_group config;
    uint32_t *free_block; /* stack: the block freed last, whose memory is warm, is taken first */
    int n_free;
    uint16_t *n_owner; /* [n_block] sequences that hold the block */
    uint32_t *table;   /* [n_seq][max_block] */
};

struct kv_sequence {
    bool is_open;
    int n_token;
    int n_draft;                    /* tokens at the end that may be taken back */
    int n_block;                    /* table entries in use, windows' gaps included */
    int first_block[KV_MAX_GROUPS]; /* the first that is still held */
    int region[KV_MAX_GROUPS];      /* blocks that are its own, used or not; not where paged */
};

struct kv_cache {
    struct kv_config config;
    int max_block; /* of one sequence */
    enum kv_policy policy;
    int rows_max; /* written at a time, of one sequence */
    size_t bytes_copied;
    struct kv_sequence *seq;
    struct kv_group_state group[KV_MAX_GROUPS];
};

static inline int kv_blocks_for(int n_token) { return (n_token + KV_BLOCK - 1) / KV_BLOCK; }

static inline uint32_t *kv_seq_table(const struct kv_cache *kv, kv_seq seq, int group)
{
    return kv->group[group].table + (size_t)seq * (size_t)kv->max_block;
}

/* A free block, which there is. */
uint32_t kv_take_block(struct kv_group_state *g);
/* Give up what the entry of a table names, which becomes KV_NO_BLOCK. */
void kv_drop_block(struct kv_group_state *g, uint32_t *entry);

/* Blocks of sequences' regions that they do not use yet (kv_policy.c). */
int kv_n_promised(const struct kv_cache *kv, int group);

#endif
