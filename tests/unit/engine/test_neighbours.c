/* test_neighbours.c: what one request does, gets wrong or leaves behind is no matter to another one. */
#include <math.h>

#include "engine/engine_state.h"
#include "unit/engine/engine_fixture.h"

static struct mr_model *model;
static struct outcome o[16], alone;

static int set_up(void **state)
{
    (void)state;
    model = fixture_model(2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_model_close(model);
    return 0;
}

static struct mr_request request(int n_prompt, int max_tokens)
{
    static int32_t prompt[512];
    struct mr_request r;
    for (int i = 0; i < 512; i++)
        prompt[i] = 1 + i * 37 % 255;
    mr_request_defaults(&r);
    r.prompt = prompt;
    r.n_prompt = n_prompt;
    r.max_tokens = max_tokens;
    r.ignore_eos = true;
    r.sampling.seed = 7;
    return r;
}

/* What the request gives alone in an engine of its own. */
static void run_alone(const struct mr_request *r)
{
    struct mr_engine *e = fixture_engine(model, 1, 512, 128);
    memset(&alone, 0, sizeof alone);
    alone.id = submit(e, r);
    run_to_end(e, &alone, 1);
    mr_engine_free(e);
}

static void assert_as_alone(const struct outcome *x)
{
    assert_int_equal(x->n_token, alone.n_token);
    assert_memory_equal(x->token, alone.token, (size_t)alone.n_token * sizeof *alone.token);
    assert_memory_equal(x->logprob, alone.logprob, (size_t)alone.n_token * sizeof *alone.logprob);
}

static void ids_outside_the_vocabulary_are_refused_beside_an_unharmed_stream(void **state)
{
    (void)state;
    static const struct mr_logit_bias biases[] = {{99999999, -100}, {-3, 5},   {N_VOCAB, 1},
                                                  {10, 1e9F},       {10, NAN}, {10, INFINITY}};
    static const int32_t ids[] = {-1, N_VOCAB, INT32_MAX, INT32_MIN};
    const struct mr_request stream = request(20, 60);
    run_alone(&stream);
    struct mr_engine *e = fixture_engine(model, 4, 512, 128);
    struct mr_error err;
    uint64_t id;
    memset(o, 0, sizeof o);
    o[0].id = submit(e, &stream);
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++) {
        struct mr_request r = request(20, 5);
        r.bias = &biases[i];
        r.n_bias = 1;
        assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_BAD_INPUT);
        assert_non_null(strstr(err.message, "bias"));
        mr_engine_step(e);
    }
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct mr_request r = request(1, 5);
        r.prompt = &ids[i];
        assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_BAD_INPUT);
        assert_non_null(strstr(err.message, "prompt[0]"));
        r = request(20, 5);
        r.stop_token = &ids[i];
        r.n_stop_token = 1;
        assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_BAD_INPUT);
        assert_non_null(strstr(err.message, "stop_token[0]"));
        mr_engine_step(e);
    }
    run_to_end(e, o, 1);
    assert_as_alone(&o[0]);
    mr_engine_free(e);
}

static void a_seed_gives_the_same_answers_and_each_ends_by_itself(void **state)
{
    (void)state;
    static int32_t first[3][30];
    for (int round = 0; round < 3; round++) {
        struct mr_engine *e = fixture_engine(model, 4, 512, 128);
        struct mr_request r = request(20, 30);
        r.sampling.temperature = 1.2F;
        r.sampling.seed = round < 2 ? 42 : 43;
        r.n = 3;
        memset(o, 0, sizeof o);
        const uint64_t id = submit(e, &r);
        for (int i = 0; i < 3; i++) {
            o[i].id = id;
            o[i].sample = i;
        }
        run_to_end(e, o, 3);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(o[i].finish, MR_FINISH_LENGTH);
            assert_int_equal(o[i].usage.n_generated, 30);
            if (round == 0)
                memcpy(first[i], o[i].token, sizeof first[i]);
            assert_int_equal(memcmp(first[i], o[i].token, sizeof first[i]) == 0, round < 2);
            assert_true(i == 0 || memcmp(o[0].token, o[i].token, sizeof first[i]) != 0);
        }
        mr_engine_free(e);
    }
}

static void logprobs_are_finite_and_their_number_is_checked(void **state)
{
    (void)state;
    static const struct mr_logit_bias never[] = {{5, -INFINITY}, {6, 100}};
    struct mr_engine *e = fixture_engine(model, 1, 512, 128);
    struct mr_error err;
    struct mr_event event;
    uint64_t id;
    struct mr_request r = request(20, 5);
    r.sampling.temperature = 0;
    r.bias = never;
    r.n_bias = 2;
    for (int n = -2; n <= 21; n += 23) {
        r.sampling.n_logprobs = n;
        assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_BAD_INPUT);
        assert_non_null(strstr(err.message, "n_logprobs"));
    }
    for (int n = 0; n <= 20; n += 5) {
        r.sampling.n_logprobs = n;
        submit(e, &r);
        while (!mr_engine_is_idle(e)) {
            mr_engine_step(e);
            while (mr_engine_next_event(e, &event)) {
                assert_int_equal(event.n_top, n);
                assert_int_equal(event.token, 6);
                assert_true(event.logprob <= 0 && event.logprob >= -9999);
                for (int i = 0; i < n; i++) /* of the model, before the bias: sorted, and the chosen one may be missing */
                    assert_true(isfinite(event.top[i].logprob) && (i == 0 || event.top[i].logprob <= event.top[i - 1].logprob));
            }
        }
    }
    mr_engine_free(e);
}

