/* kv_policy.c: the simpler ways to give memory to sequences, as regions: numbers of blocks that belong to one sequence whether
 * it uses them or not. Blocks are interchangeable, so a region needs no place of its own; growing copies what is in it. */
#include "cache/kv_cache_state.h"

void kv_set_policy(struct kv_cache *kv, enum kv_policy policy, int rows_max)
{
    kv->policy = policy;
    kv->rows_max = rows_max;
}

size_t kv_bytes_copied(const struct kv_cache *kv) { return kv->bytes_copied; }

static int n_held(const struct kv_sequence *s, int group) { return s->n_block - s->first_block[group]; }

int kv_n_promised(const struct kv_cache *kv, int group)
{
    int n = 0;
    for (int i = 0; kv->policy != KV_PAGED && i < kv->config.n_seq; i++) {
        const struct kv_sequence *s = &kv->seq[i];
        if (s->is_open && s->region[group] > n_held(s, group))
            n += s->region[group] - n_held(s, group);
    }
    return n;
}

/* Blocks of the region that holds n blocks: the present one, the largest that a sequence may need, or the next power of two. */
static int region_for(const struct kv_cache *kv, const struct kv_sequence *s, int group, int n)
{
    if (n <= s->region[group])
        return s->region[group];
    const int most = kv_blocks_needed(kv, group, kv->config.max_token, kv->rows_max);
    int region = 1;
    while (region < n)
        region *= 2;
    return kv->policy == KV_GROW && region < most ? region : most;
}

/* The tokens so far move into another region. */
static void copy_region(struct kv_cache *kv, kv_seq seq, int group)
{
    const struct kv_sequence *s = &kv->seq[seq];
    for (int b = s->first_block[group]; b < s->n_block; b++) {
        uint32_t *entry = &kv_seq_table(kv, seq, group)[b], old = *entry;
        *entry = kv_take_block(&kv->group[group]);
        if (kv->config.copy != NULL)
            kv->config.copy(kv->config.context, group, *entry, old);
        kv_drop_block(&kv->group[group], &old);
        kv->bytes_copied += kv_block_bytes(kv, group);
    }
}

enum mr_status kv_seq_claim(struct kv_cache *kv, kv_seq seq, int n_token)
{
    struct kv_sequence *s = &kv->seq[seq];
    int region[KV_MAX_GROUPS];
    for (int i = 0; kv->policy != KV_PAGED && i < kv->config.n_group; i++) {
        const int most = kv_blocks_needed(kv, i, n_token, kv->rows_max), n = kv_blocks_for(n_token) - s->first_block[i];
        region[i] = region_for(kv, s, i, n < most ? n : most);
        if (region[i] > s->region[i] && region[i] > kv_n_free_blocks(kv, i)) /* the old one is held until it is copied */
            return MR_FULL;
    }
    for (int i = 0; kv->policy != KV_PAGED && i < kv->config.n_group; i++) {
        if (region[i] == s->region[i])
            continue;
        copy_region(kv, seq, i);
        s->region[i] = region[i];
    }
    return MR_OK;
}
