/* test_prefix_cache.c: prompts that begin alike are computed once, and the answers do not show it. */
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

static struct mr_engine *engine_of(struct mr_model *model, bool prefix_cache, int max_running, int kv_tokens)
{
    struct mr_options o;
    struct mr_error err = {{0}};
    struct mr_engine *e;
    mr_options_defaults(&o);
    o.n_ctx = N_CTX;
    o.prefix_cache = prefix_cache;
    o.max_running = max_running;
    o.kv_tokens = kv_tokens;
    o.prompt_chunk = 64;
    check(mr_engine_create(&e, model, &o, &err), &err);
    return e;
}

/* n_same tokens that are always the same, then others of text `t`. */
struct text {
    int32_t token[N_CTX];
    struct mr_request request;
};

static const struct mr_request *text_of(struct text *x, int n, int n_same, int t)
{
    for (int i = 0; i < n; i++)
        x->token[i] = 1 + (i * 37 + (i < n_same ? 0 : t * 11)) % 255;
    mr_request_defaults(&x->request);
    x->request.prompt = x->token;
    x->request.n_prompt = n;
    x->request.max_tokens = 20;
    x->request.ignore_eos = true;
    x->request.sampling.n_logprobs = 0;
    x->request.sampling.seed = 7;
    return &x->request;
}

static void ask(struct mr_engine *e, struct outcome *o, const struct mr_request *r)
{
    *o = (struct outcome){.id = submit(e, r)};
    run_to_end(e, o, 1);
}

static void assert_as_alone(struct mr_model *model, const struct outcome *got, const struct mr_request *r)
{
    static struct outcome want;
    struct mr_engine *e = engine_of(model, false, 1, 0);
    ask(e, &want, r);
    assert_int_equal(want.usage.cache_miss, MR_CACHE_OFF);
    assert_int_equal(got->n_token, want.n_token);
    assert_memory_equal(got->token, want.token, (size_t)want.n_token * sizeof *want.token);
    assert_memory_equal(got->logprob, want.logprob, (size_t)want.n_token * sizeof *want.logprob);
    mr_engine_free(e);
}

static int64_t rows_of(const struct mr_engine *e)
{
    struct mr_engine_stats stats;
    mr_engine_get_stats(e, &stats);
    return stats.n_prompt_rows;
}

static struct outcome o;
static struct text x;

static void the_second_time_only_the_last_rows_are_computed(void **state)
{
    (void)state;
    struct mr_engine *e = engine_of(whole, true, 1, 0);
    const struct mr_request *r = text_of(&x, 321, 321, 0);
    ask(e, &o, r);
    assert_int_equal(o.usage.n_cached, 0);
    assert_int_equal(o.usage.cache_miss, MR_CACHE_DIFFERENT);
    assert_int_equal(rows_of(e), 321);
    for (int i = 0; i < 3; i++) {
        ask(e, &o, r);
        assert_int_equal(o.usage.n_prompt, 321);
        assert_int_equal(o.usage.n_cached, 320);
        assert_int_equal(o.usage.cache_miss, MR_CACHE_HIT);
        assert_as_alone(whole, &o, r);
    }
    assert_int_equal(rows_of(e), 321 + 3);
    mr_engine_free(e);
}

static void a_miss_says_why(void **state)
{
    (void)state;
    struct mr_engine *e = engine_of(whole, true, 1, N_CTX);
    ask(e, &o, text_of(&x, 200, 200, 0));
    ask(e, &o, text_of(&x, 200, 100, 1)); /* another text from token 100 on */
    assert_int_equal(o.usage.n_cached, 96);
    assert_int_equal(o.usage.cache_miss, MR_CACHE_DIFFERENT);
    ask(e, &o, text_of(&x, 350, 0, 2)); /* needs nearly the whole cache */
    ask(e, &o, text_of(&x, 200, 200, 0));
    assert_true(o.usage.n_cached < 192);
    assert_int_equal(o.usage.cache_miss, MR_CACHE_EVICTED);
    mr_engine_free(e);
}

