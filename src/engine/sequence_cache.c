/* sequence_cache.c: a sequence in the cache, and what it shares with others there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/second_tier.h"
#include "ops/cpu_device.h"

enum {
    NUMERIC_VERSION = 1, /* of all that decides the bits of keys and values besides what the seed names */
    SEED_MAX = 256
};

/* The key in front of the first block names all that decides the bits besides the tokens, and the tenant. What is stored beyond
 * the process is named by the contents of the model's file as well (second_tier.h). */
static void seed(const struct mr_engine *e, const struct request_record *r, const struct adapter_set *adapters,
                 struct prefix_key *out)
{
    const struct model_info *info = model_info(e->model->model);
    char text[SEED_MAX + ADAPTERS_MAX * ADAPTER_KEY_BYTES + MR_SALT_BYTES_MAX];
    int n = snprintf(text, SEED_MAX, "%d/%s/%lld/%s/%s/%s/%d/", NUMERIC_VERSION, info->family, (long long)info->n_parameter,
                     info->precision, info->kv_type, cpu_device_isa(e->model->device), adapters->n);
    for (int i = 0; i < adapters->n; i++, n += ADAPTER_KEY_BYTES)
        adapter_key(text + n, adapters->adapter[i], adapters->scale[i]);
    memcpy(text + n, request_record_salt(r), (size_t)r->n_salt);
    prefix_key_seed(out, text, (size_t)(n + r->n_salt));
}

/* Keys of the first n blocks. */
static void make_keys(const struct mr_engine *e, struct sequence *s, int n)
{
    struct prefix_key first;
    if (s->n_key == 0 && n > 0)
        seed(e, s->request, &s->adapters, &first);
    for (; s->n_key < n; s->n_key++)
        prefix_key_next(&s->key[s->n_key], s->n_key == 0 ? &first : &s->key[s->n_key - 1],
                        s->token + (ptrdiff_t)s->n_key * KV_BLOCK);
}

void sequence_seed(const struct mr_engine *e, const struct request_record *r, struct prefix_key *out)
{
    struct adapter_set adapters;
    adapters_find(e->model, request_record_adapter(r), r->n_adapter, &adapters);
    seed(e, r, &adapters, out);
}

/* Keys of the first n blocks of a prompt; free with free(). NULL: none, or no memory. */
static struct prefix_key *prompt_keys(const struct mr_engine *e, const struct request_record *r, int n)
{
    struct prefix_key *key = e->prefixes != NULL && n > 0 ? mem_array((size_t)n, sizeof *key) : NULL;
    if (key == NULL)
        return NULL;
    struct prefix_key first;
    sequence_seed(e, r, &first);
    for (int i = 0; i < n; i++)
        prefix_key_next(&key[i], i == 0 ? &first : &key[i - 1], request_record_prompt(r) + (ptrdiff_t)i * KV_BLOCK);
    return key;
}

enum mr_status sequence_pin(struct mr_engine *e, const struct mr_request *request, struct mr_error *err)
{
    const struct request_limits limits = {.n_vocab = model_info(e->model->model)->n_vocab, .n_ctx = e->n_ctx};
    struct request_record *record;
    MR_TRY(request_record_create(&record, request, &limits, err));
    struct prefix_key *key = prompt_keys(e, record, record->n_prompt / KV_BLOCK);
    const bool ok = key != NULL && prefix_index_pin(e->prefixes, key, record->n_prompt / KV_BLOCK);
    free(key);
    free(record);
    return ok ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory to pin a prompt");
}

int sequence_count_cached(const struct mr_engine *e, const struct request_record *r)
{
    const int n_block = (r->n_prompt - 1) / KV_BLOCK;
    struct prefix_key *key = prompt_keys(e, r, n_block);
    if (key == NULL)
        return 0; /* without memory the request counts as not cached */
    enum prefix_miss why;
    const int n = prefix_index_match(e->prefixes, key, n_block, &why);
    free(key);
    return n * KV_BLOCK;
}

void sequence_match_prefix(struct mr_engine *e, struct sequence *s)
{
    static const enum mr_cache_miss miss[] = {[PREFIX_WHOLE] = MR_CACHE_HIT,
                                              [PREFIX_UNKNOWN] = MR_CACHE_DIFFERENT,
                                              [PREFIX_EVICTED] = MR_CACHE_EVICTED,
                                              [PREFIX_NO_WINDOW] = MR_CACHE_WINDOW};
    if (e->prefixes == NULL || sequence_has_scores(s) || sequence_pools_all(s))
        return;
    const int n_block = (s->n_token - 1) / KV_BLOCK; /* the last row gives the logits */
    enum prefix_miss why;
    make_keys(e, s, n_block);
    const int n = prefix_index_match(e->prefixes, s->key, n_block, &why);
    if (n * KV_BLOCK > s->n_cached) {
        kv_seq_truncate(model_kv_cache(e->kv), s->kv, 0);
        prefix_index_adopt(e->prefixes, s->kv, s->key, n);
        s->n_cached = n * KV_BLOCK;
        s->fetch_group = 0;
    }
    if (s->n_computed == 0) { /* for the first time, not behind a pause */
        s->usage.n_cached = s->n_cached;
        s->usage.cache_miss = miss[why];
    }
}

bool sequence_waits_for_prefix(struct mr_engine *e, struct sequence *s)
{
    sequence_match_prefix(e, s); /* somebody may have computed the same since */
    return !sequence_has_scores(s) && !sequence_pools_all(s) && second_tier_fetch(e, s);
}

void sequence_enter_cache(struct mr_engine *e, struct sequence *s)
{
    s->in_cache = kv_seq_open(model_kv_cache(e->kv), &s->kv) == MR_OK;
    s->is_fresh = true;
    s->fetch_to = -1;
    s->n_cached = 0;
    sequence_match_prefix(e, s);
}

void sequence_publish(struct mr_engine *e, struct sequence *s, int n_before)
{
    if (e->prefixes == NULL)
        return;
    make_keys(e, s, s->n_cached / KV_BLOCK);
    for (int b = n_before / KV_BLOCK; b < s->n_cached / KV_BLOCK; b++)
        prefix_index_add(e->prefixes, s->kv, s->key, b);
}

void sequence_leave_cache(struct mr_engine *e, struct sequence *s)
{
    if (e->prefixes != NULL)
        prefix_index_touch(e->prefixes, s->key, s->n_cached / KV_BLOCK);
    kv_seq_close(model_kv_cache(e->kv), s->kv);
    drafts_leave_cache(e, s);
    s->in_cache = false;
    s->n_cached = 0;
}
