/* test_earlier_answers.c: what answered a prompt is found again by prompts that are alike, of the same tenant; the answers are
 * those of the plain run. */
#include <math.h>

#include "engine/engine_state.h"
#include "unit/engine/engine_fixture.h"

enum {
    N_PROMPT = 120,
    N_ANSWER = 60
};

static struct mr_model *model;

static int set_up(void **state)
{
    (void)state;
    model = fixture_model(1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_model_close(model);
    return 0;
}

/* The same text but for so many tokens at its end. */
static void write_prompt(int32_t *prompt, int n_other)
{
    for (int i = 0; i < N_PROMPT; i++)
        prompt[i] = 1 + (i * i * 31 + i * 7 + (i >= N_PROMPT - n_other ? 101 : 0)) % 255;
}

static void likeness_is_about_the_share_of_common_runs(void **state)
{
    (void)state;
    static int32_t a[4000], b[4000];
    struct prompt_sketch x, y;
    for (int share = 0; share <= 10; share++) {
        for (int i = 0; i < 4000; i++) {
            a[i] = (int32_t)((uint32_t)i * 2654435761U >> 8);
            b[i] = i < share * 400 ? a[i] : a[i] + 1;
        }
        prompt_sketch_make(&x, a, 4000);
        prompt_sketch_make(&y, b, 4000);
        const double common = share / 10.0, jaccard = common / (2 - common);
        assert_true(fabsf(prompt_sketch_likeness(&x, &y) - (float)jaccard) < 0.2F); /* three deviations of 64 bins */
    }
    prompt_sketch_make(&x, a, 3); /* no run */
    assert_true(prompt_sketch_likeness(&x, &x) == 0);
}

static void the_least_recently_used_goes_but_stays_for_who_has_it(void **state)
{
    (void)state;
    struct earlier_answers s;
    const struct prefix_key seed = {{1}}, other = {{2}};
    int32_t prompt[N_PROMPT], answer[N_ANSWER] = {5};
    struct prompt_sketch sketch[4];
    int n;
    for (int i = 0; i < 4; i++) {
        write_prompt(prompt, 0);
        for (int k = 0; k < N_PROMPT; k++)
            prompt[k] += 1000 * i;
        prompt_sketch_make(&sketch[i], prompt, N_PROMPT);
    }
    earlier_answers_init(&s, 3 * (sizeof(struct prompt_sketch) + 4 * N_ANSWER + 128));
    earlier_answers_add(&s, &seed, &sketch[0], answer, EARLIER_TOKENS_MIN - 1);
    assert_int_equal(s.n, 0); /* too short */
    for (int i = 0; i < 3; i++, answer[0]++)
        earlier_answers_add(&s, &seed, &sketch[i], answer, N_ANSWER);
    assert_int_equal(s.n, 3);
    earlier_answers_add(&s, &seed, &sketch[2], answer, N_ANSWER); /* in place of the one before */
    assert_int_equal(s.n, 3);
    assert_null(earlier_answers_find(&s, &other, &sketch[0]));
    assert_null(earlier_answers_find(&s, &seed, &sketch[3]));
    struct earlier_answer *first = earlier_answers_find(&s, &seed, &sketch[0]),
                          *second = earlier_answers_find(&s, &seed, &sketch[1]);
    assert_int_equal(earlier_answer_tokens(first, &n)[0], 5);
    assert_int_equal(earlier_answer_tokens(second, &n)[0], 6);
    earlier_answers_add(&s, &seed, &sketch[3], answer, N_ANSWER); /* the third makes room */
    assert_null(earlier_answers_find(&s, &seed, &sketch[2]));
    earlier_answers_add(&s, &seed, &sketch[2], answer, N_ANSWER); /* now the first, which somebody has */
    assert_null(earlier_answers_find(&s, &seed, &sketch[0]));
    assert_int_equal(earlier_answer_tokens(first, &n)[0], 5);
    assert_int_equal(n, N_ANSWER);
    assert_true(s.bytes <= s.capacity);
    earlier_answers_leave(&s, first);
    earlier_answers_leave(&s, second);
    earlier_answers_release(&s);
    assert_int_equal(s.bytes, 0);
}

/* No time passes, so nothing is known of costs. */
static int64_t still_clock(void *context)
{
    (void)context;
    return 1;
}

static struct mr_engine *engine_with(size_t bytes)
{
    struct mr_options o;
    struct mr_engine *e;
    struct mr_error err = {{0}};
    mr_options_defaults(&o);
    o.n_ctx = 256;
    o.speculation = MR_SPECULATION_REFERENCE;
    o.reference_bytes = bytes;
    o.clock_us = still_clock;
    check(mr_engine_create(&e, model, &o, &err), &err);
    return e;
}

/* Drafts that stayed. */
static int answer(struct mr_engine *e, int n_other, const char *salt, float temperature, struct outcome *out)
{
    int32_t prompt[N_PROMPT];
    struct mr_request r;
    mr_request_defaults(&r);
    write_prompt(prompt, n_other);
    r.prompt = prompt;
    r.n_prompt = N_PROMPT;
    r.max_tokens = N_ANSWER;
    r.ignore_eos = true;
    r.cache_salt = salt;
    r.sampling.n_logprobs = 0;
    r.sampling.seed = 3;
    r.sampling.temperature = temperature;
    *out = (struct outcome){.id = submit(e, &r)};
    run_to_end(e, out, 1);
    return out->usage.n_accepted;
}

static void the_same_question_is_answered_in_fewer_steps_with_the_same_tokens(void **state)
{
    (void)state;
    static struct outcome plain, got;
    for (int hot = 0; hot < 2; hot++) {
        struct mr_engine *without = engine_with(0), *e = engine_with(1 << 20);
        struct mr_engine_stats stats;
        assert_int_equal(answer(without, 0, NULL, (float)hot, &plain), 0);
        assert_int_equal(answer(without, 0, NULL, (float)hot, &plain), 0);
        assert_int_equal(answer(e, 0, NULL, (float)hot, &got), 0);
        assert_true(answer(e, 0, NULL, (float)hot, &got) > N_ANSWER / 2);
        assert_int_equal(got.n_token, plain.n_token);
        assert_memory_equal(got.token, plain.token, (size_t)plain.n_token * sizeof *plain.token);
        assert_memory_equal(got.logprob, plain.logprob, (size_t)plain.n_token * sizeof *plain.logprob);
        assert_int_equal(answer(e, 0, "another tenant", (float)hot, &got),
                         0); /* who guesses nothing from the others' answers */
        answer(without, 20, NULL, (float)hot, &plain);
        answer(e, 20, NULL, (float)hot, &got); /* much the same question: whatever stays of its drafts */
        assert_memory_equal(got.token, plain.token, (size_t)plain.n_token * sizeof *plain.token);
        mr_engine_get_stats(e, &stats);
        assert_true(stats.reference_bytes > 0 && stats.reference_bytes <= 1 << 20);
        mr_engine_free(without);
        mr_engine_free(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(likeness_is_about_the_share_of_common_runs),
        cmocka_unit_test(the_least_recently_used_goes_but_stays_for_who_has_it),
        cmocka_unit_test(the_same_question_is_answered_in_fewer_steps_with_the_same_tokens),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
