/* test_engine.c: what a request becomes does not depend on what runs beside it; ends, limits, cancels and times. */
#include "unit/engine/engine_fixture.h"

static struct mr_model *model;

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

static int32_t prompt[600];

static struct mr_request request(int n_prompt, int max_tokens, uint64_t seed)
{
    struct mr_request r;
    for (int i = 0; i < 600; i++)
        prompt[i] = 1 + i * 37 % 255;
    mr_request_defaults(&r);
    r.prompt = prompt;
    r.n_prompt = n_prompt;
    r.max_tokens = max_tokens;
    r.ignore_eos = true;
    r.sampling.seed = seed;
    r.sampling.n_logprobs = 0;
    r.sampling.repeat_penalty = 1.1f;
    return r;
}

static void run_alone(struct outcome *o, const struct mr_request *r, int prompt_chunk, int n_ctx)
{
    struct mr_engine *e = fixture_engine(model, 1, prompt_chunk, n_ctx);
    *o = (struct outcome){.id = submit(e, r)};
    run_to_end(e, o, 1);
    mr_engine_free(e);
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

static void greedy_tokens_are_those_of_the_bare_model(void **state)
{
    (void)state;
    struct mr_request r = request(33, 20, 1);
    r.sampling.temperature = 0;
    r.sampling.repeat_penalty = 1;
    r.ignore_eos = false;
    struct outcome got;
    run_alone(&got, &r, 512, 128);
    struct model_kv *kv;
    kv_seq seq, rows[40];
    assert_int_equal(model_kv_create(&kv, model->model, 1, 128, 128, NULL), MR_OK);
    assert_int_equal(kv_seq_open(model_kv_cache(kv), &seq), MR_OK);
    for (int i = 0; i < 40; i++)
        rows[i] = seq;
    int32_t last;
    for (int i = 0; i < got.n_token; i++) {
        const struct batch batch = {.n_row = i == 0 ? 33 : 1, .token = i == 0 ? prompt : &last, .seq = rows};
        assert_int_equal(model_forward(model->model, kv, &batch, NULL), MR_OK);
        const float *logits = model_logits(model->model, 0);
        last = 0;
        for (int j = 1; j < N_VOCAB; j++)
            last = logits[j] > logits[last] ? j : last;
        assert_int_equal(got.token[i], last);
    }
    assert_true(got.n_token == 20 || got.token[got.n_token - 1] == END_TOKEN);
    model_kv_free(kv);
}

static void prompt_chunks_change_nothing(void **state)
{
    (void)state;
    const struct mr_request r = request(75, 40, 3);
    struct outcome want, got;
    run_alone(&want, &r, 512, 256);
    assert_int_equal(want.n_token, 40);
    static const int chunks[] = {1, 2, 7, 64, 74, 75};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        run_alone(&got, &r, chunks[i], 256);
        assert_same(&want, &got);
    }
}

static void requests_that_run_together_answer_as_alone(void **state)
{
    (void)state;
    enum {
        N = 9
    };
    static struct outcome alone[N], together[N];
    struct mr_request r[N];
    for (int i = 0; i < N; i++) {
        r[i] = request(1 + i * i * 7 % 90, 5 + i * 11 % 60, (uint64_t)i);
        r[i].sampling.temperature = i % 3 == 0 ? 0 : 1;
        run_alone(&alone[i], &r[i], 512, 256);
    }
    for (int max_running = 1; max_running <= 4; max_running++) {
        struct mr_engine *e = fixture_engine(model, max_running, 16, 256);
        memset(together, 0, sizeof together);
        for (int i = 0; i < N; i++) {
            together[i].id = submit(e, &r[i]);
            for (int step = 0; step < i % 4; step++) /* they arrive while others run */
                mr_engine_step(e);
            take_events(e, together, i + 1);
        }
        run_to_end(e, together, N);
        for (int i = 0; i < N; i++)
            assert_same(&alone[i], &together[i]);
        mr_engine_free(e);
    }
}

static void those_who_wait_are_taken_in_order(void **state)
{
    (void)state;
    struct mr_engine *e = fixture_engine(model, 1, 64, 128);
    static struct outcome o[5];
    memset(o, 0, sizeof o);
    for (int i = 0; i < 5; i++) {
        const struct mr_request r = request(10, 4, (uint64_t)i);
        o[i].id = submit(e, &r);
    }
    run_to_end(e, o, 5);
    for (int i = 1; i < 5; i++)
        assert_int_equal(o[i].order, o[i - 1].order + 1);
    mr_engine_free(e);
}

