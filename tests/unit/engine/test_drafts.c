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

static struct mr_engine_stats run_with(const struct mr_request *r, const struct drafter *d, enum mr_speculation method,
                                       bool forced, struct outcome *o)
{
    struct mr_options options;
    struct mr_engine_stats stats;
    struct mr_engine *e;
    struct mr_error err = {{0}};
    mr_options_defaults(&options);
    options.n_ctx = 256;
    options.speculation = (int32_t)method;
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

static struct mr_engine_stats run(const struct mr_request *r, const struct drafter *d, bool forced, struct outcome *o)
{
    return run_with(r, d, d == NULL && !forced ? MR_SPECULATION_OFF : MR_SPECULATION_AUTO, forced, o);
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
    draft_record_init(&r, draft_rate_hopeful, 0);
    int n_drafted = 0;
    for (int i = 0; i < 1000; i++) {
        const int n = draft_record_depth(&r, 0.3, 8);
        draft_record_observe(&r, n, 0, 0.3);
        n_drafted += n;
    }
    assert_in_range(n_drafted, 10, 60);
}

static void whoever_is_right_is_asked_for_more(void **state)
{
    (void)state;
    struct draft_record r;
    draft_record_init(&r, draft_rate_hopeful, 0);
    assert_in_range(draft_record_depth(&r, 0.3, 8), 2, 8);
    for (int i = 0; i < 5; i++)
        draft_record_observe(&r, 5, 5, 0.3);
    assert_int_equal(draft_record_depth(&r, 0.3, 8), DRAFTS_MAX);
    draft_record_init(&r, draft_rate_hopeful, 0);
    assert_int_equal(draft_record_depth(&r, 1.0, 8), 1); /* the cost may be that of another time */
    draft_record_observe(&r, 1, 0, 1.0);
    assert_int_equal(draft_record_depth(&r, 1.0, 8), 0);
}

static void an_empty_purse_stops_all_but_who_paid_for_himself(void **state)
{
    (void)state;
    struct draft_purse purse;
    struct draft_record r;
    draft_purse_init(&purse);
    draft_record_init(&r, draft_rate_hopeful, 0);
    int n = 0;
    for (; purse.tokens > 0; n++)
        draft_purse_pay(&purse, 1, 0.5);
    assert_in_range(n, 10, 20);
    assert_int_equal(draft_record_depth(&r, 0.3, purse.tokens), 0);
    draft_record_observe(&r, 4, 4, 0.3);
    assert_true(draft_record_depth(&r, 0.3, 0) > 0);
    draft_record_observe(&r, 20, 0, 0.3); /* what was brought is lost again */
    assert_int_equal(draft_record_depth(&r, 0.3, 0), 0);
    draft_purse_earn(&purse, 1000);
    assert_true(purse.tokens > 0);
    draft_record_init(&r, 0.9, 0);
    assert_int_equal(draft_record_depth(&r, 0.3, 0.7), 2); /* what it covers */
    assert_int_equal(draft_record_depth(&r, 0.3, 0.1), 1);
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

/* Text that a pattern dictates, which only the automaton is to guess. */
static void what_repeats_is_drafted(void **state)
{
    (void)state;
    static struct outcome plain, got;
    struct mr_request r = request(200);
    r.ignore_eos = false;
    r.constraint = MR_CONSTRAINT_REGEX;
    r.constraint_text = "(one two three ){12}";
    const struct mr_engine_stats slow = run_with(&r, NULL, MR_SPECULATION_OFF, false, &plain);
    const struct mr_engine_stats fast = run_with(&r, NULL, MR_SPECULATION_NGRAM, false, &got);
    assert_same(&got, &plain);
    assert_int_equal(plain.n_token, 168 + 1);
    assert_true(fast.n_steps * 4 < slow.n_steps);
    assert_int_equal(got.usage.n_drafted, fast.n_draft_rows);
}

/* The prediction is the answer with every 12th token another one, some left out and some put in. */
static void a_prediction_is_drafted_and_found_again(void **state)
{
    (void)state;
    static struct outcome plain, got;
    static int32_t prediction[512];
    struct mr_request r = request(200);
    const struct mr_engine_stats slow = run_with(&r, NULL, MR_SPECULATION_OFF, false, &plain);
    for (int i = 0; i < plain.n_token; i++) {
        prediction[r.n_prediction] = i % 36 == 11 ? 1 : plain.token[i];
        r.n_prediction += i % 36 != 23;
        if (i % 36 == 35)
            prediction[r.n_prediction++] = 2;
    }
    r.prediction = prediction;
    const struct mr_engine_stats fast = run_with(&r, NULL, MR_SPECULATION_REFERENCE, false, &got);
    assert_same(&got, &plain);
    assert_true(fast.n_steps * 3 < slow.n_steps);
    assert_true(got.usage.n_accepted * 3 > got.usage.n_drafted * 2);
}

/* Each answer gets half of what is left, down to a size that is of no use; in the end all is given back. */
static void memory_of_indices_is_counted_and_bounded(void **state)
{
    enum {
        N = 64
    };
    (void)state;
    struct lookup_memory memory = {.limit = 1 << 20};
    const struct drafter d = ngram_drafter(&memory);
    int32_t token[400], draft[4];
    for (int i = 0; i < 400; i++)
        token[i] = i % 7;
    struct draft_view view = {.token = token, .n_token = 400, .n_prompt = 400, .n_room = 1 << 20};
    void *held[N];
    int n_held = 0;
    for (int i = 0; i < N; i++) {
        held[i] = d.start(d.context, &view);
        n_held += held[i] != NULL;
        view.state = held[i];
        assert_int_equal(d.propose(d.context, &view, draft, 4), held[i] != NULL ? 4 : 0);
        assert_true(memory.bytes <= memory.limit);
        assert_true(held[i] == NULL || draft[0] == 400 % 7);
    }
    assert_in_range(n_held, 4, N - 1);
    assert_true(memory.bytes > memory.limit / 2);
    for (int i = 0; i < N; i++)
        if (held[i] != NULL)
            d.end(d.context, held[i]);
    assert_int_equal(memory.bytes, 0);
}

static void a_prediction_longer_than_the_context_is_cut(void **state)
{
    (void)state;
    static struct outcome plain, got;
    static int32_t prediction[100000];
    struct mr_request r = request(100);
    run_with(&r, NULL, MR_SPECULATION_OFF, false, &plain);
    memcpy(prediction, plain.token, (size_t)plain.n_token * sizeof *prediction);
    r.prediction = prediction;
    r.n_prediction = sizeof prediction / sizeof *prediction;
    run_with(&r, NULL, MR_SPECULATION_AUTO, false, &got);
    assert_same(&got, &plain);
    assert_true(got.usage.n_accepted > 80);
}

/* Bytes at random: short matches abound, none of them says anything. By the cost of a row that holds until it is measured. */
static void where_nothing_can_be_guessed_little_is_tried(void **state)
{
    (void)state;
    static struct outcome plain, got;
    struct mr_request r = request(240);
    struct mr_options options;
    struct mr_engine *e;
    struct mr_engine_stats stats;
    struct mr_error err = {{0}};
    r.sampling.temperature = 2;
    mr_options_defaults(&options);
    options.n_ctx = 256;
    options.clock_us = still_clock;
    check(mr_engine_create(&e, model, &options, &err), &err);
    for (r.sampling.seed = 0; r.sampling.seed < 20; r.sampling.seed++) {
        run_with(&r, NULL, MR_SPECULATION_OFF, false, &plain);
        got = (struct outcome){.id = submit(e, &r)};
        run_to_end(e, &got, 1);
        assert_same(&got, &plain);
    }
    mr_engine_get_stats(e, &stats);
    mr_engine_free(e);
    const double lost = 0.3 * (double)stats.n_draft_rows - (double)stats.n_drafts_accepted;
    print_message("%lld drafts, %lld accepted\n", (long long)stats.n_draft_rows, (long long)stats.n_drafts_accepted);
    assert_true(lost < 0.02 * 20 * 240);
}

static void methods_without_a_source_are_refused_by_name(void **state)
{
    (void)state;
    struct mr_options options;
    struct mr_engine *e;
    struct mr_error err = {{0}};
    uint64_t id;
    struct mr_request r = request(1);
    mr_options_defaults(&options);
    options.n_ctx = 256;
    options.speculation = MR_SPECULATION_HEADS;
    assert_int_equal(mr_engine_create(&e, model, &options, &err), MR_NO_SUPPORT);
    assert_non_null(strstr(err.message, "heads"));
    options.speculation = MR_SPECULATION_NONE;
    check(mr_engine_create(&e, model, &options, &err), &err);
    r.speculation = MR_SPECULATION_HEADS;
    assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_NO_SUPPORT);
    assert_non_null(strstr(err.message, "heads"));
    r.speculation = MR_SPECULATION_AUTO;
    r.prediction = (const int32_t[]){1, -1};
    r.n_prediction = 2;
    assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "prediction[1]"));
    mr_engine_free(e);
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
        cmocka_unit_test(right_drafts_save_steps),
        cmocka_unit_test(wrong_drafts_change_nothing),
        cmocka_unit_test(whoever_is_wrong_is_hardly_asked),
        cmocka_unit_test(whoever_is_right_is_asked_for_more),
        cmocka_unit_test(an_empty_purse_stops_all_but_who_paid_for_himself),
        cmocka_unit_test(what_repeats_is_drafted),
        cmocka_unit_test(a_prediction_is_drafted_and_found_again),
        cmocka_unit_test(memory_of_indices_is_counted_and_bounded),
        cmocka_unit_test(a_prediction_longer_than_the_context_is_cut),
        cmocka_unit_test(where_nothing_can_be_guessed_little_is_tried),
        cmocka_unit_test(methods_without_a_source_are_refused_by_name),
        cmocka_unit_test(forced_text_is_drafted),
        cmocka_unit_test(drafts_stay_within_max_tokens_and_stop_strings),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
