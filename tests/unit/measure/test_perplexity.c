/* test_perplexity.c: the windows score each token once, as the bare model does token by token. */
#include "unit/engine/engine_fixture.h"

#include <math.h>

#include "measure/perplexity.h"

enum {
    N_TEXT = 200
};

static struct mr_model *model;
static int32_t text[N_TEXT];

static int set_up(void **state)
{
    (void)state;
    model = fixture_model(2);
    for (int i = 0; i < N_TEXT; i++)
        text[i] = 1 + i * i * 31 % 255;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_model_close(model);
    return 0;
}

/* -log p of text[i] given text[start .. i - 1], one row at a time. */
static double surprise(int start, int i)
{
    struct model_kv *kv;
    kv_seq seq;
    assert_int_equal(model_kv_create(&kv, model->model, 1, N_TEXT, N_TEXT, NULL), MR_OK);
    assert_int_equal(kv_seq_open(model_kv_cache(kv), &seq), MR_OK);
    for (int j = start; j < i; j++)
        assert_int_equal(model_forward(model->model, kv, &(struct batch){.n_row = 1, .token = &text[j], .seq = &seq}, NULL),
                         MR_OK);
    const float *logits = model_logits(model->model, 0);
    double sum = 0;
    for (int j = 0; j < N_VOCAB; j++)
        sum += exp((double)logits[j]);
    model_kv_free(kv);
    return log(sum) - (double)logits[text[i]];
}

/* log p of each token behind text[0 .. i - 1], at once. */
static void predict(struct mr_model *m, int i, double *log_p)
{
    struct model_kv *kv;
    kv_seq seq;
    double sum = 0;
    assert_int_equal(model_kv_create(&kv, m->model, 1, N_TEXT, N_TEXT, NULL), MR_OK);
    assert_int_equal(kv_seq_open(model_kv_cache(kv), &seq), MR_OK);
    for (int j = 0; j < i; j++)
        assert_int_equal(model_forward(m->model, kv, &(struct batch){.n_row = 1, .token = &text[j], .seq = &seq}, NULL), MR_OK);
    const float *logits = model_logits(m->model, 0);
    for (int j = 0; j < N_VOCAB; j++)
        sum += exp((double)logits[j]);
    for (int j = 0; j < N_VOCAB; j++)
        log_p[j] = (double)logits[j] - log(sum);
    model_kv_free(kv);
}

static void every_token_is_scored_once(void **state)
{
    (void)state;
    static const struct {
        int n, window, stride;
    } cases[] = {{2, 16, 8}, {16, 16, 8}, {17, 16, 8}, {40, 16, 8}, {41, 16, 3}, {40, 32, 30}, {12, 3, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const int n = cases[c].n, window = cases[c].window, stride = cases[c].stride;
        double nll = 0;
        for (int i = 1; i < n; i++) { /* the first window holds tokens 0 to window - 1, each next one stride more */
            const int steps = i < window ? 0 : (i - window) / stride + 1;
            nll += surprise(steps * stride, i);
        }
        struct perplexity got;
        struct mr_error err = {{0}};
        const struct perplexity_options options = {.window = window, .stride = stride};
        check(perplexity_measure(&got, model, text, n, &options, &err), &err);
        assert_int_equal(got.n_tokens, n - 1);
        assert_true(fabs(log(got.perplexity) - nll / (n - 1)) < 1e-5);
    }
}

static bool stop_at_once(void *context, int64_t done, int64_t total)
{
    (void)context;
    assert_true(done > 0 && done <= total);
    return false;
}

static void a_listener_can_stop_it(void **state)
{
    (void)state;
    struct perplexity got;
    struct mr_error err;
    const struct perplexity_options options = {.window = 16, .stride = 8, .go_on = stop_at_once};
    assert_int_equal(perplexity_measure(&got, model, text, N_TEXT, &options, &err), MR_CANCELLED);
    assert_non_null(strstr(err.message, "16 of 200"));
}

static void what_cannot_be_measured_is_named(void **state)
{
    (void)state;
    static const struct {
        struct perplexity_options options;
        int n;
        const char *word;
    } cases[] = {
        {{.window = 2, .stride = 1}, 10, "window is 2"},
        {{.window = 16, .stride = 0}, 10, "stride is 0"},
        {{.window = 16, .stride = 15}, 10, "1 to 14"},
        {{.window = 16, .stride = 8}, 1, "1 tokens"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct perplexity got;
        struct mr_error err;
        assert_int_equal(perplexity_measure(&got, model, text, cases[i].n, &cases[i].options, &err), MR_BAD_INPUT);
        assert_non_null(strstr(err.message, cases[i].word));
    }
}

/* The divergence and the agreement along the text, computed row by row. */
static void a_base_is_compared_with(void **state)
{
    (void)state;
    enum {
        N = 40
    };
    struct mr_model *base = fixture_model_of(TEST_SOURCE_DIR "/golden/data/tiny_llama3.gguf", 2);
    const struct perplexity_options options = {.window = 64, .stride = 8, .base = base};
    struct perplexity got;
    struct mr_error err = {{0}};
    double kl = 0, change = 0, same = 0;
    for (int i = 1; i < N; i++) {
        double p[N_VOCAB], q[N_VOCAB];
        int best_p = 0, best_q = 0;
        predict(base, i, p);
        predict(model, i, q);
        for (int j = 0; j < N_VOCAB; j++) {
            kl += exp(p[j]) * (p[j] - q[j]);
            best_p = p[j] > p[best_p] ? j : best_p;
            best_q = q[j] > q[best_q] ? j : best_q;
        }
        change += p[text[i]] - q[text[i]];
        same += best_p == best_q;
    }
    check(perplexity_measure(&got, model, text, N, &options, &err), &err);
    assert_true(fabs(got.kl.mean - kl / (N - 1)) < 1e-4);
    assert_true(fabs(got.change.mean - change / (N - 1)) < 1e-4);
    assert_true(fabs(got.same_top.mean - same / (N - 1)) < 1e-9);
    assert_true(fabs(log(got.perplexity / got.base_perplexity) - got.change.mean) < 1e-9);
    assert_true(got.kl.error > 0 && got.nll.error > 0);
    mr_model_close(base);
}

static void a_model_beside_itself_is_the_same(void **state)
{
    (void)state;
    const struct perplexity_options options = {.window = 16, .stride = 8, .base = model};
    struct perplexity got;
    struct mr_error err = {{0}};
    check(perplexity_measure(&got, model, text, N_TEXT, &options, &err), &err);
    assert_true(got.kl.mean < 1e-6 && got.same_top.mean == 1 && got.change.mean == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_token_is_scored_once),        cmocka_unit_test(a_base_is_compared_with),
        cmocka_unit_test(a_model_beside_itself_is_the_same), cmocka_unit_test(a_listener_can_stop_it),
        cmocka_unit_test(what_cannot_be_measured_is_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
