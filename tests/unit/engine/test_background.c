/* test_background.c: requests that get what others leave: the others' times are those without them, to the microsecond but for
 * the step that runs when they come, and an engine with nothing else is as full as ever. Time is simulated. */
#include "engine/engine_state.h"
#include "unit/engine/engine_fixture.h"

enum {
    N = 6, /* requests of people */
    N_BACK = 12,
    MAX_RUNNING = 4
};

static struct mr_model *model;
static int32_t prompt[512];
static struct outcome outcome[N + N_BACK];
static int64_t now_us, step_us, longest_us;

static int64_t clock_now(void *context)
{
    (void)context;
    return now_us;
}

static int set_up(void **state)
{
    (void)state;
    model = fixture_model(2);
    for (int i = 0; i < 512; i++)
        prompt[i] = 1 + i * 37 % 255;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_model_close(model);
    return 0;
}

static struct mr_engine *engine(int kv_tokens)
{
    struct mr_options o;
    struct mr_engine *e;
    struct mr_error err = {{0}};
    mr_options_defaults(&o);
    o.max_running = MAX_RUNNING;
    o.n_ctx = 256;
    o.kv_tokens = kv_tokens;
    o.prompt_chunk = 32;
    o.prefix_cache = false;
    o.itl_target_ms = 0;
    o.clock_us = clock_now;
    now_us = 1;
    check(mr_engine_create(&e, model, &o, &err), &err);
    memset(outcome, 0, sizeof outcome);
    longest_us = 0;
    return e;
}

static struct mr_request request(int i, bool background)
{
    struct mr_request r;
    mr_request_defaults(&r);
    r.prompt = prompt + i;
    r.n_prompt = 20 + 7 * i;
    r.max_tokens = 30;
    r.ignore_eos = true;
    r.background = background;
    r.priority = background ? MR_PRIORITY_MAX : 0; /* which does not help them */
    r.key = 7;
    return r;
}

/* A step takes 1 ms and what its rows cost. */
static void step(struct mr_engine *e, int n)
{
    mr_engine_step(e);
    step_us = 1000 + 2000 * e->shape.n_decode + 500 * e->shape.n_prompt;
    now_us += step_us;
    longest_us = step_us > longest_us ? step_us : longest_us;
    take_events(e, outcome, n);
}

/* Requests of people come every 20 steps, the first at once. first: when each one's first token came. */
static void run(struct mr_engine *e, bool with_background, int64_t first[N], int64_t end[N])
{
    int n_come = 0;
    for (int i = 0; with_background && i < N_BACK; i++) {
        const struct mr_request r = request(i, true);
        outcome[N + i].id = submit(e, &r);
    }
    for (int i = 0; with_background && i < 5; i++)
        step(e, N + N_BACK); /* they run */
    for (int i = 0; i < N; i++)
        first[i] = end[i] = 0;
    int64_t begin[N];
    for (int k = 0; n_come < N || !engine_has_only_background(e); k++) {
        assert_true(k < 10000);
        if (k % 20 == 0 && n_come < N) {
            const struct mr_request r = request(n_come, false);
            begin[n_come] = now_us;
            outcome[n_come++].id = submit(e, &r);
        }
        step(e, N + N_BACK);
        for (int i = 0; i < n_come; i++) {
            first[i] = first[i] == 0 && outcome[i].n_token > 0 ? now_us - begin[i] : first[i];
            end[i] = end[i] == 0 && outcome[i].finish != MR_FINISH_NONE ? now_us - begin[i] : end[i];
        }
    }
}

static void people_do_not_notice(void **state)
{
    static struct outcome alone[N];
    int64_t first[2][N], end[2][N];
    (void)state;
    for (int kv_tokens = 0; kv_tokens <= 320; kv_tokens += 320) { /* room for all; for one and a half */
        struct mr_engine *e = engine(kv_tokens);
        run(e, false, first[0], end[0]);
        memcpy(alone, outcome, sizeof alone);
        mr_engine_free(e);
        e = engine(kv_tokens);
        run(e, true, first[1], end[1]);
        for (int i = 0; i < N; i++) {
            assert_int_equal(first[1][i], first[0][i]);
            assert_int_equal(end[1][i], end[0][i]);
            assert_memory_equal(outcome[i].token, alone[i].token, sizeof alone[i].token);
        }
        while (!mr_engine_is_idle(e))
            step(e, N + N_BACK);
        for (int i = 0; i < N_BACK; i++)
            assert_int_equal(outcome[N + i].n_token, 30);
        mr_engine_free(e);
    }
}

static void alone_they_fill_the_batch(void **state)
{
    int64_t time[2];
    (void)state;
    for (int background = 0; background < 2; background++) {
        struct mr_engine *e = engine(0);
        for (int i = 0; i < N_BACK; i++) {
            const struct mr_request r = request(i, background);
            outcome[i].id = submit(e, &r);
        }
        while (!mr_engine_is_idle(e))
            step(e, N + N_BACK);
        time[background] = now_us;
        mr_engine_free(e);
    }
    assert_int_equal(time[0], time[1]);
}

/* Most rows of answers in a step while so many background requests are answered. */
static int widest(struct mr_engine *e, int n)
{
    int most = 0;
    memset(outcome, 0, sizeof outcome);
    for (int i = 0; i < n; i++) {
        const struct mr_request r = request(i, true);
        outcome[i].id = submit(e, &r);
    }
    while (!mr_engine_is_idle(e)) {
        step(e, N + N_BACK);
        most = e->shape.n_decode > most ? e->shape.n_decode : most;
    }
    return most;
}

static void few_of_them_run_where_others_may_come(void **state)
{
    (void)state;
    struct mr_options o;
    struct mr_engine *e;
    struct mr_error err = {{0}};
    mr_options_defaults(&o);
    o.max_running = N_BACK;
    o.n_ctx = 256;
    o.prefix_cache = false;
    o.speculation = MR_SPECULATION_OFF;
    o.clock_us = clock_now;
    now_us = 1;
    check(mr_engine_create(&e, model, &o, &err), &err);
    assert_int_equal(widest(e, N_BACK), N_BACK); /* nobody was there yet */
    memset(outcome, 0, sizeof outcome);
    const struct mr_request r = request(1, false);
    outcome[0].id = submit(e, &r);
    while (!mr_engine_is_idle(e))
        step(e, 1);
    assert_int_equal(widest(e, N_BACK), 8);
    now_us += 11000000;
    assert_int_equal(widest(e, N_BACK), N_BACK);
    mr_engine_free(e);
}

static void they_take_nothing_from_admission(void **state)
{
    (void)state;
    struct mr_engine *e = engine(0);
    struct mr_engine_stats stats;
    for (int i = 0; i < N_BACK; i++) {
        const struct mr_request r = request(i, true);
        outcome[i].id = submit(e, &r);
    }
    step(e, N + N_BACK);
    mr_engine_get_stats(e, &stats);
    assert_int_equal(stats.n_running, 0);
    assert_int_equal(stats.n_background, MAX_RUNNING);
    assert_true(stats.load == 0 && e->admission.bucket.outstanding == 0);
    for (int i = 0; i < N_BACK; i++)
        mr_engine_cancel(e, outcome[i].id);
    assert_true(mr_engine_is_idle(e));
    assert_true(e->admission.bucket.outstanding == 0);
    mr_engine_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(people_do_not_notice),
        cmocka_unit_test(alone_they_fill_the_batch),
        cmocka_unit_test(few_of_them_run_where_others_may_come),
        cmocka_unit_test(they_take_nothing_from_admission),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