static void a_cancelled_request_leaves_the_others_alone(void **state)
{
    (void)state;
    struct mr_engine *e = fixture_engine(model, 1, 64, 256);
    static struct outcome want, o[4];
    memset(o, 0, sizeof o);
    const struct mr_request r = request(20, 30, 5);
    run_alone(&want, &r, 64, 256);
    for (int i = 0; i < 4; i++)
        o[i].id = submit(e, &r);
    for (int i = 0; i < 10; i++)
        mr_engine_step(e);
    assert_int_equal(mr_engine_cancel(e, o[2].id), MR_OK); /* while it waits */
    assert_int_equal(mr_engine_cancel(e, o[2].id), MR_NOT_FOUND);
    run_to_end(e, o, 2 + 2);
    assert_int_equal(o[2].finish, MR_FINISH_CANCELLED);
    assert_int_equal(o[2].n_token, 0);
    assert_same(&want, &o[0]);
    assert_same(&want, &o[1]);
    assert_same(&want, &o[3]);
    mr_engine_free(e);
}

static void cancelling_what_runs_lets_the_next_one_start(void **state)
{
    (void)state;
    struct mr_engine *e = fixture_engine(model, 1, 8, 256);
    static struct outcome o[2];
    struct mr_request r = request(100, 30, 5);
    r.speculation = MR_SPECULATION_OFF;              /* a token a step: it is not over yet */
    for (int n_step = 0; n_step < 30; n_step += 3) { /* in the prompt, and in the answer */
        memset(o, 0, sizeof o);
        o[0].id = submit(e, &r);
        o[1].id = submit(e, &r);
        for (int i = 0; i < n_step; i++)
            mr_engine_step(e);
        assert_int_equal(mr_engine_cancel(e, o[0].id), MR_OK);
        run_to_end(e, o, 2);
        assert_int_equal(o[0].finish, MR_FINISH_CANCELLED);
        assert_int_equal(o[1].finish, MR_FINISH_LENGTH);
        assert_int_equal(o[1].n_token, 30);
    }
    mr_engine_free(e);
}

static void a_full_queue_refuses_and_recovers(void **state)
{
    (void)state;
    struct mr_options options;
    struct mr_engine *e;
    struct mr_error err;
    uint64_t id;
    static struct outcome o[3];
    memset(o, 0, sizeof o);
    mr_options_defaults(&options);
    options.max_queue = 2;
    options.n_ctx = 64;
    assert_int_equal(mr_engine_create(&e, model, &options, &err), MR_OK);
    const struct mr_request r = request(4, 2, 1);
    o[0].id = submit(e, &r);
    o[1].id = submit(e, &r);
    assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_FULL);
    assert_non_null(strstr(err.message, "2 requests"));
    mr_engine_step(e);
    o[2].id = submit(e, &r);
    run_to_end(e, o, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(o[i].finish, MR_FINISH_LENGTH);
    mr_engine_free(e);
}

static void prompt_and_answer_never_exceed_the_context(void **state)
{
    (void)state;
    static struct outcome o;
    for (int n = 60; n < 64; n++) {
        for (int max_tokens = -1; max_tokens < 6; max_tokens++) {
            const struct mr_request r = request(n, max_tokens, 2);
            run_alone(&o, &r, 512, 64);
            const int room = 64 - n;
            assert_int_equal(o.n_token, max_tokens < 0 || max_tokens > room ? room : max_tokens);
            assert_int_equal(o.finish, MR_FINISH_LENGTH);
            assert_int_equal(o.usage.n_prompt, n);
            assert_int_equal(o.usage.n_generated, o.n_token);
        }
    }
}

static void wrong_requests_are_refused_before_they_run(void **state)
{
    (void)state;
    struct mr_engine *e = fixture_engine(model, 1, 64, 64);
    struct mr_error err;
    uint64_t id;
    struct mr_request r = request(64, 1, 1);
    assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "64 tokens and the context 64"));
    r = request(8, 1, 1);
    prompt[5] = N_VOCAB;
    assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "prompt[5] is 256"));
    r = request(8, 1, 1);
    r.sampling.top_p = 2;
    assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_BAD_INPUT);
    assert_true(mr_engine_is_idle(e));
    mr_engine_free(e);
}

