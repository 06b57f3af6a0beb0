/* second_tier.c: blocks out of the cache and back. */
#include "engine/second_tier.h"

#include "base/clock.h"
#include "engine/model_digest.h"

enum {
    HOST_BYTES_WITH_FOLDER = 256 << 20, /* where the options do not say */
    IMPORT_BYTES = 32 << 20,            /* copied in one step: some milliseconds */
    READY_US = 2000000,                 /* that a start waits until the model is named */
    WAIT_US = 2000,                     /* of a step that has no rows */
    PATIENCE_US = 1000000,              /* for files beyond what is expected, while it is not known what computing costs */
    AHEAD_SHARE = 8                     /* of host memory for what one sequence wants from files */
};
static const double copy_us_per_byte = 1e-3; /* before the first copy: 1 GB/s */
static const double read_us_per_byte = 1e-2; /* before the first file: 100 MB/s */
static const double patience = 4;            /* times what it is expected to take */
static const double rate_weight = 0.25;      /* of a new measurement */

static double copy_rate(const struct mr_engine *e) { return e->copy_us_per_byte > 0 ? e->copy_us_per_byte : copy_us_per_byte; }

static double read_rate(const struct mr_engine *e)
{
    struct block_tier_stats stats;
    block_tier_stats(e->tier, &stats);
    return stats.read_us_per_byte > 0 ? stats.read_us_per_byte : read_us_per_byte;
}

/* What rows of a prompt cost, of n from position `first` on; 0 while that is not known. */
static double compute_us(const struct mr_engine *e, int first, int n)
{
    const struct step_shape rows = {.n_prompt = n, .attended = step_attended(first, n)}, nothing = {0};
    return step_cost_us(&e->cost, &rows) - step_cost_us(&e->cost, &nothing);
}

static size_t token_bytes(const struct mr_engine *e)
{
    const struct kv_cache *kv = model_kv_cache(e->kv);
    size_t bytes = 0;
    for (int group = 0; group < kv_n_groups(kv); group++)
        bytes += kv_block_bytes(kv, group);
    return bytes / KV_BLOCK;
}

/* Whether a block is worth a place: out and in again is cheaper than to compute it, even at the beginning of a text. */
static bool is_worth_keeping(const struct mr_engine *e)
{
    const double compute = compute_us(e, 0, KV_BLOCK), bytes = (double)(token_bytes(e) * KV_BLOCK);
    const double read = e->options.cache_dir != NULL ? read_rate(e) : 0;
    return e->cost.n_seen_prompt == 0 || bytes * (2 * copy_rate(e) + read) < compute;
}

static void note_copy(struct mr_engine *e, int64_t time_us, size_t bytes)
{
    const double rate = (double)time_us / (double)bytes;
    e->copy_us_per_byte += (rate - e->copy_us_per_byte) * (e->copy_us_per_byte > 0 ? rate_weight : 1);
}

/* false: there is no room for it now. */
static bool keep(struct mr_engine *e, const struct prefix_key *key, int group, uint32_t block)
{
    if (block_tier_find(e->tier, key, group) != BLOCK_ABSENT)
        return true;
    void *contents = block_tier_put(e->tier, key, group);
    if (contents == NULL)
        return false;
    model_kv_export(e->kv, group, block, contents);
    block_tier_put_end(e->tier);
    e->stats.n_exported++;
    return true;
}

static void keep_evicted(void *context, const struct prefix_key *key, int group, uint32_t block)
{
    struct mr_engine *e = context;
    if (is_worth_keeping(e))
        keep(e, key, group, block);
}

static void keep_last(void *context, const struct prefix_key *key, int group, uint32_t block)
{
    struct mr_engine *e = context;
    if (keep(e, key, group, block))
        return;
    block_tier_flush(e->tier);
    keep(e, key, group, block);
}

enum mr_status second_tier_create(struct mr_engine *e, struct mr_error *err)
{
    const struct kv_cache *kv = model_kv_cache(e->kv);
    if (e->prefixes == NULL || (e->options.cache_dir == NULL && e->options.cache_host_bytes == 0))
        return MR_OK;
    struct block_tier_options o = {.host_bytes = e->options.cache_host_bytes,
                                   .folder = e->options.cache_dir,
                                   .folder_bytes = e->options.cache_bytes,
                                   .identify = model_digest,
                                   .context = e->model->file};
    if (o.host_bytes == 0)
        o.host_bytes = HOST_BYTES_WITH_FOLDER;
    for (int group = 0; group < kv_n_groups(kv); group++)
        o.block_bytes[group] = kv_block_bytes(kv, group);
    MR_TRY(block_tier_create(&e->tier, &o, err));
    block_tier_await_ready(e->tier, READY_US);
    prefix_index_on_evict(e->prefixes, keep_evicted, e);
    return MR_OK;
}

