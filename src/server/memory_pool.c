/* memory_pool.c: divides the memory of memory_pool.cpu. */
#include "server/memory_pool.h"

#include "engine/loaded_model.h"

enum {
    TOKENS_MAX = 1 << 30
};

enum mr_status memory_pool_divide(struct mr_options *options, const struct mr_model *model, size_t bytes, struct mr_error *err)
{
    struct model_options m;
    struct model_memory memory;
    const size_t beside = options->response_bytes + options->cache_host_bytes;
    model_options_defaults(&m);
    m.device = model->device;
    m.precision = (enum precision)options->precision;
    m.kv_int8 = options->kv_int8 != 0;
    MR_TRY(model_estimate(&memory, model->file, &m, KV_BLOCK, err));
    const size_t n = bytes > beside && memory.kv_bytes_per_token > 0 ? (bytes - beside) / memory.kv_bytes_per_token : 0;
    if (n < KV_BLOCK)
        return mr_fail(err, MR_BAD_INPUT, "memory_pool.cpu: %zu bytes have no room for %d tokens of %zu bytes", bytes, KV_BLOCK,
                       memory.kv_bytes_per_token);
    options->kv_tokens = n < TOKENS_MAX ? (int32_t)n : TOKENS_MAX;
    return MR_OK;
}
