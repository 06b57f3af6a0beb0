/* golden_model.h: what the helper programs of the golden tests share: a model on the cpu device, opened from a path. */
#ifndef TESTS_GOLDEN_GOLDEN_MODEL_H
#define TESTS_GOLDEN_GOLDEN_MODEL_H

#include <stdio.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "model/adapter.h"
#include "ops/cpu_device.h"

struct golden_model {
    struct thread_pool *pool;
    struct device *device;
    struct model *model;
    struct model_kv *kv;
    struct adapter_set adapters;
};

static inline void golden_check(enum mr_status status, const struct mr_error *err)
{
    if (status == MR_OK)
        return;
    fprintf(stderr, "%s: %s\n", mr_status_text(status), err->message);
    exit(1);
}

/* Sequences of up to max_token tokens, n_seq of them. */
static inline void golden_open(struct golden_model *g, const char *path, const char *precision, bool kv_int8, int n_thread,
                               int max_logits, int n_seq, int max_token)
{
    struct mr_error err;
    struct gguf *file;
    struct model_options options;
    unsigned features;
    g->adapters = (struct adapter_set){0};
    model_options_defaults(&options);
    if (!precision_from_name(&options.precision, precision)) {
        fprintf(stderr, "precision '%s'\n", precision);
        exit(1);
    }
    options.max_logits = max_logits;
    options.kv_int8 = kv_int8;
    golden_check(cpu_features(&features, getenv("MILLRACE_CPU"), &err), &err);
    golden_check(pool_create(&g->pool, n_thread, &err), &err);
    golden_check(cpu_device_create(&g->device, g->pool, features, &err), &err);
    golden_check(gguf_open(&file, path, &err), &err);
    options.device = g->device;
    golden_check(model_open(&g->model, file, &options, &err), &err);
    gguf_close(file);
    const int n_position = model_info(g->model)->n_position;
    max_token = n_position > 0 && n_position < max_token ? n_position : max_token;
    golden_check(model_kv_create(&g->kv, g->model, n_seq, max_token, (int64_t)n_seq * max_token, &err), &err);
}

static inline void golden_add_adapter(struct golden_model *g, const char *path)
{
    struct mr_error err;
    struct gguf *file;
    struct adapter *adapter;
    golden_check(gguf_open(&file, path, &err), &err);
    golden_check(adapter_load(&adapter, g->model, file, &err), &err);
    gguf_close(file);
    g->adapters = (struct adapter_set){1, {adapter}, {1}};
}

static inline void golden_close(struct golden_model *g)
{
    adapter_free((struct adapter *)g->adapters.adapter[0]);
    model_kv_free(g->kv);
    model_free(g->model);
    cpu_device_free(g->device);
    pool_free(g->pool);
}

#endif
