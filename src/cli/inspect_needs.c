/* inspect_needs.c: what it takes to run a model file. */
#include <stdio.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "cli/inspect.h"
#include "ops/cpu_device.h"

/* The context asked for, or the model's own up to the default limit. */
static enum mr_status find_context(int *n_ctx, const struct gguf *g, int asked, struct mr_error *err)
{
    struct gguf_string family;
    char key[128];
    int64_t trained;
    *n_ctx = asked;
    if (asked > 0)
        return MR_OK;
    MR_TRY(gguf_get_string(g, "general.architecture", &family, err));
    snprintf(key, sizeof key, "%.*s.context_length", family.n < 64 ? (int)family.n : 64, family.s);
    MR_TRY(gguf_get_int(g, key, 1, INT32_MAX, &trained, err));
    *n_ctx = trained < MR_CTX_DEFAULT_MAX ? (int)trained : MR_CTX_DEFAULT_MAX;
    return MR_OK;
}

static enum mr_status estimate(struct inspect_needs *needs, const struct gguf *g, const struct model_options *options,
                               int asked, struct mr_error *err)
{
    MR_TRY(find_context(&needs->n_ctx, g, asked, err));
    return model_estimate(&needs->memory, g, options, needs->n_ctx, err);
}

enum mr_status inspect_needs_find(struct inspect_needs *needs, const struct gguf *g, const struct model_arguments *a,
                                  struct mr_error *err)
{
    unsigned features;
    struct model_options options;
    *needs = (struct inspect_needs){0};
    MR_TRY(cpu_features(&features, getenv("MILLRACE_CPU"), err));
    MR_TRY(pool_create(&needs->pool, 1, err));
    MR_TRY(cpu_device_create(&needs->device, needs->pool, features, err));
    cpu_device_set_fusion(needs->device, a->fusion == 0);
    needs->isa = cpu_device_isa(needs->device);
    needs->kernel = mem_array((size_t)gguf_n_tensors(g), sizeof *needs->kernel);
    if (needs->kernel == NULL)
        return mr_fail(err, MR_NO_MEMORY, "out of memory");
    model_options_defaults(&options);
    options.device = needs->device;
    options.precision = (enum precision)a->precision;
    options.kv_int8 = a->kv_type != 0;
    if (a->prompt_chunk > 0)
        options.max_row = a->prompt_chunk;
    const enum mr_status status = estimate(needs, g, &options, a->ctx_size, &needs->reason);
    needs->is_model = status == MR_OK;
    for (int i = 0; i < gguf_n_tensors(g); i++)
        needs->kernel[i] = needs->is_model ? model_kernel_name(gguf_tensor_at(g, i), &options) : "";
    return MR_OK;
}

void inspect_needs_release(struct inspect_needs *needs)
{
    cpu_device_free(needs->device);
    pool_free(needs->pool);
    free(needs->kernel);
}