void second_tier_free(struct mr_engine *e)
{
    if (e->tier == NULL)
        return;
    if (e->options.cache_dir != NULL && is_worth_keeping(e)) {
        while (!block_tier_await_ready(e->tier, READY_US))
            continue;
        prefix_index_each(e->prefixes, keep_last, e);
        block_tier_flush(e->tier);
    }
    prefix_index_on_evict(e->prefixes, NULL, NULL);
    block_tier_free(e->tier);
    e->tier = NULL;
}

/* Whether a sequence of `to` tokens reads block b of the group. */
static bool reads(const struct mr_engine *e, int group, int b, int to)
{
    return b >= kv_first_block(model_kv_cache(e->kv), group, to);
}

/* Up to which token the tier has all that is read, behind those in the cache. */
static int find_end(const struct mr_engine *e, const struct sequence *s)
{
    const struct kv_cache *kv = model_kv_cache(e->kv);
    const int first = s->n_cached / KV_BLOCK, n_block = (s->n_token - 1) / KV_BLOCK;
    int missing[KV_MAX_GROUPS], end = first; /* missing: the last block that a group with a window does not have */
    for (int group = 0; group < kv_n_groups(kv); group++)
        missing[group] = -1;
    for (int b = first; b < n_block; b++) {
        bool usable = true;
        for (int group = 0; group < kv_n_groups(kv); group++) {
            const enum block_found found = block_tier_find(e->tier, &s->key[b], group);
            if (found == BLOCK_ABSENT && !kv_has_window(kv, group))
                return end * KV_BLOCK;
            missing[group] = found == BLOCK_ABSENT ? b : missing[group];
            usable &= missing[group] < kv_first_block(kv, group, (b + 1) * KV_BLOCK);
        }
        end = usable ? b + 1 : end;
    }
    return end * KV_BLOCK;
}

/* What it costs to bring the blocks up to token `end`. */
static double import_us(const struct mr_engine *e, const struct sequence *s, int end)
{
    const struct kv_cache *kv = model_kv_cache(e->kv);
    const double copy = copy_rate(e), read = read_rate(e);
    double us = 0;
    for (int b = s->n_cached / KV_BLOCK; b < end / KV_BLOCK; b++)
        for (int group = 0; group < kv_n_groups(kv); group++) {
            const bool is_file = block_tier_find(e->tier, &s->key[b], group) == BLOCK_IN_FOLDER;
            if (reads(e, group, b, end))
                us += (double)kv_block_bytes(kv, group) * (copy + (is_file ? read : 0));
        }
    return us;
}

/* Decide what to fetch. */
static void plan(struct mr_engine *e, struct sequence *s)
{
    const int end = find_end(e, s);
    const double compute = compute_us(e, s->n_cached, end - s->n_cached);
    const bool is_known = e->cost.n_seen_prompt > 0;
    s->fetch_from = s->fetch_to = s->n_cached;
    s->fetch_group = 0;
    if (end == s->n_cached)
        return;
    const double import = import_us(e, s, end);
    if (is_known && import >= compute)
        return;
    s->fetch_to = end;
    s->fetch_until_us = clock_us() + (int64_t)(is_known ? compute : patience * import + PATIENCE_US);
}

/* Ask for the blocks from b on that are in files, as many as have room. false: not even the first one has. */
static bool want_ahead(struct mr_engine *e, const struct sequence *s, int b)
{
    const struct kv_cache *kv = model_kv_cache(e->kv);
    size_t room = (e->options.cache_host_bytes > 0 ? e->options.cache_host_bytes : HOST_BYTES_WITH_FOLDER) / AHEAD_SHARE;
    bool is_first = true;
    for (; b < s->fetch_to / KV_BLOCK; b++)
        for (int group = 0; group < kv_n_groups(kv); group++) {
            if (!reads(e, group, b, s->fetch_to) || (is_first && group < s->fetch_group))
                continue;
            if (!block_tier_want(e->tier, &s->key[b], group))
                return !is_first;
            if (room < kv_block_bytes(kv, group))
                return true;
            is_first = false;
            room -= kv_block_bytes(kv, group);
        }
    return true;
}

enum arrival {
    ARRIVED,
    COMING,
    LOST
};

