/* memory_pool.c: divides the memory of memory_pool.cpu, or what is free. */
#include "server/memory_pool.h"

#include "engine/loaded_model.h"

enum {
    TOKENS_MAX = 1 << 30
};

/* Tokens that the bytes have room for, beside what else is remembered in them. */
static enum mr_status count_tokens(int64_t *out, const struct mr_options *options, const struct mr_model *model, size_t bytes,
                                   size_t *bytes_per_token, struct mr_error *err)
{
    struct model_options m;
    struct model_memory memory;
    const size_t beside = options->response_bytes + options->reference_bytes + options->cache_host_bytes;
    model_options_defaults(&m);
    m.device = model->device;
    m.precision = (enum precision)options->precision;
    m.kv_int8 = options->kv_int8 != 0;
    MR_TRY(model_estimate(&memory, model->file, &m, KV_BLOCK, err));
    *bytes_per_token = memory.kv_bytes_per_token;
    if (model->draft.file != NULL) { /* which keeps as many tokens */
        MR_TRY(model_estimate(&memory, model->draft.file, &m, KV_BLOCK, err));
        *bytes_per_token += memory.kv_bytes_per_token;
    }
    const size_t n = bytes > beside && *bytes_per_token > 0 ? (bytes - beside) / *bytes_per_token : 0;
    *out = n < TOKENS_MAX ? (int64_t)n : TOKENS_MAX;
    return MR_OK;
}

enum mr_status memory_pool_divide(struct mr_options *options, const struct mr_model *model, size_t bytes, struct mr_error *err)
{
    int64_t n;
    size_t each;
    MR_TRY(count_tokens(&n, options, model, bytes, &each, err));
    if (n < KV_BLOCK)
        return mr_fail(err, MR_BAD_INPUT, "memory_pool.cpu: %zu bytes have no room for %d tokens of %zu bytes", bytes, KV_BLOCK,
                       each);
    options->kv_tokens = (int32_t)n;
    return MR_OK;
}

enum mr_status memory_pool_fit(struct mr_options *options, const struct mr_model *model, size_t free_bytes,
                               struct mr_error *err)
{
    const size_t bytes = free_bytes / 4 * 3;
    struct mr_model_info info;
    int64_t n;
    size_t each;
    MR_TRY(count_tokens(&n, options, model, bytes, &each, err));
    mr_model_info(model, &info);
    const int32_t longest = info.n_ctx_train < MR_CTX_DEFAULT_MAX ? info.n_ctx_train : MR_CTX_DEFAULT_MAX;
    if (n >= (int64_t)(options->n_ctx > 0 ? options->n_ctx : longest) * options->max_running)
        return MR_OK;
    if (n < KV_BLOCK || (options->n_ctx > 0 && n < options->n_ctx))
        return mr_fail(err, MR_NO_MEMORY,
                       "%zu bytes, three quarters of the free memory, have no room for %d tokens of %zu bytes", bytes,
                       options->n_ctx > 0 ? options->n_ctx : KV_BLOCK, each);
    options->kv_tokens = (int32_t)n;
    return MR_OK;
}
