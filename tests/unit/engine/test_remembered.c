/* test_remembered.c: prompts that are pinned, and answers that are given again. */
#include "unit/engine/engine_fixture.h"

enum {
    N_CTX = 400
};

static struct mr_model *windowed, *whole;

static int set_up(void **state)
{
    (void)state;
    windowed = fixture_model_of(TEST_SOURCE_DIR "/golden/data/tiny_gemma3.gguf", 2);
    whole = fixture_model(2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_model_close(windowed);
    mr_model_close(whole);
    return 0;
}

static struct mr_options options_of(int pin_tokens, size_t response_bytes)
{
    struct mr_options o;
    mr_options_defaults(&o);
    o.n_ctx = N_CTX;
    o.kv_tokens = N_CTX;
    o.max_running = 2;
    o.prompt_chunk = 64;
    o.pin_tokens = pin_tokens;
    o.response_bytes = response_bytes;
    return o;
}

static struct mr_engine *engine_of(struct mr_model *model, const struct mr_options *o)
{
    struct mr_error err = {{0}};
    struct mr_engine *e;
    check(mr_engine_create(&e, model, o, &err), &err);
    return e;
}

/* n_same tokens that are always the same, then others of text `t`. */
struct text {
    int32_t token[N_CTX];
    struct mr_request request;
};

static struct mr_request text_of(struct text *x, int n, int n_same, int t)
{
    for (int i = 0; i < n; i++)
        x->token[i] = 1 + (i * 37 + (i < n_same ? 0 : t * 11)) % 255;
    mr_request_defaults(&x->request);
    x->request.prompt = x->token;
    x->request.n_prompt = n;
    x->request.max_tokens = 20;
    x->request.ignore_eos = true;
    x->request.sampling.n_logprobs = 2;
    x->request.sampling.seed = 7;
    return x->request;
}

static void ask(struct mr_engine *e, struct outcome *o, const struct mr_request *r)
{
    *o = (struct outcome){.id = submit(e, r)};
    run_to_end(e, o, 1);
    take_events(e, o, 1); /* where there was nothing to run */
}

static struct mr_engine_stats stats_of(const struct mr_engine *e)
{
    struct mr_engine_stats stats;
    mr_engine_get_stats(e, &stats);
    return stats;
}

static struct outcome o, again;
static struct text x;

static void assert_same_answer(const struct outcome *a, const struct outcome *b)
{
    assert_int_equal(a->n_token, b->n_token);
    assert_memory_equal(a->token, b->token, (size_t)a->n_token * sizeof *a->token);
    assert_memory_equal(a->logprob, b->logprob, (size_t)a->n_token * sizeof *a->logprob);
    assert_int_equal(a->n_text, b->n_text);
    assert_memory_equal(a->text, b->text, a->n_text);
    assert_int_equal(a->finish, b->finish);
    assert_int_equal(a->usage.n_prompt, b->usage.n_prompt);
    assert_int_equal(a->usage.n_generated, b->usage.n_generated);
}

static void a_pinned_prompt_stays_however_full_the_cache(void **state)
{
    (void)state;
    struct mr_model *const models[] = {whole, windowed};
    for (int m = 0; m < 2; m++) {
        const struct mr_options op = options_of(200, 0), plain = options_of(0, 0);
        struct mr_engine *e = engine_of(models[m], &op), *alone = engine_of(models[m], &plain);
        struct mr_request r = text_of(&x, 200, 200, 0);
        struct mr_error err = {{0}};
        check(mr_engine_pin(e, r.prompt, r.n_prompt, NULL, &err), &err);
        assert_int_equal(stats_of(e).n_pinned, 1);
        assert_int_equal(stats_of(e).n_pinned_tokens, 192);
        for (int i = 1; i < 12; i++) {
            r = text_of(&x, 370, 0, i); /* takes all that is not pinned */
            ask(e, &o, &r);
            assert_int_equal(o.finish, MR_FINISH_LENGTH);
            r = text_of(&x, 230, 200, i);
            ask(e, &o, &r);
            assert_true(o.usage.n_cached >= 192);
            ask(alone, &again, &r);
            assert_same_answer(&o, &again);
        }
        assert_int_equal(stats_of(e).kv_bytes_in_use > 0, true); /* what is pinned is held */
        mr_engine_free(e);
        mr_engine_free(alone);
    }
}

static void what_cannot_be_pinned_is_refused(void **state)
{
    (void)state;
    struct mr_options op = options_of(100, 0);
    struct mr_engine *e = engine_of(whole, &op);
    struct mr_request r = text_of(&x, 390, 390, 0);
    struct mr_error err = {{0}};
    assert_int_equal(mr_engine_pin(e, r.prompt, 390, NULL, &err), MR_FULL);
    assert_non_null(strstr(err.message, "390 tokens"));
    assert_int_equal(mr_engine_pin(e, r.prompt, 15, NULL, &err), MR_BAD_INPUT);
    assert_int_equal(mr_engine_pin(e, r.prompt, 100, NULL, &err), MR_OK);
    r.n_prompt = 50;
    submit(e, &r);
    assert_int_equal(mr_engine_pin(e, r.prompt, 32, NULL, &err), MR_BAD_INPUT); /* something runs */
    mr_engine_free(e);
    op.prefix_cache = false;
    e = engine_of(whole, &op);
    assert_int_equal(mr_engine_pin(e, r.prompt, 32, NULL, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "prefix cache"));
    mr_engine_free(e);
}

static void a_pinned_prompt_belongs_to_its_tenant(void **state)
{
    (void)state;
    const struct mr_options op = options_of(200, 0);
    struct mr_engine *e = engine_of(whole, &op);
    struct mr_request r = text_of(&x, 200, 200, 0);
    assert_int_equal(mr_engine_pin(e, r.prompt, r.n_prompt, "a", NULL), MR_OK);
    ask(e, &o, &r);
    assert_int_equal(o.usage.n_cached, 0);
    r.cache_salt = "a";
    ask(e, &o, &r);
    assert_int_equal(o.usage.n_cached, 192);
    mr_engine_free(e);
}

static void an_equal_request_is_answered_without_a_step(void **state)
{
    (void)state;
    const struct mr_options op = options_of(0, 1 << 20);
    struct mr_engine *e = engine_of(whole, &op);
    struct mr_request r = text_of(&x, 40, 40, 0);
    ask(e, &o, &r);
    assert_false(o.usage.from_store);
    const int64_t n_steps = stats_of(e).n_steps;
    r.priority = 3; /* who asks, and how urgently, does not matter */
    r.key = 9;
    ask(e, &again, &r);
    assert_true(again.usage.from_store);
    assert_int_equal(stats_of(e).n_steps, n_steps);
    assert_int_equal(stats_of(e).n_from_store, 1);
    assert_same_answer(&o, &again);
    mr_engine_free(e);
}

static void whatever_decides_the_answer_makes_another_request(void **state)
{
    (void)state;
    static const char *const stop[] = {"x"};
    static const int32_t stop_token[] = {5};
    static const struct mr_logit_bias bias[] = {{3, 1}};
    const struct mr_options op = options_of(0, 1 << 20);
    struct mr_engine *e = engine_of(whole, &op);
    const struct mr_request base = text_of(&x, 40, 40, 0);
    struct mr_request r[16];
    for (int i = 0; i < 16; i++)
        r[i] = base;
    r[1].sampling.seed = 8;
    r[2].sampling.temperature = 0;
    r[3].max_tokens = 19;
    r[4].cache_salt = "a";
    r[5].stop = stop;
    r[5].n_stop = 1;
    r[6].stop_token = stop_token;
    r[6].n_stop_token = 1;
    r[7].bias = bias;
    r[7].n_bias = 1;
    r[8].min_tokens = 2;
    r[9].ignore_eos = false;
    r[10].show_special = true;
    r[11].n_prompt = 39;
    r[12].sampling.n_logprobs = 1;
    r[13].ignore_eos = false;
    r[13].constraint = MR_CONSTRAINT_REGEX;
    r[13].constraint_text = "[a-z]{4}";
    r[14].bad_word = stop;
    r[14].n_bad_word = 1;
    r[15].n = 2;
    for (int i = 0; i < 32; i++) {
        static struct outcome two[2];
        two[0] = two[1] = (struct outcome){.id = submit(e, &r[i % 16])};
        two[1].sample = 1;
        run_to_end(e, two, 2);
        take_events(e, two, 2);
        assert_int_equal(two[0].usage.from_store, i >= 16);
    }
    mr_engine_free(e);
}

static void each_of_several_answers_is_given_again(void **state)
{
    (void)state;
    const struct mr_options op = options_of(0, 1 << 20);
    struct mr_engine *e = engine_of(whole, &op);
    static struct outcome first[3], second[3];
    struct mr_request r = text_of(&x, 40, 40, 0);
    r.n = 3;
    uint64_t id = submit(e, &r);
    for (int i = 0; i < 3; i++)
        first[i] = (struct outcome){.id = id, .sample = i};
    run_to_end(e, first, 3);
    id = submit(e, &r);
    for (int i = 0; i < 3; i++)
        second[i] = (struct outcome){.id = id, .sample = i};
    assert_true(mr_engine_is_idle(e));
    take_events(e, second, 3);
    for (int i = 0; i < 3; i++)
        assert_same_answer(&first[i], &second[i]);
    mr_engine_free(e);
}

static void what_did_not_end_by_itself_is_not_kept(void **state)
{
    (void)state;
    const struct mr_options op = options_of(0, 1 << 20);
    struct mr_engine *e = engine_of(whole, &op);
    struct mr_request r = text_of(&x, 40, 40, 0);
    o = (struct outcome){.id = submit(e, &r)};
    for (int i = 0; i < 4; i++)
        mr_engine_step(e);
    assert_int_equal(mr_engine_cancel(e, o.id), MR_OK);
    take_events(e, &o, 1);
    assert_int_equal(o.finish, MR_FINISH_CANCELLED);
    ask(e, &o, &r);
    assert_false(o.usage.from_store);
    assert_int_equal(o.finish, MR_FINISH_LENGTH);
    mr_engine_free(e);
}

static void the_store_stays_within_its_bytes(void **state)
{
    (void)state;
    const size_t bound = 20000;
    const struct mr_options op = options_of(0, bound);
    struct mr_engine *e = engine_of(whole, &op);
    int n_from_store = 0;
    for (int i = 0; i < 40; i++) {
        struct mr_request r = text_of(&x, 30, 0, i % 8 < 6 ? 0 : i); /* one that is asked again and again stays */
        ask(e, &o, &r);
        n_from_store += o.usage.from_store;
        assert_true(stats_of(e).store_bytes <= bound);
    }
    assert_int_equal(n_from_store, 29);
    mr_engine_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pinned_prompt_stays_however_full_the_cache),
        cmocka_unit_test(what_cannot_be_pinned_is_refused),
        cmocka_unit_test(a_pinned_prompt_belongs_to_its_tenant),
        cmocka_unit_test(an_equal_request_is_answered_without_a_step),
        cmocka_unit_test(whatever_decides_the_answer_makes_another_request),
        cmocka_unit_test(each_of_several_answers_is_given_again),
        cmocka_unit_test(what_did_not_end_by_itself_is_not_kept),
        cmocka_unit_test(the_store_stays_within_its_bytes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
