/* test_numeric_rule.c: logits have the same bits however rows are batched, cut, threaded or served from the cache. */
#include <fenv.h>

#include "model_fixture.h"

struct subject {
    const char *path;
    enum precision precision;
    int n_token;
};

/* The long ones pass the window of their family and more than one attention segment. */
static const struct subject subjects[] = {
    {TINY("llama3"), PRECISION_FP32, 600},      {TINY("llama3"), PRECISION_AUTO, 130},
    {TINY("llama3_q8_0"), PRECISION_INT8, 600}, {TINY("mistral"), PRECISION_AUTO, 600},
    {TINY("gemma3"), PRECISION_AUTO, 600},      {TINY("qwen2"), PRECISION_AUTO, 130},
    {TINY("qwen3"), PRECISION_FP32, 130},       {TINY("olmoe"), PRECISION_FP32, 130},
    {TINY("olmoe_q8_0"), PRECISION_INT8, 600},  {TINY("gpt2"), PRECISION_FP32, 130},
    {TINY("gpt2_q8_0"), PRECISION_INT8, 600},   {SMOLLM2, PRECISION_INT8, 70},
};

enum {
    N_SUBJECTS = sizeof subjects / sizeof *subjects
};

static void chunks_of_any_size(void **state)
{
    (void)state;
    static const int chunks[] = {1, 7, 64};
    for (int i = 0; i < N_SUBJECTS; i++) {
        if (!fixture_has(subjects[i].path))
            continue;
        struct fixture f;
        fixture_open(&f, subjects[i].path, subjects[i].precision, 2);
        float *whole = fixture_logits(&f, 0, subjects[i].n_token, 512);
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            float *cut = fixture_logits(&f, 0, subjects[i].n_token, chunks[c]);
            fixture_same_bits(&f, whole, cut);
            free(cut);
        }
        free(whole);
        fixture_close(&f);
    }
}

static void any_number_of_threads(void **state)
{
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        if (!fixture_has(subjects[i].path))
            continue;
        float *one = NULL;
        for (int n_thread = 1; n_thread <= 3; n_thread++) {
            struct fixture f;
            fixture_open(&f, subjects[i].path, subjects[i].precision, n_thread);
            float *logits = fixture_logits(&f, 1, subjects[i].n_token, n_thread == 3 ? 100 : 512);
            if (one == NULL)
                one = logits;
            fixture_same_bits(&f, one, logits);
            if (logits != one)
                free(logits);
            fixture_close(&f);
        }
        free(one);
    }
}

/* One batch with the next row of three sequences of different lengths, and a prompt piece of a fourth. */
static void sequences_in_one_batch(void **state)
{
    (void)state;
    enum {
        N_SEQ = 4,
        PIECE = 9
    };
    static const int length[N_SEQ] = {1, 40, 33, 17};
    for (int i = 0; i < N_SUBJECTS; i++) {
        if (!fixture_has(subjects[i].path))
            continue;
        struct fixture f;
        struct mr_error err;
        kv_seq seq[N_SEQ], seqs[N_SEQ + PIECE];
        int32_t token[N_SEQ + PIECE];
        bool wants[N_SEQ + PIECE] = {false};
        float *alone[N_SEQ];
        fixture_open(&f, subjects[i].path, subjects[i].precision, 2);
        int n = 0;
        for (int s = 0; s < N_SEQ; s++) {
            const int n_row = s == N_SEQ - 1 ? PIECE : 1;
            alone[s] = fixture_logits(&f, s, length[s] + n_row, 512);
            seq[s] = fixture_sequence(&f);
            fixture_run(&f, seq[s], s, 0, length[s]);
            for (int r = 0; r < n_row; r++, n++) {
                token[n] = fixture_token(s, length[s] + r);
                seqs[n] = seq[s];
                wants[n] = r == n_row - 1;
            }
        }
        const struct batch batch = {.n_row = n, .token = token, .seq = seqs, .wants_logits = wants};
        assert_int_equal(model_forward(f.model, f.kv, &batch, &err), MR_OK);
        assert_int_equal(model_n_logits(f.model), N_SEQ);
        for (int s = 0; s < N_SEQ; s++) {
            fixture_same_bits(&f, alone[s], model_logits(f.model, s));
            free(alone[s]);
        }
        fixture_close(&f);
    }
}

static void prefix_from_the_cache(void **state)
{
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        if (!fixture_has(subjects[i].path))
            continue;
        struct fixture f;
        fixture_open(&f, subjects[i].path, subjects[i].precision, 2);
        float *plain = fixture_logits(&f, 2, 60, 512);
        const kv_seq first = fixture_sequence(&f);
        kv_seq second;
        fixture_run(&f, first, 2, 0, 37);
        assert_int_equal(kv_seq_fork(model_kv_cache(f.kv), &second, first, 37), MR_OK);
        fixture_run(&f, first, 5, 37, 50); /* writes behind the shared block, which the fork must not see */
        fixture_same_bits(&f, plain, fixture_run(&f, second, 2, 37, 60));
        free(plain);
        fixture_close(&f);
    }
}

