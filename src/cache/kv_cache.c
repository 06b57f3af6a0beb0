/* kv_cache.c: block tables and reference counts. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cache/kv_cache_state.h"

static enum mr_status check_config(const struct kv_config *c, struct mr_error *err)
{
    if (c->n_group < 1 || c->n_group > KV_MAX_GROUPS)
        return mr_fail(err, MR_BAD_INPUT, "cache: %d groups of layers, not 1..%d", c->n_group, KV_MAX_GROUPS);
    if (c->n_seq < 1 || c->n_seq >= UINT16_MAX) /* an owner more is the index of prefixes */
        return mr_fail(err, MR_BAD_INPUT, "cache: %d sequences, not 1..%d", c->n_seq, UINT16_MAX - 1);
    if (c->max_token < 1 || c->max_token > INT32_MAX - KV_BLOCK)
        return mr_fail(err, MR_BAD_INPUT, "cache: sequences of %d tokens", c->max_token);
    for (int i = 0; i < c->n_group; i++) {
        if (c->group[i].is_state)
            return mr_fail(err, MR_NO_SUPPORT, "cache: group %d holds states", i);
        if (c->group[i].n_block < 1 || c->group[i].window < 0)
            return mr_fail(err, MR_BAD_INPUT, "cache: group %d has %d blocks, window %d", i, c->group[i].n_block,
                           c->group[i].window);
    }
    return MR_OK;
}

