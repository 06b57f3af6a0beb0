/* test_model_fault.c: opening and running a model with no memory is an error, and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "fault/failing_malloc.h"
#include "format/gguf.h"
#include "model/model.h"
#include "ops/cpu_device.h"

static enum mr_status run(struct model *m, struct model_kv *kv)
{
    static const int32_t token[] = {1, 2, 3};
    kv_seq seq[3];
    MR_TRY(kv_seq_open(model_kv_cache(kv), &seq[0]));
    seq[1] = seq[2] = seq[0];
    return model_forward(m, kv, &(struct batch){.n_row = 3, .token = token, .seq = seq}, NULL);
}

static enum mr_status with_device(struct gguf *g, struct device *d)
{
    struct model_options options;
    struct model *m;
    struct model_kv *kv = NULL;
    model_options_defaults(&options);
    options.device = d;
    options.precision = PRECISION_FP32; /* decodes: packing allocates, too */
    enum mr_status status = model_open(&m, g, &options, NULL);
    if (status == MR_OK)
        status = model_kv_create(&kv, m, 2, 100, 200, NULL);
    if (status == MR_OK)
        status = run(m, kv);
    model_kv_free(kv);
    model_free(m);
    return status;
}

static enum mr_status attempt(void *context)
{
    struct thread_pool *pool;
    struct device *d = NULL;
    enum mr_status status = pool_create(&pool, 2, NULL);
    if (status == MR_OK)
        status = cpu_device_create(&d, pool, 0, NULL);
    if (status == MR_OK)
        status = with_device(context, d);
    cpu_device_free(d);
    pool_free(pool);
    return status;
}

static void model_without_memory(void **state)
{
    static const char *const names[] = {"llama3_q8_0", "gemma3", "qwen2", "olmoe_q8_0", "gpt2"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        struct gguf *g;
        snprintf(path, sizeof path, "%s/golden/data/tiny_%s.gguf", TEST_SOURCE_DIR, names[i]);
        assert_int_equal(gguf_open(&g, path, NULL), MR_OK);
        assert_true(check_every_allocation(attempt, g) > 20);
        gguf_close(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(model_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
