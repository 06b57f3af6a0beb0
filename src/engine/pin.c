/* pin.c: prompts that are computed before the first request and whose blocks stay. */
#include "engine/engine_state.h"
#include "engine/request_record.h"

/* Blocks of the group that running sequences may need, as if nothing were pinned. */
static int64_t blocks_for_sequences(const struct mr_engine *e, int group)
{
    const struct kv_cache *kv = model_kv_cache(e->kv);
    const int64_t n_slot = e->options.max_running, each = kv_blocks_needed(kv, group, e->n_ctx, e->max_row);
    const int64_t whole = e->options.kv_tokens > 0 ? (e->options.kv_tokens + KV_BLOCK - 1) / KV_BLOCK + n_slot - 1 : INT64_MAX;
    return n_slot * each < whole ? n_slot * each : whole;
}

static enum mr_status check(const struct mr_engine *e, int32_t n, struct mr_error *err)
{
    const struct kv_cache *kv = model_kv_cache(e->kv);
    if (e->prefixes == NULL)
        return mr_fail(err, MR_BAD_INPUT, "pinned prompts need the prefix cache");
    if (!mr_engine_is_idle(e) || !record_queue_is_empty(&e->events))
        return mr_fail(err, MR_BAD_INPUT, "prompts are pinned while nothing runs and no event waits to be taken");
    if (n < KV_BLOCK)
        return mr_fail(err, MR_BAD_INPUT, "the prompt to pin has %d tokens, less than a block of %d", n, KV_BLOCK);
    for (int group = 0; group < kv_n_groups(kv); group++) {
        const int n_block = n / KV_BLOCK, first = kv_first_block(kv, group, n_block * KV_BLOCK);
        const int64_t room =
            kv_n_blocks(kv, group) - blocks_for_sequences(e, group) - prefix_index_n_pinned(e->prefixes, group);
        if (n_block - first > room)
            return mr_fail(err, MR_FULL, "the prompt to pin has %d tokens, and pin_tokens leaves room for %lld", n,
                           (long long)(room > 0 ? room * KV_BLOCK : 0));
    }
    return MR_OK;
}

/* Compute the prompt. */
static enum mr_status run(struct mr_engine *e, const struct mr_request *request, struct mr_error *err)
{
    const bool admission = e->options.admission;
    struct mr_event event = {.finish = MR_FINISH_NONE};
    uint64_t id;
    e->options.admission = false;
    enum mr_status status = mr_engine_submit(e, request, &id, err);
    while (status == MR_OK && !mr_engine_is_idle(e))
        mr_engine_step(e);
    e->options.admission = admission;
    while (mr_engine_next_event(e, &event))
        if (event.finish == MR_FINISH_ERROR)
            status = mr_fail(err, MR_NO_MEMORY, "the prompt to pin: %s", event.error);
    return status;
}

enum mr_status mr_engine_pin(struct mr_engine *e, const int32_t *prompt, int32_t n, const char *salt, struct mr_error *err)
{
    MR_TRY(check(e, n, err));
    struct mr_request request;
    mr_request_defaults(&request);
    request.prompt = prompt;
    request.n_prompt = n;
    request.max_tokens = 0;
    request.cache_salt = salt;
    MR_TRY(run(e, &request, err));
    MR_TRY(sequence_pin(e, &request, err));
    e->stats.n_pinned++;
    e->stats.n_pinned_tokens += n / KV_BLOCK * KV_BLOCK;
    return MR_OK;
}