static bool group_init(struct kv_group_state *g, const struct kv_group *config, int n_seq, int max_block)
{
    const size_t n = (size_t)config->n_block;
    size_t n_table;
    g->config = *config;
    g->free_block = mem_array(n, sizeof *g->free_block);
    g->n_owner = mem_zero_array(n, sizeof *g->n_owner);
    g->table = size_mul(&n_table, (size_t)n_seq, (size_t)max_block) ? mem_array(n_table, sizeof *g->table) : NULL;
    if (g->free_block == NULL || g->n_owner == NULL || g->table == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        g->free_block[i] = (uint32_t)(n - 1 - i);
    g->n_free = config->n_block;
    return true;
}

enum mr_status kv_cache_create(struct kv_cache **out, const struct kv_config *config, struct mr_error *err)
{
    *out = NULL;
    MR_TRY(check_config(config, err));
    struct kv_cache *kv = calloc(1, sizeof *kv);
    if (kv == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the cache");
    kv->config = *config;
    kv->max_block = kv_blocks_for(config->max_token);
    kv->seq = mem_zero_array((size_t)config->n_seq, sizeof *kv->seq);
    bool ok = kv->seq != NULL;
    for (int i = 0; ok && i < config->n_group; i++)
        ok = group_init(&kv->group[i], &config->group[i], config->n_seq, kv->max_block);
    if (!ok) {
        kv_cache_free(kv);
        return mr_fail(err, MR_NO_MEMORY, "no memory for the block tables of %d sequences", config->n_seq);
    }
    *out = kv;
    return MR_OK;
}

void kv_cache_free(struct kv_cache *kv)
{
    if (kv == NULL)
        return;
    for (int i = 0; i < kv->config.n_group; i++) {
        free(kv->group[i].free_block);
        free(kv->group[i].n_owner);
        free(kv->group[i].table);
    }
    free(kv->seq);
    free(kv);
}

uint32_t kv_take_block(struct kv_group_state *g)
{
    const uint32_t block = g->free_block[--g->n_free];
    g->n_owner[block] = 1;
    return block;
}

void kv_drop_block(struct kv_group_state *g, uint32_t *entry)
{
    if (*entry != KV_NO_BLOCK && --g->n_owner[*entry] == 0)
        g->free_block[g->n_free++] = *entry;
    *entry = KV_NO_BLOCK;
}

enum mr_status kv_seq_open(struct kv_cache *kv, kv_seq *out)
{
    for (int i = 0; i < kv->config.n_seq; i++) {
        if (kv->seq[i].is_open)
            continue;
        kv->seq[i] = (struct kv_sequence){.is_open = true};
        *out = (kv_seq)i;
        return MR_OK;
    }
    return MR_FULL;
}

/* The first block that a token at position n_token still reads. */
static int first_read_block(const struct kv_group_state *g, int n_token)
{
    const int window = g->config.window;
    return window == 0 || n_token < window ? 0 : (n_token - window + 1) / KV_BLOCK;
}

/* Whether every block that the next token behind n_token reads is there. */
static bool window_is_whole(const struct kv_cache *kv, kv_seq seq, int n_token)
{
    for (int i = 0; i < kv->config.n_group; i++)
        if (kv->seq[seq].first_block[i] > first_read_block(&kv->group[i], n_token) && n_token > 0)
            return false;
    return true;
}

enum mr_status kv_seq_fork(struct kv_cache *kv, kv_seq *out, kv_seq from, int n_token)
{
    if (n_token < 0 || n_token > kv->seq[from].n_token || !window_is_whole(kv, from, n_token) || kv->policy != KV_PAGED)
        return MR_BAD_INPUT;
    MR_TRY(kv_seq_open(kv, out));
    struct kv_sequence *s = &kv->seq[*out];
    s->n_token = n_token;
    s->n_block = kv_blocks_for(n_token);
    for (int i = 0; i < kv->config.n_group; i++) {
        struct kv_group_state *g = &kv->group[i];
        const uint32_t *source = kv_seq_table(kv, from, i);
        uint32_t *table = kv_seq_table(kv, *out, i);
        s->first_block[i] = first_read_block(g, n_token);
        for (int b = 0; b < s->n_block; b++) {
            table[b] = b < s->first_block[i] ? KV_NO_BLOCK : source[b];
            if (table[b] != KV_NO_BLOCK)
                g->n_owner[table[b]]++;
        }
    }
    return MR_OK;
}

/* Give back the blocks from n_block on. */
static void drop_tail(struct kv_cache *kv, kv_seq seq, int n_block)
{
    struct kv_sequence *s = &kv->seq[seq];
    for (int i = 0; i < kv->config.n_group; i++)
        for (int b = n_block; b < s->n_block; b++)
            kv_drop_block(&kv->group[i], &kv_seq_table(kv, seq, i)[b]);
    s->n_block = n_block < s->n_block ? n_block : s->n_block;
}

void kv_seq_close(struct kv_cache *kv, kv_seq seq)
{
    drop_tail(kv, seq, 0);
    kv->seq[seq].is_open = false;
}

/* Whether writing behind the present tokens touches a block that another sequence holds too. */
static bool tail_is_shared(const struct kv_cache *kv, kv_seq seq, int group)
{
    const int n_token = kv->seq[seq].n_token;
    if (n_token % KV_BLOCK == 0)
        return false;
    return kv->group[group].n_owner[kv_seq_table(kv, seq, group)[n_token / KV_BLOCK]] > 1;
}

/* Put a copy in place of a block that another sequence holds too. */
static void unshare(struct kv_cache *kv, int group, uint32_t *entry)
{
    struct kv_group_state *g = &kv->group[group];
    const uint32_t old = *entry;
    *entry = kv_take_block(g);
    g->n_owner[old]--;
    if (kv->config.copy != NULL)
        kv->config.copy(kv->config.context, group, *entry, old);
}

enum mr_status kv_seq_copy(struct kv_cache *kv, kv_seq *out, kv_seq from, int n_token)
{
    MR_TRY(kv_seq_fork(kv, out, from, n_token));
    const struct kv_sequence *s = &kv->seq[*out];
    for (int i = 0; i < kv->config.n_group; i++) {
        if (s->n_block - s->first_block[i] <= kv->group[i].n_free)
            continue;
        kv_seq_close(kv, *out);
        return MR_FULL;
    }
    for (int i = 0; i < kv->config.n_group; i++)
        for (int b = s->first_block[i]; b < s->n_block; b++)
            unshare(kv, i, &kv_seq_table(kv, *out, i)[b]);
    return MR_OK;
}

enum mr_status kv_seq_reserve(struct kv_cache *kv, kv_seq seq, int n_token)
{
    struct kv_sequence *s = &kv->seq[seq];
    if (n_token < 0 || n_token > kv->config.max_token - s->n_token)
        return MR_BAD_INPUT;
    if (n_token == 0)
        return MR_OK;
    MR_TRY(kv_seq_claim(kv, seq, s->n_token + n_token));
    const int n_block = kv_blocks_for(s->n_token + n_token);
    const int n_more = n_block > s->n_block ? n_block - s->n_block : 0;
    for (int i = 0; i < kv->config.n_group; i++)
        if (kv_blocks_missing(kv, seq, i, n_token) > kv->group[i].n_free)
            return MR_FULL;
    for (int i = 0; i < kv->config.n_group; i++) {
        if (tail_is_shared(kv, seq, i))
            unshare(kv, i, &kv_seq_table(kv, seq, i)[kv->seq[seq].n_token / KV_BLOCK]);
        for (int b = s->n_block; b < n_block; b++)
            kv_seq_table(kv, seq, i)[b] = kv_take_block(&kv->group[i]);
    }
    s->n_block += n_more;
    return MR_OK;
}

void kv_seq_advance(struct kv_cache *kv, kv_seq seq, int n_token)
{
    struct kv_sequence *s = &kv->seq[seq];
    s->n_token += n_token;
    const int n_certain = s->n_token > s->n_draft ? s->n_token - s->n_draft : 0;
    for (int i = 0; i < kv->config.n_group; i++) {
        struct kv_group_state *g = &kv->group[i];
        const int first = first_read_block(g, n_certain);
        for (int b = s->first_block[i]; b < first && b < s->n_block; b++)
            kv_drop_block(g, &kv_seq_table(kv, seq, i)[b]);
        if (first > s->first_block[i])
            s->first_block[i] = first;
    }
}

enum mr_status kv_seq_truncate(struct kv_cache *kv, kv_seq seq, int n_token)
{
    struct kv_sequence *s = &kv->seq[seq];
    if (n_token < 0 || n_token > s->n_token || !window_is_whole(kv, seq, n_token))
        return MR_BAD_INPUT;
    drop_tail(kv, seq, kv_blocks_for(n_token));
    s->n_token = n_token;
    if (n_token == 0)
        memset(s->first_block, 0, sizeof s->first_block);
    return MR_OK;
}

void kv_seq_expect_drafts(struct kv_cache *kv, kv_seq seq, int n_token) { kv->seq[seq].n_draft = n_token; }

void kv_seq_settle(struct kv_cache *kv, kv_seq seq, int n_token)
{
    struct kv_sequence *s = &kv->seq[seq];
    drop_tail(kv, seq, kv_blocks_for(n_token));
    s->n_token = n_token;
    s->n_draft = 0;
    kv_seq_advance(kv, seq, 0);
}

int kv_seq_length(const struct kv_cache *kv, kv_seq seq) { return kv->seq[seq].n_token; }

const uint32_t *kv_seq_blocks(const struct kv_cache *kv, kv_seq seq, int group) { return kv_seq_table(kv, seq, group); }

int kv_n_groups(const struct kv_cache *kv) { return kv->config.n_group; }

int kv_n_blocks(const struct kv_cache *kv, int group) { return kv->group[group].config.n_block; }

size_t kv_block_bytes(const struct kv_cache *kv, int group) { return kv->group[group].config.bytes_per_token * KV_BLOCK; }

int kv_n_free_blocks(const struct kv_cache *kv, int group) { return kv->group[group].n_free - kv_n_promised(kv, group); }

int kv_blocks_needed(const struct kv_cache *kv, int group, int n_token, int rows_max)
{
    const int window = kv->group[group].config.window, whole = kv_blocks_for(n_token);
    const int kept = window > 0 ? kv_blocks_for(window + rows_max) + 1 : whole;
    return kept < whole ? kept : whole;
}

int kv_blocks_missing(const struct kv_cache *kv, kv_seq seq, int group, int n_token)
{
    const struct kv_sequence *s = &kv->seq[seq];
    const int n_block = kv_blocks_for(s->n_token + n_token);
    return (n_block > s->n_block ? n_block - s->n_block : 0) + (n_token > 0 && tail_is_shared(kv, seq, group));
}

void kv_block_hold(struct kv_cache *kv, int group, uint32_t block) { kv->group[group].n_owner[block]++; }

void kv_block_drop(struct kv_cache *kv, int group, uint32_t block) { kv_drop_block(&kv->group[group], &block); }

int kv_block_owners(const struct kv_cache *kv, int group, uint32_t block) { return kv->group[group].n_owner[block]; }

bool kv_has_window(const struct kv_cache *kv, int group) { return kv->group[group].config.window > 0; }

int kv_first_block(const struct kv_cache *kv, int group, int n_token) { return first_read_block(&kv->group[group], n_token); }

void kv_seq_adopt(struct kv_cache *kv, kv_seq seq, int group, int b, uint32_t block)
{
    kv_seq_table(kv, seq, group)[b] = block;
    if (block != KV_NO_BLOCK)
        kv->group[group].n_owner[block]++;
}

void kv_seq_adopted(struct kv_cache *kv, kv_seq seq, int n_token)
{
    struct kv_sequence *s = &kv->seq[seq];
    s->n_token = n_token;
    s->n_block = kv_blocks_for(n_token);
    for (int i = 0; i < kv->config.n_group; i++)
        s->first_block[i] = first_read_block(&kv->group[i], n_token);
}

size_t kv_seq_bytes(const struct kv_cache *kv, kv_seq seq)
{
    const struct kv_sequence *s = &kv->seq[seq];
    size_t bytes = 0;
    for (int i = 0; i < kv->config.n_group; i++)
        bytes += (size_t)(s->n_token - s->first_block[i] * KV_BLOCK) * kv->config.group[i].bytes_per_token;
    return bytes;
}

size_t kv_bytes(const struct kv_cache *kv)
{
    size_t bytes = 0;
    for (int i = 0; i < kv->config.n_group; i++)
        bytes += (size_t)kv->config.group[i].n_block * kv_block_bytes(kv, i);
    return bytes;
}

size_t kv_bytes_in_use(const struct kv_cache *kv)
{
    size_t bytes = 0;
    for (int i = 0; i < kv->config.n_group; i++)
        bytes += (size_t)(kv->config.group[i].n_block - kv_n_free_blocks(kv, i)) * kv_block_bytes(kv, i);
    return bytes;
}
