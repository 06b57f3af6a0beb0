/* test_lookahead.c: n-grams that the model makes by itself: what windows teach, the same answers with them, and when there are
 * none. */
#include "engine/engine_state.h"
#include "engine/lookahead.h"
#include "unit/engine/engine_fixture.h"

/* A text in which each token's successor is known, and a model that always says it. */
static int32_t after(int32_t token) { return token * 5 % 97 + 1; }

static int draft(void *state, const int32_t *token, int n_token, int32_t *out, int n_max)
{
    struct draft_view view = {.state = state, .token = token, .n_token = n_token};
    return lookahead_drafter.propose(NULL, &view, out, n_max);
}

static void windows_teach_the_model_s_own_words(void **state)
{
    (void)state;
    int32_t token[400] = {7}, window[LOOKAHEAD_WINDOW], pick[LOOKAHEAD_WINDOW], out[DRAFTS_MAX];
    const struct draft_view view = {0};
    struct lookahead *l = lookahead_drafter.start(NULL, &view);
    int n_drafted = 0;
    assert_non_null(l);
    assert_int_equal(draft(l, token, 1, out, DRAFTS_MAX), 0);
    for (int n = 1; n < 300; n++) {
        const int n_draft = draft(l, token, n, out, DRAFTS_MAX);
        for (int i = 0, last = token[n - 1]; i < n_draft; last = out[i++])
            assert_int_equal(out[i], after(last)); /* each token was chosen behind the one before it */
        n_drafted += n_draft;
        lookahead_window(l, token, n, window);
        for (int i = 0; i < LOOKAHEAD_WINDOW; i++)
            pick[i] = after(window[i]);
        lookahead_learn(l, pick);
        token[n] = after(token[n - 1]);
    }
    assert_true(n_drafted > 300);
    lookahead_drafter.end(NULL, l);
}

static void windows_that_bring_nothing_are_given_up(void **state)
{
    (void)state;
    const struct draft_view view = {0};
    struct lookahead *l = lookahead_drafter.start(NULL, &view);
    int n = 0;
    for (int i = 0; i < 2000; i++)
        if (lookahead_pays(l, 0.05)) {
            n++;
            lookahead_observe(l, 0);
        }
    assert_in_range(n, 10, 400);
    for (int i = 0; i < 100; i++)
        lookahead_observe(l, 3);
    assert_true(lookahead_pays(l, 0.05));
    assert_false(lookahead_pays(l, 1));
    lookahead_drafter.end(NULL, l);
}

/* No time passes, so nothing is known of costs. */
static int64_t still_clock(void *context)
{
    (void)context;
    return 1;
}

enum {
    N_ANSWER = 3
};

static struct mr_engine_stats run(struct mr_model *m, enum mr_speculation method, float temperature, struct outcome *out)
{
    static const int32_t prompt[] = {'O', 'n', 'e', ' ', 't', 'w', 'o'};
    struct mr_options o;
    struct mr_request r;
    struct mr_engine *e;
    struct mr_engine_stats stats;
    struct mr_error err = {{0}};
    mr_options_defaults(&o);
    o.n_ctx = 512;
    o.max_running = N_ANSWER;
    o.speculation = (int32_t)method;
    o.clock_us = still_clock;
    mr_request_defaults(&r);
    r.prompt = prompt;
    r.n_prompt = sizeof prompt / sizeof *prompt;
    r.max_tokens = 400;
    r.ignore_eos = true;
    r.sampling.n_logprobs = 0;
    r.sampling.temperature = temperature;
    check(mr_engine_create(&e, m, &o, &err), &err);
    for (int i = 0; i < N_ANSWER; i++) {
        r.sampling.seed = (uint64_t)i;
        out[i] = (struct outcome){.id = submit(e, &r)};
    }
    run_to_end(e, out, N_ANSWER);
    mr_engine_get_stats(e, &stats);
    assert_int_equal(stats.kv_bytes_in_use, 0);
    mr_engine_free(e);
    return stats;
}

static void answers_are_those_of_the_plain_run(void **state)
{
    (void)state;
    static struct outcome plain[N_ANSWER], got[N_ANSWER];
    struct mr_model *m = fixture_model_of(TEST_SOURCE_DIR "/golden/data/tiny_gemma3.gguf", 2);
    for (int hot = 0; hot < 2; hot++) {
        const struct mr_engine_stats slow = run(m, MR_SPECULATION_OFF, (float)hot, plain),
                                     fast = run(m, MR_SPECULATION_LOOKAHEAD, (float)hot, got);
        print_message("temperature %d: %lld steps instead of %lld, %lld rows of drafts and windows, %lld drafts stayed\n", hot,
                      (long long)fast.n_steps, (long long)slow.n_steps, (long long)fast.n_draft_rows,
                      (long long)fast.n_drafts_accepted);
        for (int i = 0; i < N_ANSWER; i++) {
            assert_memory_equal(got[i].token, plain[i].token, sizeof plain[i].token);
            assert_memory_equal(got[i].logprob, plain[i].logprob, sizeof plain[i].logprob);
        }
        assert_true(fast.n_draft_rows > LOOKAHEAD_ROWS);
        if (hot == 0)
            assert_true(fast.n_steps * 3 < slow.n_steps); /* this model repeats itself */
    }
    mr_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows_teach_the_model_s_own_words),
                                       cmocka_unit_test(windows_that_bring_nothing_are_given_up),
                                       cmocka_unit_test(answers_are_those_of_the_plain_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
