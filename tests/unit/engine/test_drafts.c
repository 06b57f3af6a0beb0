/* test_drafts.c: guessed tokens in a step: what stays, what it costs, and when no more are asked for. */
#include "engine/engine_state.h"
#include "unit/engine/engine_fixture.h"

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

/* Drafts from a script: the tokens of an answer, or the same one again and again. */
struct script {
    const struct outcome *answer;
    int32_t always;
    int n_asked;
};

static int propose(void *context, struct draft_view *view, int32_t *out, int n_max)
{
    struct script *s = context;
    int n = 0;
    s->n_asked++;
    for (int at = view->n_token - view->n_prompt; n < n_max; n++, at++)
        out[n] = s->answer != NULL ? s->answer->token[at] : s->always;
    return n;
}

static struct mr_request request(int max_tokens)
{
    static const int32_t prompt[] = {'O', 'n', 'e', ' ', 't', 'w', 'o'};
    struct mr_request r;
    mr_request_defaults(&r);
    r.prompt = prompt;
    r.n_prompt = sizeof prompt / sizeof *prompt;
    r.max_tokens = max_tokens;
    r.ignore_eos = true;
    r.sampling.n_logprobs = 0;
    r.sampling.temperature = 1;
    return r;
}

/* No time passes, so nothing is known of costs. */
static int64_t still_clock(void *context)
{
    (void)context;
    return 0;
}

static struct mr_engine_stats run(const struct mr_request *r, const struct drafter *d, bool forced, struct outcome *o)
{
    struct mr_options options;
    struct mr_engine_stats stats;
    struct mr_engine *e;
    struct mr_error err = {{0}};
    mr_options_defaults(&options);
    options.n_ctx = 256;
    options.speculation = d == NULL && !forced ? MR_SPECULATION_OFF : MR_SPECULATION_AUTO;
    options.forced_drafts = forced;
    options.clock_us = still_clock;
    check(mr_engine_create(&e, model, &options, &err), &err);
    if (d != NULL)
        engine_set_drafter(e, d);
    *o = (struct outcome){.id = submit(e, r)};
    run_to_end(e, o, 1);
    mr_engine_get_stats(e, &stats);
    mr_engine_free(e);
    return stats;
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
    assert_int_equal(a->n_token, b->n_token);
    assert_memory_equal(a->token, b->token, (size_t)a->n_token * sizeof *a->token);
    assert_memory_equal(a->logprob, b->logprob, (size_t)a->n_token * sizeof *a->logprob);
    assert_int_equal(a->n_text, b->n_text);
    assert_memory_equal(a->text, b->text, a->n_text);
    assert_int_equal(a->finish, b->finish);
}

static void right_drafts_save_steps(void **state)
{
    (void)state;
    static struct outcome plain, got;
    const struct mr_request r = request(80);
    run(&r, NULL, false, &plain);
    struct script script = {.answer = &plain};
    const struct drafter d = {.propose = propose, .context = &script, .always = true};
    const struct mr_engine_stats stats = run(&r, &d, false, &got);
    assert_same(&got, &plain);
    assert_int_equal(stats.n_steps, 6); /* the prompt with the first token, 4 steps of 17, the rest */
    assert_int_equal(got.usage.n_accepted, got.usage.n_drafted);
    assert_int_equal(got.usage.n_accepted, 80 - stats.n_steps);
    assert_int_equal(stats.n_drafts_accepted, stats.n_draft_rows);
}

static void wrong_drafts_change_nothing(void **state)
{
    (void)state;
    static struct outcome plain, got;
    const struct mr_request r = request(80);
    run(&r, NULL, false, &plain);
    for (int32_t token = 0; token < 3; token++) {
        struct script script = {.always = token};
        const struct drafter d = {.propose = propose, .context = &script, .always = true};
        run(&r, &d, false, &got);
        assert_same(&got, &plain);
        assert_true(got.usage.n_drafted > 500);
        assert_true(got.usage.n_accepted < 10);
    }
}

static void whoever_is_wrong_is_hardly_asked(void **state)
{
    (void)state;
    struct draft_record r;
    draft_record_init(&r);
    int n_drafted = 0;
    for (int i = 0; i < 1000; i++) {
        const int n = draft_record_depth(&r, 0.3);
        draft_record_observe(&r, n, 0);
        n_drafted += n;
    }
    assert_in_range(n_drafted, 10, 60);
}

static void whoever_is_right_is_asked_for_more(void **state)
{
    (void)state;
    struct draft_record r;
    draft_record_init(&r);
    assert_in_range(draft_record_depth(&r, 0.3), 2, 8);
    for (int i = 0; i < 5; i++)
        draft_record_observe(&r, 5, 5);
    assert_int_equal(draft_record_depth(&r, 0.3), DRAFTS_MAX);
    draft_record_init(&r);
    assert_int_equal(draft_record_depth(&r, 1.0), 1); /* the cost may be that of another time */
    draft_record_observe(&r, 1, 0);
    assert_int_equal(draft_record_depth(&r, 1.0), 0);
}

static void forced_text_is_drafted(void **state)
{
    (void)state;
    static struct outcome plain, got;
    struct mr_request r = request(120);
    r.ignore_eos = false;
    r.constraint = MR_CONSTRAINT_REGEX;
    r.constraint_text = "[ab]: the rest of this line is known ahead, [xyz] is not\\. So it goes on and on\\.[0-9]";
    const struct mr_engine_stats slow = run(&r, NULL, false, &plain), fast = run(&r, NULL, true, &got);
    assert_same(&got, &plain);
    assert_int_equal(got.finish, MR_FINISH_STOP);
    assert_int_equal(got.usage.n_accepted, got.usage.n_drafted); /* this vocabulary has one way to write a text */
    assert_true(got.usage.n_accepted > 60);
    assert_true(fast.n_steps * 3 < slow.n_steps);
    assert_int_equal(plain.usage.n_drafted, 0);
}

static void drafts_stay_within_max_tokens_and_stop_strings(void **state)
{
    (void)state;
    static struct outcome plain, got;
    struct mr_request r = request(40);
    run(&r, NULL, false, &plain);
    struct script script = {.answer = &plain};
    const struct drafter d = {.propose = propose, .context = &script, .always = true};
    static struct outcome cut;
    for (r.max_tokens = 1; r.max_tokens < 40; r.max_tokens++) {
        run(&r, NULL, false, &cut);
        run(&r, &d, false, &got);
        assert_same(&got, &cut);
    }
    char stop[3] = {0};
    memcpy(stop, plain.text + plain.n_text / 2, 2);
    const char *const stops[] = {stop};
    r.stop = stops;
    r.n_stop = 1;
    run(&r, NULL, false, &cut);
    run(&r, &d, false, &got);
    assert_same(&got, &cut);
    assert_int_equal(got.finish, MR_FINISH_STOP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_drafts_save_steps),          cmocka_unit_test(wrong_drafts_change_nothing),
        cmocka_unit_test(whoever_is_wrong_is_hardly_asked), cmocka_unit_test(whoever_is_right_is_asked_for_more),
        cmocka_unit_test(forced_text_is_drafted),           cmocka_unit_test(drafts_stay_within_max_tokens_and_stop_strings),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
