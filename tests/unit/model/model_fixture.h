/* model_fixture.h: models and sequences for the tests of src/model. Files: the small random models of tests/golden/data, and
 * SmolLM2 in models/ where it has been fetched. */
#ifndef TESTS_UNIT_MODEL_FIXTURE_H
#define TESTS_UNIT_MODEL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "model/model.h"
#include "ops/cpu_device.h"

#define TINY(name) TEST_SOURCE_DIR "/golden/data/tiny_" name ".gguf"
#define SMOLLM2    TEST_SOURCE_DIR "/../models/SmolLM2-135M-Instruct.Q4_1.gguf"

struct fixture {
    struct thread_pool *pool;
    struct device *device;
    struct model *model;
    struct model_kv *kv;
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FIXTURE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FIXTURE_SANITIZED 1
#endif
#endif
#ifndef FIXTURE_SANITIZED
#define FIXTURE_SANITIZED 0
#endif

/* Sanitizers slow the real model down tenfold and see in the small ones what there is to see. */
static inline bool fixture_has(const char *path)
{
    if (FIXTURE_SANITIZED && strcmp(path, SMOLLM2) == 0)
        return false;
    if (access(path, R_OK) == 0)
        return true;
    print_message("[  NOTE    ] %s is not there: that part is skipped\n", path);
    return false;
}

static inline void fixture_make_device(struct fixture *f, int n_thread)
{
    unsigned features;
    assert_int_equal(cpu_features(&features, getenv("MILLRACE_CPU"), NULL), MR_OK);
    assert_int_equal(pool_create(&f->pool, n_thread, NULL), MR_OK);
    assert_int_equal(cpu_device_create(&f->device, f->pool, features, NULL), MR_OK);
}

static inline void fixture_make_model(struct fixture *f, const char *path, const struct model_options *options)
{
    struct mr_error err = {""};
    struct gguf *g;
    if (gguf_open(&g, path, &err) != MR_OK || model_open(&f->model, g, options, &err) != MR_OK ||
        model_kv_create(&f->kv, f->model, 8, 1024, 4096, &err) != MR_OK)
        fail_msg("%s", err.message);
    gguf_close(g);
}

static inline void fixture_open(struct fixture *f, const char *path, enum precision precision, int n_thread)
{
    struct model_options options;
    fixture_make_device(f, n_thread);
    model_options_defaults(&options);
    options.device = f->device;
    options.precision = precision;
    fixture_make_model(f, path, &options);
}

static inline void fixture_close(struct fixture *f)
{
    model_kv_free(f->kv);
    model_free(f->model);
    cpu_device_free(f->device);
    pool_free(f->pool);
}

static inline kv_seq fixture_sequence(struct fixture *f)
{
    kv_seq seq;
    assert_int_equal(kv_seq_open(model_kv_cache(f->kv), &seq), MR_OK);
    return seq;
}

/* Token `i` of a text that depends on `text`; ids that every model of the tests has. */
static inline int32_t fixture_token(int text, int i) { return (int32_t)((i * i * 7 + i * (13 + text) + 5 + text) % 250); }

/* Run the tokens first <= i < end of a text; logits of the last one. */
static inline const float *fixture_run(struct fixture *f, kv_seq seq, int text, int first, int end)
{
    int32_t token[512];
    kv_seq seqs[512];
    struct mr_error err = {""};
    for (int i = first; i < end; i++) {
        token[i - first] = fixture_token(text, i);
        seqs[i - first] = seq;
    }
    const struct batch batch = {.n_row = end - first, .token = token, .seq = seqs};
    if (model_forward(f->model, f->kv, &batch, &err) != MR_OK)
        fail_msg("%s", err.message);
    return model_logits(f->model, 0);
}

/* Logits behind the first n tokens of a text, run in a new sequence in pieces of `chunk`. The caller frees them. */
static inline float *fixture_logits(struct fixture *f, int text, int n, int chunk)
{
    const kv_seq seq = fixture_sequence(f);
    const float *last = NULL;
    for (int i = 0; i < n; i += chunk)
        last = fixture_run(f, seq, text, i, n - i < chunk ? n : i + chunk);
    const size_t bytes = (size_t)model_info(f->model)->n_vocab * sizeof(float);
    float *copy = malloc(bytes);
    assert_non_null(copy);
    memcpy(copy, last, bytes);
    kv_seq_close(model_kv_cache(f->kv), seq);
    return copy;
}

static inline void fixture_same_bits(const struct fixture *f, const float *a, const float *b)
{
    assert_memory_equal(a, b, (size_t)model_info(f->model)->n_vocab * sizeof *a);
}

#endif