static void tenants_with_other_salts_share_nothing(void **state)
{
    (void)state;
    struct mr_engine *e = engine_of(whole, true, 4, 0);
    struct mr_request r = *text_of(&x, 200, 200, 0);
    static const char *const salts[] = {NULL, "a", "b", "a", ""};
    static const int cached[] = {0, 0, 0, 192, 192};
    for (int i = 0; i < 5; i++) {
        r.cache_salt = salts[i];
        ask(e, &o, &r);
        assert_int_equal(o.usage.n_cached, cached[i]);
    }
    mr_engine_free(e);
}

static void the_next_turn_of_a_chat_finds_prompt_and_answer(void **state)
{
    (void)state;
    struct mr_engine *e = engine_of(whole, true, 1, 0);
    ask(e, &o, text_of(&x, 100, 100, 0));
    memcpy(x.token + 100, o.token, (size_t)o.n_token * sizeof *o.token);
    struct mr_request r = x.request;
    for (int i = 120; i < 140; i++)
        x.token[i] = i;
    r.n_prompt = 140;
    ask(e, &o, &r);
    assert_int_equal(o.usage.n_cached, 112); /* the last token of an answer is never computed */
    assert_as_alone(whole, &o, &r);
    mr_engine_free(e);
}

static void a_window_is_reused_only_where_its_rows_are_there(void **state)
{
    (void)state;
    struct mr_engine *e = engine_of(windowed, true, 1, 0);
    static const struct {
        int n, n_same, t;
    } asked[] = {{250, 240, 1}, {250, 240, 2}, {90, 80, 3}, {250, 240, 1},
                 {31, 31, 0},   {32, 32, 0},   {33, 33, 0}, {250, 240, 1}};
    int found = 0;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        const struct mr_request *r = text_of(&x, asked[i].n, asked[i].n_same, asked[i].t);
        ask(e, &o, r);
        assert_as_alone(windowed, &o, r);
        found += o.usage.n_cached > 0;
    }
    assert_true(o.usage.n_cached >= 240); /* an exact repeat hits */
    assert_true(found >= 4);
    mr_engine_free(e);
}

static void cached_prefixes_leave_room_for_those_that_run(void **state)
{
    (void)state;
    struct mr_model *const models[] = {whole, windowed};
    for (int m = 0; m < 2; m++) {
        struct mr_engine *e = engine_of(models[m], true, 2, N_CTX);
        for (int i = 0; i < 30; i++) {
            ask(e, &o, text_of(&x, 100 + i * 9, 90, i));
            assert_int_equal(o.finish, MR_FINISH_LENGTH);
            assert_int_equal(o.usage.n_preempted, 0);
            struct mr_engine_stats stats;
            mr_engine_get_stats(e, &stats);
            assert_int_equal(stats.kv_bytes_in_use, 0);
            assert_true(stats.kv_bytes_cached > 0 && stats.kv_bytes_cached <= stats.kv_bytes);
        }
        mr_engine_free(e);
    }
}

static void requests_that_run_together_hold_their_prompt_once(void **state)
{
    (void)state;
    struct mr_engine *e = engine_of(whole, true, 8, 0);
    static struct outcome many[8];
    memset(many, 0, sizeof many);
    const struct mr_request *r = text_of(&x, 321, 321, 0);
    ask(e, &many[0], r);
    for (int i = 0; i < 8; i++)
        many[i] = (struct outcome){.id = submit(e, r)};
    mr_engine_step(e);
    struct mr_engine_stats stats;
    mr_engine_get_stats(e, &stats);
    assert_int_equal(stats.n_running, 8);
    const size_t block = stats.kv_bytes * 16 / ((size_t)N_CTX * 8);
    assert_in_range(stats.kv_bytes_in_use / block, 20, 20 + 8); /* not 8 times 20 */
    run_to_end(e, many, 8);
    for (int i = 1; i < 8; i++)
        assert_memory_equal(many[i].token, many[0].token, 20 * sizeof(int32_t));
    mr_engine_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_time_only_the_last_rows_are_computed),
        cmocka_unit_test(a_miss_says_why),
        cmocka_unit_test(tenants_with_other_salts_share_nothing),
        cmocka_unit_test(the_next_turn_of_a_chat_finds_prompt_and_answer),
        cmocka_unit_test(a_window_is_reused_only_where_its_rows_are_there),
        cmocka_unit_test(cached_prefixes_leave_room_for_those_that_run),
        cmocka_unit_test(requests_that_run_together_hold_their_prompt_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