static void options_out_of_range_are_named(void **state)
{
    (void)state;
    static const struct {
        struct mr_options o;
        const char *name;
    } cases[] = {
        {{.threads = -1, .prompt_chunk = 1, .max_running = 1, .max_queue = 1}, "threads"},
        {{.precision = 9, .prompt_chunk = 1, .max_running = 1, .max_queue = 1}, "precision"},
        {{.n_ctx = -5, .prompt_chunk = 1, .max_running = 1, .max_queue = 1}, "n_ctx"},
        {{.prompt_chunk = 0, .max_running = 1, .max_queue = 1}, "prompt_chunk"},
        {{.prompt_chunk = 600, .max_running = 1, .max_queue = 1}, "prompt_chunk"},
        {{.prompt_chunk = 1, .max_running = 65, .max_queue = 1}, "max_running"},
        {{.prompt_chunk = 1, .max_running = 1, .max_queue = 0}, "max_queue"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_engine *e;
        struct mr_error err;
        assert_int_equal(mr_engine_create(&e, model, &cases[i].o, &err), MR_BAD_INPUT);
        assert_null(e);
        assert_non_null(strstr(err.message, cases[i].name));
    }
}

static void the_end_token_ends_and_gives_no_text(void **state)
{
    (void)state;
    static struct outcome o;
    const struct mr_logit_bias force = {.token = END_TOKEN, .bias = 100};
    struct mr_request r = request(5, 10, 1);
    r.ignore_eos = false;
    r.bias = &force;
    r.n_bias = 1;
    run_alone(&o, &r, 512, 64);
    assert_int_equal(o.n_token, 1);
    assert_int_equal(o.token[0], END_TOKEN);
    assert_int_equal(o.n_text, 0);
    assert_int_equal(o.finish, MR_FINISH_STOP);
    r.show_special = true;
    run_alone(&o, &r, 512, 64);
    assert_int_equal(o.n_text, 5);
    r.ignore_eos = true;
    run_alone(&o, &r, 512, 64);
    assert_int_equal(o.n_token, 10);
    for (int i = 0; i < 10; i++)
        assert_int_not_equal(o.token[i], END_TOKEN);
}

/* The answer is forced to be one byte over and over. */
static void answer_of(struct outcome *o, int32_t byte, int n, const char *const *stop, int n_stop)
{
    const struct mr_logit_bias force = {.token = byte, .bias = 100};
    struct mr_request r = request(5, n, 1);
    r.bias = &force;
    r.n_bias = 1;
    r.sampling.repeat_penalty = 1;
    r.stop = stop;
    r.n_stop = n_stop;
    run_alone(o, &r, 512, 64);
}

static void stop_strings_end_an_answer_before_them(void **state)
{
    (void)state;
    static struct outcome o;
    const char *const three[] = {"zz", "aaa"}, *const seven[] = {"aaaaaaa"};
    answer_of(&o, 'a', 6, three, 2);
    assert_int_equal(o.finish, MR_FINISH_STOP);
    assert_int_equal(o.n_text, 0);
    assert_int_equal(o.n_token, 3);
    answer_of(&o, 'a', 6, seven, 1); /* held back, then delivered at the end */
    assert_int_equal(o.finish, MR_FINISH_LENGTH);
    assert_int_equal(o.n_text, 6);
    assert_memory_equal(o.text, "aaaaaa", 6);
}

static void a_stop_token_ends_an_answer_and_gives_no_text(void **state)
{
    (void)state;
    static struct outcome o;
    const struct mr_logit_bias force = {.token = 'a', .bias = 100};
    static const int32_t stop_token[] = {'x', 'a'};
    struct mr_request r = request(5, 10, 1);
    r.bias = &force;
    r.n_bias = 1;
    r.stop_token = stop_token;
    r.n_stop_token = 2;
    run_alone(&o, &r, 512, 64);
    assert_int_equal(o.finish, MR_FINISH_STOP);
    assert_int_equal(o.n_token, 1);
    assert_int_equal(o.token[0], 'a');
    assert_int_equal(o.n_text, 0);
}

static void no_answer_ends_before_min_tokens(void **state)
{
    (void)state;
    static struct outcome o;
    const struct mr_logit_bias force[] = {{.token = END_TOKEN, .bias = 90}, {.token = 'a', .bias = 100}};
    static const int32_t stop_token[] = {'a'};
    struct mr_request r = request(5, 10, 1);
    r.ignore_eos = false;
    r.bias = force;
    r.n_bias = 2;
    r.stop_token = stop_token;
    r.n_stop_token = 1;
    r.min_tokens = 7;
    run_alone(&o, &r, 512, 64);
    assert_int_equal(o.finish, MR_FINISH_STOP);
    assert_int_equal(o.n_token, 8);
    for (int i = 0; i < 7; i++)
        assert_true(o.token[i] != 'a' && o.token[i] != END_TOKEN);
    r.min_tokens = 11;
    struct mr_engine *e = fixture_engine(model, 1, 64, 64);
    struct mr_error err;
    uint64_t id;
    assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "min_tokens is 11"));
    r.min_tokens = 0;
    r.stop_token = (const int32_t[]){N_VOCAB};
    assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "stop_token[0] is 256"));
    mr_engine_free(e);
}

