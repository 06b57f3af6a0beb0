/* options.c: defaults and ranges of the options. */
#include "engine/options.h"

#include <stddef.h>

#include "base/thread_pool.h"
#include "engine/drafter.h"

enum {
    PROMPT_CHUNK_DEFAULT = 512,
    ITL_TARGET_DEFAULT_MS = 50,
    PRIORITY_AGE_DEFAULT_MS = 2000,
    BATCH_WINDOW_DEFAULT_MS = 20,
    REFERENCE_BYTES_DEFAULT = 4 << 20, /* thousands of answers */
    HOUR_MS = 3600 * 1000,
    LOAD_MAX = 1000
};

void mr_options_defaults(struct mr_options *options)
{
    *options = (struct mr_options){.prompt_chunk = PROMPT_CHUNK_DEFAULT,
                                   .max_running = 1,
                                   .max_queue = 512,
                                   .itl_target_ms = ITL_TARGET_DEFAULT_MS,
                                   .priority_age_ms = PRIORITY_AGE_DEFAULT_MS,
                                   .batch_window_ms = BATCH_WINDOW_DEFAULT_MS,
                                   .cache_bytes = (size_t)4 << 30,
                                   .admission = true,
                                   .low_load = 0.6F,
                                   .high_load = 0.8F,
                                   .prefix_cache = true,
                                   .reference_bytes = REFERENCE_BYTES_DEFAULT,
                                   .draft_tokens = MR_DRAFT_TOKENS_MAX,
                                   .forced_drafts = true};
}

enum mr_status options_check(const struct mr_options *o, struct mr_error *err)
{
    const struct {
        const char *name;
        int value, low, high;
    } field[] = {
        {"threads", o->threads, 0, POOL_MAX_THREADS},
        {"precision", o->precision, 0, MR_N_PRECISIONS - 1},
        {"kv_int8", o->kv_int8, 0, 1},
        {"n_ctx", o->n_ctx, 0, 1 << 24},
        {"prompt_chunk", o->prompt_chunk, 1, 65536},
        {"max_running", o->max_running, 1, 64},
        {"max_queue", o->max_queue, 1, 65536},
        {"kv_tokens", o->kv_tokens, 0, 1 << 30},
        {"itl_target_ms", o->itl_target_ms, 0, HOUR_MS},
        {"priority_age_ms", o->priority_age_ms, 0, HOUR_MS},
        {"batching", o->batching, 0, MR_N_BATCHINGS - 1},
        {"batch_window_ms", o->batch_window_ms, 0, 60000},
        {"latency_target_ms", o->latency_target_ms, 0, HOUR_MS},
        {"latency_metric", o->latency_metric, 0, MR_N_LATENCIES - 1},
        {"bucket_capacity", o->bucket_capacity, 0, 1 << 30},
        {"kv_policy", o->kv_policy, 0, MR_N_KV_POLICIES - 1},
        {"pin_tokens", o->pin_tokens, 0, MR_PIN_TOKENS_MAX},
        {"speculation", o->speculation, 0, MR_N_SPECULATIONS - 1},
        {"draft_layers", o->draft_layers, 0, 1 << 16},
        {"draft_tokens", o->draft_tokens, 0, MR_DRAFT_TOKENS_MAX},
        {"fusion_off", o->fusion_off, 0, 1},
        {"pin", o->pin, 0, 1},
    };
    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        if (field[i].value < field[i].low || field[i].value > field[i].high)
            return mr_fail(err, MR_BAD_INPUT, "%s is %d, must be from %d to %d", field[i].name, field[i].value, field[i].low,
                           field[i].high);
    MR_TRY(drafts_check(o->speculation, err));
    if (!(o->low_load >= 0 && o->low_load <= o->high_load && o->high_load <= LOAD_MAX))
        return mr_fail(err, MR_BAD_INPUT,
                       "low_load is %g and high_load %g, must be from 0 to %d, the low one not above the other",
                       (double)o->low_load, (double)o->high_load, LOAD_MAX);
    return MR_OK;
}
