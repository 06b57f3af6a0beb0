/* test_engine_fault.c: an allocation that fails costs one request its answer, or refuses it; nothing else. */
#include "fault/failing_malloc.h"
#include "unit/engine/engine_fixture.h"

static struct mr_model *model;
static struct outcome want, got;

static enum mr_constraint constraint;
static enum mr_pooling pooling;

static struct mr_request request(void)
{
    static const int32_t prompt[] = {3, 1, 4, 1, 5, 9, 2, 6};
    static const char *const stop[] = {"never that"};
    struct mr_request r;
    mr_request_defaults(&r);
    r.prompt = prompt;
    r.n_prompt = 8;
    r.max_tokens = 12;
    r.ignore_eos = constraint == MR_CONSTRAINT_NONE;
    r.constraint = constraint;
    r.constraint_text = "[ab]{20}";
    if (constraint != MR_CONSTRAINT_NONE) { /* all that takes memory of its own */
        static const char *const word[] = {"aba"};
        r.bad_word = word;
        r.n_bad_word = 1;
        r.prompt_logprobs = 2;
        r.best_of = 2;
    }
    r.pooling = pooling;
    r.stop = stop;
    r.n_stop = 1;
    return r;
}

static enum mr_status run_once(struct mr_engine *e, struct outcome *o)
{
    const struct mr_request r = request();
    *o = (struct outcome){0};
    MR_TRY(mr_engine_submit(e, &r, &o->id, NULL));
    run_to_end(e, o, 1);
    return o->finish == MR_FINISH_ERROR ? MR_NO_MEMORY : MR_OK;
}

static enum mr_status create_and_run(void *context)
{
    struct mr_options options;
    struct mr_engine *e;
    mr_options_defaults(&options);
    options.n_ctx = 64;
    options.cache_host_bytes = options.response_bytes = *(const size_t *)context;
    MR_TRY(mr_engine_create(&e, model, &options, NULL));
    const enum mr_status status = run_once(e, &got);
    assert_true(mr_engine_is_idle(e));
    if (failing_malloc_disarm() && status != MR_OK) { /* the engine itself is unharmed */
        assert_int_equal(run_once(e, &got), MR_OK);
        assert_memory_equal(got.token, want.token, sizeof want.token);
        assert_memory_equal(got.embedding, want.embedding, sizeof want.embedding);
    }
    mr_engine_free(e);
    return status;
}

static void a_failed_allocation_fails_one_request(void **state)
{
    constraint = *state != NULL ? MR_CONSTRAINT_REGEX : MR_CONSTRAINT_NONE;
    model = fixture_model(1);
    struct mr_engine *e = fixture_engine(model, 1, 512, 64);
    assert_int_equal(run_once(e, &want), MR_OK);
    mr_engine_free(e);
    for (size_t host_bytes = 0; host_bytes <= 1 << 20; host_bytes += 1 << 20)
        assert_true(check_every_allocation(create_and_run, &host_bytes) > 10);
    mr_model_close(model);
}

static void a_failed_allocation_fails_one_embedding(void **state)
{
    pooling = MR_POOLING_MEAN;
    a_failed_allocation_fails_one_request(state);
    pooling = MR_POOLING_NONE;
}

int main(void)
{
    static char with_a_constraint[] = "with a constraint";
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_failed_allocation_fails_one_request),
                                       cmocka_unit_test(a_failed_allocation_fails_one_embedding),
                                       cmocka_unit_test_prestate(a_failed_allocation_fails_one_request, with_a_constraint)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