static void half_a_character_is_told_at_the_end(void **state)
{
    (void)state;
    static struct outcome o;
    answer_of(&o, 0xe4, 1, NULL, 0);
    assert_int_equal(o.n_text, 3);
    assert_memory_equal(o.text, "\xef\xbf\xbd", 3);
    answer_of(&o, 0x81, 4, NULL, 0);
    assert_int_equal(o.n_text, 12);
}

static int64_t next_tick(void *context)
{
    int64_t *now = context;
    return *now += 10;
}

static void times_come_from_the_given_clock(void **state)
{
    (void)state;
    struct mr_options options;
    struct mr_engine *e;
    int64_t now = 0;
    static struct outcome o;
    memset(&o, 0, sizeof o);
    mr_options_defaults(&options);
    options.n_ctx = 64;
    options.prompt_chunk = 4;
    options.clock_us = next_tick;
    options.clock_context = &now;
    assert_int_equal(mr_engine_create(&e, model, &options, NULL), MR_OK);
    const struct mr_request r = request(10, 3, 1);
    o.id = submit(e, &r); /* 10 */
    run_to_end(e, &o, 1); /* steps of the prompt begin at 20, 50, 80; tokens come at 90, 120, 150 */
    assert_int_equal(o.usage.queue_us, 10);
    assert_int_equal(o.usage.prompt_us, 70);
    assert_int_equal(o.usage.first_token_us, 80);
    assert_int_equal(o.usage.generate_us, 60);
    mr_engine_free(e);
}

static void logprobs_come_with_each_token(void **state)
{
    (void)state;
    struct mr_engine *e = fixture_engine(model, 1, 64, 64);
    struct mr_request r = request(10, 5, 1);
    r.sampling.temperature = 0;
    r.sampling.repeat_penalty = 1;
    r.sampling.n_logprobs = 3;
    submit(e, &r);
    struct mr_event event;
    int n = 0;
    while (!mr_engine_is_idle(e)) {
        mr_engine_step(e);
        while (mr_engine_next_event(e, &event)) {
            assert_int_equal(event.n_top, 3);
            assert_int_equal(event.top[0].token, event.token);
            assert_true(event.top[0].logprob == event.logprob && event.logprob < 0);
            assert_true(event.top[1].logprob <= event.top[0].logprob);
            n++;
        }
    }
    assert_int_equal(n, 5);
    mr_engine_free(e);
}

static void an_engine_can_be_freed_at_any_moment(void **state)
{
    (void)state;
    const struct mr_request r = request(30, 10, 1);
    for (int n_step = 0; n_step < 12; n_step += 2) {
        struct mr_engine *e = fixture_engine(model, 2, 8, 64);
        for (int i = 0; i < 4; i++)
            submit(e, &r);
        for (int i = 0; i < n_step; i++)
            mr_engine_step(e);
        mr_engine_free(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_tokens_are_those_of_the_bare_model),
        cmocka_unit_test(prompt_chunks_change_nothing),
        cmocka_unit_test(requests_that_run_together_answer_as_alone),
        cmocka_unit_test(those_who_wait_are_taken_in_order),
        cmocka_unit_test(a_cancelled_request_leaves_the_others_alone),
        cmocka_unit_test(cancelling_what_runs_lets_the_next_one_start),
        cmocka_unit_test(a_full_queue_refuses_and_recovers),
        cmocka_unit_test(prompt_and_answer_never_exceed_the_context),
        cmocka_unit_test(wrong_requests_are_refused_before_they_run),
        cmocka_unit_test(options_out_of_range_are_named),
        cmocka_unit_test(the_end_token_ends_and_gives_no_text),
        cmocka_unit_test(stop_strings_end_an_answer_before_them),
        cmocka_unit_test(a_stop_token_ends_an_answer_and_gives_no_text),
        cmocka_unit_test(no_answer_ends_before_min_tokens),
        cmocka_unit_test(half_a_character_is_told_at_the_end),
        cmocka_unit_test(times_come_from_the_given_clock),
        cmocka_unit_test(logprobs_come_with_each_token),
        cmocka_unit_test(an_engine_can_be_freed_at_any_moment),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