static void rejected_rows_leave_no_trace(void **state)
{
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        if (!fixture_has(subjects[i].path))
            continue;
        struct fixture f;
        fixture_open(&f, subjects[i].path, subjects[i].precision, 2);
        float *plain = fixture_logits(&f, 3, 21, 512);
        const kv_seq seq = fixture_sequence(&f);
        fixture_run(&f, seq, 3, 0, 20);
        fixture_run(&f, seq, 4, 20, 25); /* draft tokens that are not taken */
        assert_int_equal(kv_seq_truncate(model_kv_cache(f.kv), seq, 20), MR_OK);
        fixture_same_bits(&f, plain, fixture_run(&f, seq, 3, 20, 21));
        free(plain);
        fixture_close(&f);
    }
}

static void fused_and_unfused_ops(void **state)
{
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        if (!fixture_has(subjects[i].path))
            continue;
        struct fixture fused, unfused;
        struct model_options options;
        fixture_open(&fused, subjects[i].path, subjects[i].precision, 2);
        fixture_make_device(&unfused, 2);
        cpu_device_set_fusion(unfused.device, false);
        model_options_defaults(&options);
        options.device = unfused.device;
        options.precision = subjects[i].precision;
        fixture_make_model(&unfused, subjects[i].path, &options);
        assert_true(model_info(unfused.model)->activation_bytes > model_info(fused.model)->activation_bytes);
        float *want = fixture_logits(&fused, 0, subjects[i].n_token, 512);
        float *got = fixture_logits(&unfused, 0, subjects[i].n_token, 100);
        fixture_same_bits(&fused, want, got);
        free(want);
        free(got);
        fixture_close(&fused);
        fixture_close(&unfused);
    }
}

static void tiled_and_untiled_ops(void **state)
{
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        if (!fixture_has(subjects[i].path))
            continue;
        struct fixture tiled, untiled;
        fixture_open(&tiled, subjects[i].path, subjects[i].precision, 2);
        fixture_open(&untiled, subjects[i].path, subjects[i].precision, 2);
        cpu_device_set_tiling(untiled.device, false);
        float *want = fixture_logits(&tiled, 0, 40, 512);
        float *got = fixture_logits(&untiled, 0, 40, 512);
        fixture_same_bits(&tiled, want, got);
        free(want);
        free(got);
        fixture_close(&tiled);
        fixture_close(&untiled);
    }
}

static void fixture_open_int8_cache(struct fixture *f, const struct subject *s, int n_thread)
{
    struct model_options options;
    fixture_make_device(f, n_thread);
    model_options_defaults(&options);
    options.device = f->device;
    options.precision = s->precision;
    options.kv_int8 = true;
    fixture_make_model(f, s->path, &options);
}

/* A token's scales are set when it is written: chunks and threads do not show, but rounding does. */
static void keys_and_values_in_int8(void **state)
{
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        if (!fixture_has(subjects[i].path))
            continue;
        struct fixture one, two, plain;
        fixture_open_int8_cache(&one, &subjects[i], 1);
        fixture_open_int8_cache(&two, &subjects[i], 2);
        fixture_open(&plain, subjects[i].path, subjects[i].precision, 1);
        assert_string_equal(model_info(one.model)->kv_type, "int8");
        float *want = fixture_logits(&one, 0, subjects[i].n_token, 512);
        float *got = fixture_logits(&two, 0, subjects[i].n_token, 7);
        float *unrounded = fixture_logits(&plain, 0, subjects[i].n_token, 512);
        fixture_same_bits(&one, want, got);
        assert_memory_not_equal(want, unrounded, sizeof *want * (size_t)model_info(one.model)->n_vocab);
        free(want);
        free(got);
        free(unrounded);
        fixture_close(&one);
        fixture_close(&two);
        fixture_close(&plain);
    }
}

static void callers_rounding_mode_does_not_matter(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, TINY("llama3_q8_0"), PRECISION_INT8, 2);
    float *plain = fixture_logits(&f, 0, 50, 512);
    fesetround(FE_UPWARD);
    float *upward = fixture_logits(&f, 0, 50, 512);
    fesetround(FE_TONEAREST);
    fixture_same_bits(&f, plain, upward);
    free(plain);
    free(upward);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_of_any_size),
        cmocka_unit_test(any_number_of_threads),
        cmocka_unit_test(sequences_in_one_batch),
        cmocka_unit_test(prefix_from_the_cache),
        cmocka_unit_test(fused_and_unfused_ops),
        cmocka_unit_test(tiled_and_untiled_ops),
        cmocka_unit_test(keys_and_values_in_int8),
        cmocka_unit_test(rejected_rows_leave_no_trace),
        cmocka_unit_test(callers_rounding_mode_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