static void a_prompt_as_long_as_the_context_is_refused_whoever_runs(void **state)
{
    (void)state;
    struct mr_engine *e = fixture_engine(model, 2, 512, 128);
    struct mr_error err;
    uint64_t id;
    memset(o, 0, sizeof o);
    const struct mr_request fits = request(127, 5000), endless = request(20, -1);
    o[0].id = submit(e, &fits);
    o[1].id = submit(e, &endless);
    for (int n = 128; n <= 512; n += 192) {
        for (int twice = 0; twice < 2; twice++) {
            const struct mr_request r = request(n, 5);
            assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_BAD_INPUT);
            char both[64];
            snprintf(both, sizeof both, "%d tokens and the context 128", n);
            assert_non_null(strstr(err.message, both));
            mr_engine_step(e);
            take_events(e, o, 2);
        }
    }
    run_to_end(e, o, 2);
    assert_int_equal(o[0].finish, MR_FINISH_LENGTH);
    assert_int_equal(o[0].n_token, 1);
    assert_int_equal(o[1].finish, MR_FINISH_LENGTH);
    assert_int_equal(o[1].n_token, 108);
    mr_engine_free(e);
}

static void a_request_gives_the_same_answer_again_beside_others_and_without_the_cache(void **state)
{
    (void)state;
    struct mr_request r = request(41, 40);
    r.sampling.n_logprobs = 0;
    run_alone(&r);
    for (int cached = 0; cached < 2; cached++) {
        struct mr_options options;
        struct mr_error err;
        struct mr_engine *e;
        mr_options_defaults(&options);
        options.max_running = 8;
        options.n_ctx = 128;
        options.prefix_cache = cached;
        check(mr_engine_create(&e, model, &options, &err), &err);
        for (int round = 0; round < 4; round++) { /* three times alone, then eight at once */
            const int n = round < 3 ? 1 : 8;
            memset(o, 0, sizeof o);
            for (int i = 0; i < n; i++)
                o[i].id = submit(e, &r);
            run_to_end(e, o, n);
            for (int i = 0; i < n; i++) {
                assert_as_alone(&o[i]);
                assert_int_equal(o[i].usage.n_prompt, 41);
                assert_int_equal(o[i].usage.n_cached, cached && round > 0 ? 32 : 0);
            }
            const struct mr_request between = request(60, 3);
            memset(o, 0, sizeof o);
            o[0].id = submit(e, &between);
            run_to_end(e, o, 1);
        }
        mr_engine_free(e);
    }
}

static void who_leaves_frees_everything_two_hundred_times(void **state)
{
    (void)state;
    struct mr_engine *e = fixture_engine(model, 2, 512, 512);
    struct mr_engine_stats s;
    for (int round = 0; round < 200; round++) {
        struct mr_request r = request(20, 400);
        r.n = 1 + round % 2;
        memset(o, 0, sizeof o);
        o[0].id = o[1].id = submit(e, &r);
        o[1].sample = 1;
        for (int i = 0; i < round % 5; i++)
            mr_engine_step(e);
        assert_int_equal(mr_engine_cancel(e, o[0].id), MR_OK);
        assert_true(mr_engine_is_idle(e)); /* at once, all its answers */
        mr_engine_get_stats(e, &s);
        assert_true(s.n_running == 0 && s.n_waiting == 0 && s.kv_bytes_in_use == 0);
        take_events(e, o, r.n);
        for (int i = 0; i < r.n; i++)
            assert_int_equal(o[i].finish, MR_FINISH_CANCELLED);
        assert_int_equal(mr_engine_cancel(e, o[0].id), MR_NOT_FOUND);
    }
    assert_true(e->admission.bucket.outstanding == 0);
    mr_engine_free(e);
}

static void who_leaves_the_queue_harms_neither_who_runs_nor_who_waits(void **state)
{
    (void)state;
    const struct mr_request r = request(20, 60);
    run_alone(&r);
    struct mr_engine *e = fixture_engine(model, 1, 512, 128);
    memset(o, 0, sizeof o);
    for (int i = 0; i < 3; i++) {
        o[i].id = submit(e, &r);
        mr_engine_step(e);
        take_events(e, o, i + 1);
    }
    assert_int_equal(mr_engine_cancel(e, o[1].id), MR_OK);
    while (o[0].finish == MR_FINISH_NONE) {
        mr_engine_step(e);
        take_events(e, o, 3);
    }
    assert_as_alone(&o[0]);
    assert_int_equal(o[1].finish, MR_FINISH_CANCELLED);
    assert_int_equal(o[1].n_token, 0); /* it never began */
    mr_engine_step(e);
    take_events(e, o, 3);
    assert_true(o[2].n_token > 0); /* the next one begins at once */
    run_to_end(e, o, 3);
    assert_as_alone(&o[2]);
    mr_engine_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_outside_the_vocabulary_are_refused_beside_an_unharmed_stream),
        cmocka_unit_test(a_seed_gives_the_same_answers_and_each_ends_by_itself),
        cmocka_unit_test(logprobs_are_finite_and_their_number_is_checked),
        cmocka_unit_test(a_prompt_as_long_as_the_context_is_refused_whoever_runs),
        cmocka_unit_test(a_request_gives_the_same_answer_again_beside_others_and_without_the_cache),
        cmocka_unit_test(who_leaves_frees_everything_two_hundred_times),
        cmocka_unit_test(who_leaves_the_queue_harms_neither_who_runs_nor_who_waits),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
