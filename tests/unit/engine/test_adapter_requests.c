/* test_adapter_requests.c: requests that name adapters: loading and unloading beside them, the prefix cache, what is refused.
 */
#include "unit/engine/engine_fixture.h"
#include "unit/model/adapter_fixture.h"

#define SOURCE TEST_SOURCE_DIR "/golden/data/tiny_llama3_q8_0.gguf"

static int32_t load(struct mr_model *m, int seed)
{
    char path[] = "/tmp/millrace-adapter-XXXXXX";
    struct mr_error err = {{0}};
    int32_t id;
    close(mkstemp(path));
    adapter_write(path, SOURCE, &(struct adapter_recipe){.rank = 4, .seed = seed});
    check(mr_adapter_load(m, path, &id, &err), &err);
    unlink(path);
    return id;
}

static struct mr_request request(const struct mr_adapter_use *use, int n)
{
    static int32_t prompt[40];
    struct mr_request r;
    for (int i = 0; i < 40; i++)
        prompt[i] = 1 + i * 37 % 255;
    mr_request_defaults(&r);
    r.prompt = prompt;
    r.n_prompt = 40;
    r.max_tokens = 12;
    r.ignore_eos = true;
    r.sampling.n_logprobs = 0;
    r.adapter = use;
    r.n_adapter = n;
    return r;
}

static void ask(struct mr_engine *e, struct outcome *o, const struct mr_request *r)
{
    *o = (struct outcome){.id = submit(e, r)};
    run_to_end(e, o, 1);
    assert_int_equal(o->finish, MR_FINISH_LENGTH);
}

static bool same(const struct outcome *a, const struct outcome *b)
{
    return memcmp(a->logprob, b->logprob, sizeof a->logprob) == 0;
}

static void the_prefix_cache_keeps_adapters_apart(void **state)
{
    (void)state;
    static struct outcome want[5], got[5];
    struct mr_model *m = fixture_model(1);
    struct mr_engine *e = fixture_engine(m, 8, 512, 128);
    const int32_t a = load(m, 1), b = load(m, 2);
    const struct mr_adapter_use uses[5][2] = {{{0}}, {{a, 1}}, {{a, 2}}, {{a, 1}, {b, 1}}, {{b, 1}, {a, 1}}};
    static const int n[5] = {0, 1, 1, 2, 2};
    for (int i = 0; i < 5; i++) {
        const struct mr_request r = request(uses[i], n[i]);
        ask(e, &want[i], &r);
        assert_int_equal(want[i].usage.n_cached, 0);
        for (int k = 0; k < i; k++)
            assert_false(same(&want[i], &want[k]));
    }
    for (int i = 0; i < 5; i++) {
        const struct mr_request r = request(uses[i], n[i]);
        ask(e, &got[i], &r);
        assert_int_equal(got[i].usage.n_cached, 32);
        assert_true(same(&got[i], &want[i]));
    }
    mr_engine_free(e);
    mr_model_close(m);
}

/* The same file loaded again has another id and the same blocks. */
static void the_content_of_an_adapter_is_its_key(void **state)
{
    (void)state;
    static struct outcome first, second;
    struct mr_model *m = fixture_model(1);
    struct mr_engine *e = fixture_engine(m, 1, 512, 128);
    struct mr_adapter_use use = {load(m, 1), 1};
    struct mr_request r = request(&use, 1);
    ask(e, &first, &r);
    assert_int_equal(mr_adapter_unload(m, use.adapter, NULL), MR_OK);
    const int32_t again = load(m, 1);
    assert_int_not_equal(again, use.adapter);
    use.adapter = again;
    ask(e, &second, &r);
    assert_int_equal(second.usage.n_cached, 32);
    assert_true(same(&first, &second));
    mr_engine_free(e);
    mr_model_close(m);
}

