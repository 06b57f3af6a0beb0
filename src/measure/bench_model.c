/* bench_model.c: opens a model for a benchmark. */
#include "measure/bench_model.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/memory_free.h"
#include "model/adapter.h"
#include "ops/cpu_device.h"

enum {
    CONTEXT_MAX = 1 << 24
};

static enum mr_status context_of(int64_t *out, const struct gguf *g, struct mr_error *err)
{
    struct gguf_string arch;
    char key[128];
    MR_TRY(gguf_get_string(g, "general.architecture", &arch, err));
    if (arch.n > 64)
        return mr_fail(err, MR_BAD_FORMAT, "key 'general.architecture' has %zu bytes", arch.n);
    snprintf(key, sizeof key, "%.*s.context_length", (int)arch.n, arch.s);
    return gguf_get_int(g, key, 1, CONTEXT_MAX, out, err);
}

static enum mr_status check_fit(const struct bench_model *m, const struct bench_model_options *o,
                                const struct model_options *options, struct mr_error *err)
{
    struct model_memory memory;
    int64_t n_ctx = o->n_ctx;
    if (n_ctx == 0)
        MR_TRY(context_of(&n_ctx, m->file, err));
    if (o->max_token > n_ctx)
        return mr_fail(err, MR_BAD_INPUT, "sequences of %d tokens do not fit the context of %lld", o->max_token,
                       (long long)n_ctx);
    MR_TRY(model_estimate(&memory, m->file, options, o->max_token, err));
    const double kv = (double)memory.kv_bytes * o->n_seq, rest = (double)(memory.weight_bytes + memory.activation_bytes);
    const double have = (double)memory_free_bytes();
    if (rest + kv > have)
        return mr_fail(
            err, MR_BAD_INPUT,
            "weights and activations take %.2f GB, keys and values of %d sequences of %d tokens %.2f GB, but %.2f GB "
            "are free",
            rest * 1e-9, o->n_seq, o->max_token, kv * 1e-9, have * 1e-9);
    return MR_OK;
}

static bool go_on(void *context, size_t done, size_t total)
{
    const struct bench_model_options *o = context;
    (void)done;
    (void)total;
    return o->stop == NULL || !atomic_load(o->stop);
}

static enum mr_status open_all(struct bench_model *m, const struct bench_model_options *o, struct mr_error *err)
{
    MR_TRY(pool_create(&m->pool, o->n_threads, err));
    if (o->pin)
        MR_TRY(pool_pin(m->pool, err));
    MR_TRY(cpu_device_create(&m->device, m->pool, o->cpu_features, err));
    cpu_device_set_fusion(m->device, !o->unfused);
    cpu_device_set_tiling(m->device, !o->untiled);
    struct model_options options;
    model_options_defaults(&options);
    options.device = m->device;
    options.precision = o->precision;
    options.kv_int8 = o->kv_int8;
    options.max_row = o->max_row;
    options.max_logits = o->max_logits;
    options.progress = go_on;
    options.progress_context = (void *)o;
    MR_TRY(check_fit(m, o, &options, err));
    const int64_t begin = clock_us();
    MR_TRY(model_open(&m->model, m->file, &options, err));
    m->load_s = (double)(clock_us() - begin) * 1e-6;
    return MR_OK;
}

enum mr_status bench_model_open(struct bench_model *out, const char *path, const struct bench_model_options *options,
                                struct mr_error *err)
{
    *out = (struct bench_model){.path = path};
    MR_TRY(gguf_open(&out->file, path, err)); /* its message names the file */
    const enum mr_status status = open_all(out, options, err);
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "'%s'", path);
}

enum mr_status bench_model_adapter(struct bench_model *m, const char *path, float scale, struct mr_error *err)
{
    struct gguf *g;
    struct adapter *a;
    size_t capacity = (size_t)m->n_adapter;
    if (!mem_grow(&m->adapter, &capacity, (size_t)m->n_adapter + 1, sizeof *m->adapter))
        return mr_fail(err, MR_NO_MEMORY, "no memory for an adapter");
    MR_TRY(gguf_open(&g, path, err));
    const enum mr_status status = adapter_load(&a, m->model, g, err);
    gguf_close(g);
    if (status != MR_OK)
        return mr_fail_in(err, status, "'%s'", path);
    m->adapter[m->n_adapter++] = (struct adapter_set){1, {a}, {scale}};
    return MR_OK;
}

void bench_model_release(struct bench_model *m)
{
    for (int i = 0; i < m->n_adapter; i++)
        adapter_free((struct adapter *)m->adapter[i].adapter[0]);
    free(m->adapter);
    model_free(m->model);
    cpu_device_free(m->device);
    pool_free(m->pool);
    gguf_close(m->file);
}