/* Copy the next block of each group into the cache, where there is room for it. */
static enum arrival import_block(struct mr_engine *e, struct sequence *s, size_t *bytes)
{
    struct kv_cache *kv = model_kv_cache(e->kv);
    const int b = s->n_cached / KV_BLOCK;
    for (int group = s->fetch_group; group < kv_n_groups(kv); group++) {
        s->fetch_group = group;
        if (!reads(e, group, b, s->fetch_to))
            continue;
        const void *contents = block_tier_get(e->tier, &s->key[b], group);
        if (contents == NULL)
            return block_tier_find(e->tier, &s->key[b], group) == BLOCK_ABSENT ? LOST : COMING;
        model_kv_import(e->kv, group, kv_seq_blocks(kv, s->kv, group)[b], contents);
        block_tier_get_end(e->tier);
        *bytes += kv_block_bytes(kv, group);
    }
    s->fetch_group = 0;
    kv_seq_advance(kv, s->kv, KV_BLOCK);
    s->n_cached += KV_BLOCK;
    e->stats.n_restored += KV_BLOCK;
    e->stats.n_resumed += s->n_computed > 0 ? KV_BLOCK : 0;
    s->usage.n_restored += s->n_computed == 0 ? KV_BLOCK : 0;
    return ARRIVED;
}

/* As much as one step may copy. */
static enum arrival import(struct mr_engine *e, struct sequence *s)
{
    enum arrival arrival = ARRIVED;
    size_t bytes = 0;
    const int64_t begin_us = clock_us();
    while (arrival == ARRIVED && s->n_cached < s->fetch_to && bytes < IMPORT_BYTES)
        arrival = batch_make_room(e, s, KV_BLOCK) ? import_block(e, s, &bytes) : LOST;
    const int64_t now_us = clock_us();
    if (bytes > 0)
        note_copy(e, now_us - begin_us, bytes);
    if (arrival == COMING && (now_us > s->fetch_until_us || !want_ahead(e, s, s->n_cached / KV_BLOCK)))
        arrival = LOST;
    return arrival;
}

/* What came is the sequence's as if computed; where a window needs more than came it begins anew. */
static void finish(struct mr_engine *e, struct sequence *s, bool is_whole)
{
    const struct kv_cache *kv = model_kv_cache(e->kv);
    bool usable = true;
    for (int group = 0; group < kv_n_groups(kv) && !is_whole; group++)
        usable &= !kv_has_window(kv, group) || s->n_cached <= s->fetch_from;
    if (!usable) {
        kv_seq_truncate(model_kv_cache(e->kv), s->kv, 0);
        s->n_cached = 0;
        s->usage.n_restored = 0;
        sequence_match_prefix(e, s);
    } else if (s->n_cached > s->fetch_from) {
        sequence_publish(e, s, s->fetch_from);
        if (s->n_computed == 0) {
            s->usage.n_cached = s->n_cached;
            if (s->n_cached / KV_BLOCK == (s->n_token - 1) / KV_BLOCK)
                s->usage.cache_miss = MR_CACHE_HIT;
        }
    }
    s->fetch_from = s->fetch_to = s->n_cached;
}

bool second_tier_fetch(struct mr_engine *e, struct sequence *s)
{
    if (e->tier == NULL)
        return false;
    if (s->fetch_to < 0)
        plan(e, s);
    if (s->fetch_to <= s->fetch_from)
        return false;
    const enum arrival arrival = s->n_cached < s->fetch_to ? import(e, s) : ARRIVED;
    if (arrival != LOST && s->n_cached < s->fetch_to)
        return s->in_cache;
    finish(e, s, s->n_cached >= s->fetch_to);
    return false;
}

void second_tier_wait(struct mr_engine *e)
{
    if (e->tier != NULL)
        block_tier_wait(e->tier, WAIT_US);
}

void second_tier_stats(const struct mr_engine *e, struct mr_engine_stats *out)
{
    static const enum mr_cache_tier state[] = {[TIER_STARTING] = MR_TIER_STARTING,
                                               [TIER_READY] = MR_TIER_READY,
                                               [TIER_LOCKED] = MR_TIER_LOCKED,
                                               [TIER_FULL] = MR_TIER_FULL,
                                               [TIER_UNNAMED] = MR_TIER_UNNAMED};
    struct block_tier_stats stats;
    if (e->tier == NULL)
        return;
    block_tier_stats(e->tier, &stats);
    out->tier = state[stats.state];
    out->tier_host_bytes = stats.host_bytes;
    out->tier_file_bytes = stats.folder_bytes;
    out->n_tier_damaged = stats.n_damaged;
    out->n_tier_dropped = stats.n_dropped;
}
