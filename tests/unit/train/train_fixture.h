/* train_fixture.h: small random models to train, and losses. */
#ifndef TESTS_UNIT_TRAIN_FIXTURE_H
#define TESTS_UNIT_TRAIN_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "train/loss.h"
#include "train/train_pass.h"

#define TINY(name) TEST_SOURCE_DIR "/golden/data/tiny_" name ".gguf"

enum {
    FIXTURE_SEQ = 2,
    FIXTURE_TOK = 70, /* more than a block of queries, and than a window */
    FIXTURE_ROWS = FIXTURE_SEQ * FIXTURE_TOK
};

struct fixture {
    struct thread_pool *pool;
    struct train_model model;
    struct train_pass *pass;
    int32_t token[FIXTURE_ROWS], label[FIXTURE_ROWS];
};

static inline unsigned fixture_cpu(void)
{
    unsigned features;
    assert_int_equal(cpu_features(&features, getenv("MILLRACE_CPU"), NULL), MR_OK);
    return features;
}

static inline void fixture_load(struct train_model *m, const char *path)
{
    struct mr_error err = {""};
    struct gguf *g;
    if (gguf_open(&g, path, &err) != MR_OK || train_model_load(m, g, &err) != MR_OK)
        fail_msg("%s", err.message);
    gguf_close(g);
}

static inline void fixture_open(struct fixture *f, const char *path, int n_thread, size_t memory_bytes)
{
    struct mr_error err = {""};
    assert_int_equal(pool_create(&f->pool, n_thread, NULL), MR_OK);
    fixture_load(&f->model, path);
    const struct train_pass_options o = {.n_seq = FIXTURE_SEQ,
                                         .n_tok = FIXTURE_TOK,
                                         .memory_bytes = memory_bytes,
                                         .pool = f->pool,
                                         .cpu_features = fixture_cpu()};
    if (train_pass_create(&f->pass, &f->model, &o, &err) != MR_OK)
        fail_msg("%s", err.message);
    for (int i = 0; i < FIXTURE_ROWS; i++)
        f->token[i] = (i * i * 7 + i * 13 + 5) % 251;
    for (int i = 0; i < FIXTURE_ROWS; i++)
        f->label[i] = i % FIXTURE_TOK == FIXTURE_TOK - 1 ? -1 : f->token[i + 1];
}

static inline void fixture_close(struct fixture *f)
{
    train_pass_free(f->pass);
    train_model_release(&f->model);
    pool_free(f->pool);
}

/* Mean cross-entropy. */
static inline double fixture_cross_entropy(void *context, struct compute *c, float *logits, int first, int n, bool backward)
{
    const struct fixture *f = context;
    struct row_loss out[FIXTURE_ROWS];
    const float scale = 1.0f / (FIXTURE_ROWS - FIXTURE_SEQ);
    const struct loss_targets t = {.label = f->label + first, .ce_weight = 1, .temperature = 1, .scale = scale};
    double sum = 0;
    loss_rows(c, out, &t, logits, n, f->model.h.n_vocab, backward);
    for (int i = 0; i < n; i++)
        sum += (double)out[i].cross_entropy * (double)scale;
    return sum;
}

static inline double fixture_run(struct fixture *f, float *grad)
{
    const struct train_loss loss = {.logits = fixture_cross_entropy, .context = f};
    if (grad != NULL)
        memset(grad, 0, f->model.n_weight * sizeof *grad);
    return train_pass_run(f->pass, f->token, FIXTURE_SEQ, &loss, grad);
}

static inline float *fixture_floats(size_t n)
{
    float *x = calloc(n, sizeof *x);
    assert_non_null(x);
    return x;
}

#endif
