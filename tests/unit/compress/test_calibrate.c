/* test_calibrate.c: statistics of activations, and the files that they are written to and read from. */
#include "unit/engine/engine_fixture.h"

#include <math.h>

#include "compress/calibrate.h"
#include "compress/column_weights.h"

enum {
    N_TEXT = 300,
    WINDOW = 64
};

static int32_t text[N_TEXT];

static struct calibration *calibrated(struct mr_model *model, enum mr_status want, int n)
{
    struct calibration *c;
    struct perplexity p, alone;
    struct mr_error err = {{0}};
    const struct perplexity_options options = {.window = WINDOW, .stride = WINDOW - 2};
    for (int i = 0; i < N_TEXT; i++)
        text[i] = 1 + i * i * 31 % 255;
    assert_int_equal(calibrate(&c, &p, model, text, n, &options, &err), want);
    if (want == MR_OK) { /* looking changes nothing, and the device has its own ops again */
        check(perplexity_measure(&alone, model, text, n, &options, &err), &err);
        assert_true(p.perplexity == alone.perplexity);
    }
    return c;
}

static struct column_weights *written(const struct calibration *c, const char *path)
{
    struct column_weights *m;
    struct mr_error err = {{0}};
    check(calibration_write(c, path, "text", &err), &err);
    check(column_weights_read(&m, path, &err), &err);
    unlink(path);
    return m;
}

static const float *of(const struct column_weights *m, const char *name, int n, int matrix)
{
    bool fits;
    const float *values = column_weights_find(m, (struct gguf_string){name, strlen(name)}, n, matrix, &fits);
    assert_true(fits);
    return values;
}

static void matrices_that_read_the_same_have_the_same_statistics(void **state)
{
    (void)state;
    struct mr_model *model = fixture_model(2);
    struct calibration *c = calibrated(model, MR_OK, N_TEXT);
    const int n = model_info(model->model)->n_embd;
    struct column_weights *gguf = written(c, "/tmp/millrace-statistics.gguf"),
                          *dat = written(c, "/tmp/millrace-statistics.dat");
    const float *q = of(gguf, "blk.0.attn_q.weight", n, 0), *k = of(gguf, "blk.0.attn_k.weight", n, 0);
    const float *up = of(gguf, "blk.1.ffn_up.weight", n, 0), *old = of(dat, "blk.1.ffn_up.weight", n, 0);
    assert_true(q != NULL && k != NULL && up != NULL && old != NULL);
    assert_memory_equal(q, k, (size_t)n * sizeof *q);
    assert_true(memcmp(q, up, (size_t)n * sizeof *q) != 0);
    for (int i = 0; i < n; i++) {
        assert_true(up[i] > 0);
        assert_true(fabsf(up[i] - old[i]) <= 1e-5f * up[i]);
    }
    assert_null(of(gguf, "blk.99.ffn_up.weight", n, 0));
    assert_int_equal(column_weights_n(gguf), calibration_n(c));
    column_weights_free(gguf);
    column_weights_free(dat);
    calibration_free(c);
    mr_model_close(model);
}

static void each_expert_has_its_own(void **state)
{
    (void)state;
    struct mr_model *model = fixture_model_of(TEST_SOURCE_DIR "/golden/data/tiny_olmoe.gguf", 2);
    struct calibration *c = calibrated(model, MR_OK, N_TEXT);
    const struct model_info *info = model_info(model->model);
    struct column_weights *m = written(c, "/tmp/millrace-statistics-experts.gguf");
    const float *first = of(m, "blk.0.ffn_up_exps.weight", info->n_embd, 0);
    assert_non_null(first);
    int n_different = 0;
    for (int e = 1; e < info->n_expert; e++) {
        const float *other = of(m, "blk.0.ffn_up_exps.weight", info->n_embd, e);
        n_different += memcmp(first, other, (size_t)info->n_embd * sizeof *first) != 0;
    }
    assert_int_equal(n_different, info->n_expert - 1);
    column_weights_free(m);
    calibration_free(c);
    mr_model_close(model);
}

static void a_short_text_is_refused(void **state)
{
    (void)state;
    struct mr_model *model = fixture_model(1);
    assert_null(calibrated(model, MR_BAD_INPUT, CALIBRATE_TOKENS_MIN - 1));
    mr_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_that_read_the_same_have_the_same_statistics),
        cmocka_unit_test(each_expert_has_its_own),
        cmocka_unit_test(a_short_text_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