static void an_adapter_in_use_stays_until_its_requests_end(void **state)
{
    (void)state;
    static struct outcome want, got[2];
    struct mr_model *m = fixture_model(1);
    struct mr_engine *e = fixture_engine(m, 1, 512, 128);
    struct mr_error err = {{0}};
    struct mr_model_info info;
    struct mr_adapter_info adapter;
    const struct mr_adapter_use use = {load(m, 1), 1};
    const struct mr_request r = request(&use, 1);
    ask(e, &want, &r);
    for (int i = 0; i < 2; i++) /* one runs, one waits */
        got[i] = (struct outcome){.id = submit(e, &r)};
    for (int i = 0; i < 3; i++)
        mr_engine_step(e);
    mr_model_info(m, &info);
    const size_t loaded = info.adapter_bytes;
    check(mr_adapter_info(m, use.adapter, &adapter, &err), &err);
    assert_int_equal(adapter.n_requests, 2);
    assert_int_equal(adapter.rank, 4);
    assert_true(adapter.bytes > 0 && adapter.bytes <= loaded);
    check(mr_adapter_unload(m, use.adapter, &err), &err);
    mr_model_info(m, &info);
    assert_int_equal(info.adapter_bytes, loaded);
    uint64_t id;
    assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_BAD_INPUT);
    assert_string_equal(err.message, "adapter[0] is 1, which is not loaded");
    assert_int_equal(mr_adapter_unload(m, use.adapter, &err), MR_NOT_FOUND);
    run_to_end(e, got, 2);
    for (int i = 0; i < 2; i++)
        assert_true(same(&got[i], &want));
    mr_model_info(m, &info);
    assert_int_equal(info.adapter_bytes, loaded - adapter.bytes);
    mr_engine_free(e);
    mr_model_close(m);
}

/* Whatever ends a request lets its adapter go. */
static void every_end_lets_an_adapter_go(void **state)
{
    (void)state;
    struct mr_model *m = fixture_model(1);
    struct mr_engine *e = fixture_engine(m, 1, 512, 128);
    struct mr_adapter_info info;
    struct mr_event event;
    const struct mr_adapter_use use = {load(m, 1), 1};
    struct mr_request r = request(&use, 1);
    r.n = 2;
    const uint64_t running = submit(e, &r), waiting = submit(e, &r);
    mr_engine_step(e);
    assert_int_equal(mr_engine_cancel(e, waiting), MR_OK);
    assert_int_equal(mr_engine_cancel(e, running), MR_OK);
    while (mr_engine_next_event(e, &event))
        continue;
    assert_int_equal(mr_adapter_info(m, use.adapter, &info, NULL), MR_OK);
    assert_int_equal(info.n_requests, 0);
    submit(e, &r);
    submit(e, &r);
    mr_engine_step(e);
    mr_engine_free(e);
    assert_int_equal(mr_adapter_info(m, use.adapter, &info, NULL), MR_OK);
    assert_int_equal(info.n_requests, 0);
    mr_model_close(m);
}

static void what_is_out_of_range_is_refused(void **state)
{
    (void)state;
    struct mr_model *m = fixture_model(1);
    struct mr_engine *e = fixture_engine(m, 1, 512, 128);
    const int32_t a = load(m, 1);
    const struct mr_adapter_use many[MR_ADAPTERS_MAX + 1] = {{a, 1}}, wide = {a, 101}, nan = {a, NAN}, absent = {99, 1};
    const struct {
        struct mr_request request;
        const char *message;
    } cases[] = {
        {request(many, MR_ADAPTERS_MAX + 1), "adapter has 9 entries, at most 8 are possible"},
        {request(many, -1), "adapter has -1 entries, at most 8 are possible"},
        {request(&wide, 1), "adapter[0]: scale is 101, must be from -100 to 100"},
        {request(&nan, 1), "adapter[0]: scale is nan, must be from -100 to 100"},
        {request(&absent, 1), "adapter[0] is 99, which is not loaded"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_error err = {{0}};
        uint64_t id;
        assert_int_equal(mr_engine_submit(e, &cases[i].request, &id, &err), MR_BAD_INPUT);
        assert_string_equal(err.message, cases[i].message);
    }
    struct mr_error err = {{0}};
    int32_t id;
    assert_int_equal(mr_adapter_load(m, SOURCE, &id, &err), MR_NOT_FOUND);
    assert_int_equal(id, 0);
    assert_non_null(strstr(err.message, "tiny_llama3_q8_0.gguf"));
    assert_non_null(strstr(err.message, "general.type"));
    mr_engine_free(e);
    mr_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_prefix_cache_keeps_adapters_apart),
        cmocka_unit_test(the_content_of_an_adapter_is_its_key),
        cmocka_unit_test(an_adapter_in_use_stays_until_its_requests_end),
        cmocka_unit_test(every_end_lets_an_adapter_go),
        cmocka_unit_test(what_is_out_of_range_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
