/* test_experts.c: experts that give nothing go first, and the smaller mixture computes the same. */
#include "unit/engine/engine_fixture.h"

#include <math.h>
#include <stdio.h>

#include "compress/experts.h"
#include "measure/perplexity.h"

#define MIXTURE TEST_SOURCE_DIR "/golden/data/tiny_olmoe.gguf"

enum {
    N_TEXT = 300,
    EXPERTS = 8
};

static struct hparams shape_of(const char *path)
{
    struct gguf *g;
    struct hparams h;
    struct mr_error err = {{0}};
    check(gguf_open(&g, path, &err), &err);
    check(hparams_read(&h, g, &err), &err);
    gguf_close(g);
    return h;
}

/* By weight: each expert's score is the length of its down matrix; a statistic of zeros makes it nothing. */
static void weights_are_lengths(void **state)
{
    (void)state;
    struct gguf *g;
    struct mr_error err = {{0}};
    const struct hparams h = shape_of(MIXTURE);
    float score[2 * EXPERTS], of_text[2 * EXPERTS];
    assert_int_equal(h.n_expert, EXPERTS);
    assert_int_equal(h.n_layer, 2);
    double *sum = calloc((size_t)(2 * EXPERTS * h.n_ff), sizeof *sum);
    assert_non_null(sum);
    for (int i = 0; i < h.n_ff; i++)
        sum[3 * h.n_ff + i] = 4;
    check(gguf_open(&g, MIXTURE, &err), &err);
    check(experts_weigh(score, g, &h, NULL, &err), &err);
    check(experts_weigh(of_text, g, &h, sum, &err), &err);
    for (int i = 0; i < 2 * EXPERTS; i++) {
        assert_true(score[i] > 0);
        assert_true(i == 3 ? fabsf(of_text[i] - 2 * score[i]) <= 1e-6f * score[i] : !(of_text[i] > 0));
    }
    gguf_close(g);
    free(sum);
}

/* The bytes of layer `layer`'s experts of one kind in `after` are those of `before` without the one numbered `gone`. */
static void check_kept(const struct gguf *before, const struct gguf *after, int layer, const char *kind, int gone)
{
    static char was[1 << 20], is[1 << 20];
    char name[64];
    struct mr_error err = {{0}};
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, kind);
    const struct gguf_tensor *a = gguf_tensor_find(before, name), *b = gguf_tensor_find(after, name);
    const size_t each = a->bytes / EXPERTS, hole = (size_t)gone * each;
    assert_true(a->bytes <= sizeof was && b->bytes == a->bytes - each);
    check(gguf_read(before, a, 0, was, a->bytes, &err), &err);
    check(gguf_read(after, b, 0, is, b->bytes, &err), &err);
    assert_memory_equal(is, was, hole);
    assert_memory_equal(is + hole, was + hole + each, b->bytes - hole);
}

static int least(const float *score)
{
    int at = 0;
    for (int i = 0; i < EXPERTS; i++)
        at = score[i] < score[at] || (!(score[i] > score[at]) && i > at) ? i : at; /* ties stay to the lower number */
    return at;
}

/* By each importance: one expert less in each layer, the least; what stays keeps its bytes. Then targets of fewer. */
static void a_smaller_mixture_is_an_ordinary_file(void **state)
{
    (void)state;
    char in[] = "/tmp/experts_in_XXXXXX", path[] = "/tmp/experts_XXXXXX", text[600];
    write_model(in, MIXTURE);
    close(mkstemp(path));
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(' ' + i * i * 31 % 90);
    for (enum importance method = IMPORTANCE_ACTIVATION; method < N_IMPORTANCES; method++) {
        struct mr_error err = {{0}};
        struct prune_result r;
        struct gguf *before, *after;
        struct hparams h;
        float score[2 * EXPERTS];
        const struct prune_job job = {.in = in,
                                      .out = path,
                                      .text = text,
                                      .n_text = sizeof text,
                                      .n_tok = 64,
                                      .importance = method,
                                      .parts = PRUNE_EXPERTS,
                                      .ratio = 1e-9, /* anything: one expert */
                                      .threads = 1,
                                      .cpu = getenv("MILLRACE_CPU")};
        check(gguf_open(&before, in, &err), &err);
        check(hparams_read(&h, before, &err), &err);
        check(experts_score(score, before, &h, &job, &err), &err);
        check(experts_job_run(&r, &job, &err), &err);
        assert_int_equal(r.after.n_expert, EXPERTS - 1);
        check(gguf_open(&after, path, &err), &err);
        for (int l = 0; l < 2; l++) {
            check_kept(before, after, l, "ffn_up_exps", least(score + l * EXPERTS));
            check_kept(before, after, l, "ffn_down_exps", least(score + l * EXPERTS));
            check_kept(before, after, l, "ffn_gate_inp", least(score + l * EXPERTS));
        }
        gguf_close(before);
        gguf_close(after);
    }
    unlink(in);
    unlink(path);
}

static void targets_are_met_or_refused(void **state)
{
    (void)state;
    char in[] = "/tmp/experts_in_XXXXXX", path[] = "/tmp/experts_XXXXXX";
    write_model(in, MIXTURE);
    close(mkstemp(path));
    for (int keep = 0; keep < EXPERTS; keep++) {
        struct mr_error err = {{0}};
        struct prune_result r;
        struct mr_model *model;
        struct mr_options o;
        struct prune_job job = {
            .in = in, .out = path, .importance = IMPORTANCE_WEIGHT, .parts = PRUNE_EXPERTS, .ratio = 1e-9, .threads = 1};
        check(experts_job_run(&r, &job, &err), &err);
        const size_t each = r.n_weight_before - r.n_weight_after;
        job.n_weight = (int64_t)(r.n_weight_before - (size_t)(EXPERTS - keep) * each);
        if (keep == 0) {
            assert_int_equal(experts_job_run(&r, &job, &err), MR_BAD_INPUT);
            continue;
        }
        check(experts_job_run(&r, &job, &err), &err);
        assert_true((int64_t)r.n_weight_after == job.n_weight);
        const struct hparams h = shape_of(path);
        assert_int_equal(h.n_expert, keep);
        assert_int_equal(h.n_expert_used, keep < 3 ? keep : 3);
        mr_options_defaults(&o);
        o.threads = 1;
        check(mr_model_open(&model, path, &o, &err), &err);
        mr_model_close(model);
    }
    unlink(in);
    unlink(path);
}

static void what_has_no_experts_is_refused(void **state)
{
    (void)state;
    struct mr_error err = {{0}};
    struct prune_result r;
    struct prune_job job = {.in = TEST_SOURCE_DIR "/golden/data/tiny_llama3.gguf",
                            .out = "/tmp/experts_refused.gguf",
                            .importance = IMPORTANCE_WEIGHT,
                            .parts = PRUNE_EXPERTS,
                            .ratio = 0.1};
    assert_int_equal(experts_job_run(&r, &job, &err), MR_BAD_INPUT);
    job.in = MIXTURE;
    job.importance = IMPORTANCE_TAYLOR;
    assert_int_equal(experts_job_run(&r, &job, &err), MR_NO_SUPPORT);
    assert_int_equal(access(job.out, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_lengths), cmocka_unit_test(a_smaller_mixture_is_an_ordinary_file),
        cmocka_unit_test(targets_are_met_or_refused), cmocka_unit_test(what_has_no_experts_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
