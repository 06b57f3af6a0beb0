/* test_schedule.c: who runs when: priorities, ageing, shares, deadlines, the step's budget, the policies of batching, and what
 * happens when blocks run out. Time is simulated: a step takes what its rows cost. */
#include "engine/engine_state.h"
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

/* 1 ms a step, 2 ms an answer's row, 0.5 ms a prompt's row; each batch is charged once, behind it. */
struct machine {
    int64_t now;
    const struct mr_engine *engine;
    bool is_due; /* the step has not been charged */
};

static int64_t machine_clock(void *context)
{
    struct machine *m = context;
    if (m->is_due && m->engine->n_row > 0) {
        m->now += 1000 + 2000 * m->engine->shape.n_decode + 500 * m->engine->shape.n_prompt;
        m->is_due = false;
    }
    return m->now;
}

static struct machine machine;

/* The clock's reading at the beginning of a step must not charge it: the batch of the step before is gone by then. */
static void step(struct mr_engine *e)
{
    e->n_row = 0;
    machine.is_due = true;
    mr_engine_step(e);
    machine.is_due = false;
}

static struct mr_engine *engine_of(struct mr_options o)
{
    struct mr_engine *e;
    struct mr_error err = {{0}};
    machine = (struct machine){.now = 1};
    o.clock_us = machine_clock;
    o.clock_context = &machine;
    check(mr_engine_create(&e, model, &o, &err), &err);
    machine.engine = e;
    return e;
}

static struct mr_options options(int max_running)
{
    struct mr_options o;
    mr_options_defaults(&o);
    o.max_running = max_running;
    o.n_ctx = 512;
    o.prefix_cache = false; /* so that each prompt costs its rows */
    return o;
}

static int32_t prompt[512];

static struct mr_request request(int n_prompt, int max_tokens)
{
    struct mr_request r;
    for (int i = 0; i < 512; i++)
        prompt[i] = 1 + i * 37 % 255;
    mr_request_defaults(&r);
    r.prompt = prompt;
    r.n_prompt = n_prompt;
    r.max_tokens = max_tokens;
    r.ignore_eos = true;
    return r;
}

static void run(struct mr_engine *e, struct outcome *o, int n)
{
    for (int i = 0; !mr_engine_is_idle(e); i++) {
        assert_true(i < 100000);
        step(e);
        take_events(e, o, n);
    }
}

static struct outcome o[64];

static void the_higher_priority_goes_first(void **state)
{
    (void)state;
    struct mr_engine *e = engine_of(options(1));
    memset(o, 0, sizeof o);
    for (int i = 0; i < 4; i++) {
        struct mr_request r = request(10, 4);
        r.priority = i == 2 ? 5 : i == 3 ? -1 : 0;
        o[i].id = submit(e, &r);
    }
    run(e, o, 4);
    assert_true(o[2].order < o[0].order && o[0].order < o[1].order && o[1].order < o[3].order);
    mr_engine_free(e);
}

static void waiting_raises_a_priority(void **state)
{
    (void)state;
    struct mr_options opt = options(1);
    opt.priority_age_ms = 100;
    struct mr_engine *e = engine_of(opt);
    memset(o, 0, sizeof o);
    struct mr_request r = request(10, 10);
    r.priority = -2;
    o[0].id = submit(e, &r);
    r.priority = 0;
    for (int i = 1; i < 64; i++) { /* a stream of better requests that never ends by itself */
        o[i].id = submit(e, &r);
        step(e);
        take_events(e, o, i + 1);
        machine.now += 10000;
    }
    run(e, o, 64);
    assert_in_range(o[0].order - o[1].order, 1, 20); /* it started after 200 ms */
    mr_engine_free(e);
}

static void a_short_prompt_passes_a_long_one_but_not_forever(void **state)
{
    (void)state;
    struct mr_options opt = options(1);
    opt.priority_age_ms = 0;
    struct mr_engine *e = engine_of(opt);
    memset(o, 0, sizeof o);
    const struct mr_request tiny = request(20, 2), big = request(500, 2);
    submit(e, &tiny); /* for the cost of rows to be known */
    for (struct mr_event event; !mr_engine_is_idle(e);) {
        step(e);
        while (mr_engine_next_event(e, &event))
            continue;
    }
    o[0].id = submit(e, &big); /* 250 ms: may be passed for half a second */
    for (int i = 1; i < 40; i++) {
        o[i].id = submit(e, &tiny);
        machine.now += 50000;
    }
    run(e, o, 40);
    const int passed_by = o[0].order - o[1].order;
    assert_in_range(passed_by, 8, 14);
    mr_engine_free(e);
}

static void keys_share_the_engine_evenly(void **state)
{
    (void)state;
    struct mr_engine *e = engine_of(options(1));
    memset(o, 0, sizeof o);
    for (int i = 0; i < 20; i++) { /* sixteen requests of one key, then four of another */
        struct mr_request r = request(10, 4);
        r.key = i < 16 ? 1 : 2;
        o[i].id = submit(e, &r);
    }
    run(e, o, 20);
    for (int i = 16; i < 20; i++) /* they take turns */
        assert_in_range(o[i].order - o[0].order + 2, 2 * (i - 16), 2 * (i - 16) + 4);
    mr_engine_free(e);
}

static void a_deadline_ends_what_waits_and_what_runs(void **state)
{
    (void)state;
    struct mr_engine *e = engine_of(options(1));
    memset(o, 0, sizeof o);
    struct mr_request r = request(10, 100);
    r.deadline_ms = 60;
    r.n = 1;
    o[0].id = submit(e, &r);
    r.n = 2;
    o[1].id = o[2].id = submit(e, &r);
    o[2].sample = 1;
    run(e, o, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(o[i].finish, MR_FINISH_TIMEOUT);
    assert_in_range(o[0].n_token, 15, 20);
    assert_int_equal(o[1].n_token, 0);
    assert_int_equal(kv_bytes_in_use(model_kv_cache(e->kv)), 0);
    mr_engine_free(e);
}

static void a_long_prompt_keeps_the_gaps_of_the_streams_short(void **state)
{
    (void)state;
    struct mr_options opt = options(9);
    opt.itl_target_ms = 40; /* a step with eight answers alone: 17 ms */
    struct mr_engine *e = engine_of(opt);
    memset(o, 0, sizeof o);
    const struct mr_request stream = request(8, 200), longest = request(500, 1);
    for (int i = 0; i < 8; i++)
        o[i].id = submit(e, &stream);
    for (int i = 0; i < 20; i++)
        step(e);
    o[8].id = submit(e, &longest);
    int64_t widest = 0;
    int n_step = 0;
    for (; o[8].finish == MR_FINISH_NONE; n_step++) {
        const int64_t begin = machine.now;
        step(e);
        take_events(e, o, 9);
        widest = machine.now - begin > widest ? machine.now - begin : widest;
    }
    assert_in_range(widest, 30000, 44000); /* as long as wished, and no longer */
    assert_in_range(n_step, 8, 30);
    for (int i = 0; i < 8; i++)
        assert_int_equal(o[i].finish, MR_FINISH_NONE);
    mr_engine_free(e);
}

static void prompts_get_on_beside_streams_that_take_all_the_time(void **state)
{
    (void)state;
    struct mr_options opt = options(9);
    opt.itl_target_ms = 5;
    struct mr_engine *e = engine_of(opt);
    memset(o, 0, sizeof o);
    const struct mr_request stream = request(8, 200), longest = request(300, 1);
    for (int i = 0; i < 8; i++)
        o[i].id = submit(e, &stream);
    for (int i = 0; i < 20; i++)
        step(e);
    o[8].id = submit(e, &longest);
    int n_step = 0;
    for (; o[8].finish == MR_FINISH_NONE; n_step++) {
        step(e);
        take_events(e, o, 9);
    }
    assert_in_range(n_step, 1, 300 / 8 + 2); /* they have a quarter of the streams' 17 ms */
    mr_engine_free(e);
}

static int most_running(struct mr_engine *e, int n)
{
    struct mr_engine_stats stats;
    int most = 0;
    for (int i = 0; !mr_engine_is_idle(e) && i < 10000; i++) {
        step(e);
        machine.now += 1000;
        take_events(e, o, n);
        mr_engine_get_stats(e, &stats);
        most = stats.n_running > most ? stats.n_running : most;
    }
    return most;
}

static void policies_of_batching_differ_in_who_joins(void **state)
{
    (void)state;
    static const struct {
        enum mr_batching batching;
        int joins; /* steps until the second request, which comes while the first one runs, has its first token */
    } cases[] = {{MR_BATCHING_CONTINUOUS, 1}, {MR_BATCHING_NONE, 17}, {MR_BATCHING_STATIC, 17}, {MR_BATCHING_DYNAMIC, 17}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mr_options opt = options(4);
        opt.batching = (int32_t)cases[i].batching;
        opt.batch_window_ms = 0;
        struct mr_engine *e = engine_of(opt);
        memset(o, 0, sizeof o);
        const struct mr_request r = request(10, 20);
        o[0].id = submit(e, &r);
        for (int j = 0; j < 4; j++)
            step(e);
        o[1].id = submit(e, &r);
        int n = 0;
        for (; o[1].n_token == 0; n++) {
            step(e);
            take_events(e, o, 2);
        }
        assert_int_equal(n, cases[i].joins);
        mr_engine_free(e);
    }
}

static void a_dynamic_batch_waits_for_its_window_or_until_it_is_full(void **state)
{
    (void)state;
    struct mr_options opt = options(3);
    opt.batching = MR_BATCHING_DYNAMIC;
    opt.batch_window_ms = 100;
    struct mr_engine *e = engine_of(opt);
    memset(o, 0, sizeof o);
    const struct mr_request r = request(10, 5);
    o[0].id = submit(e, &r);
    o[1].id = submit(e, &r);
    step(e);
    assert_int_equal(e->n_waiting, 2);
    o[2].id = submit(e, &r); /* the third fills it */
    step(e);
    assert_int_equal(e->n_waiting, 0);
    o[3].id = submit(e, &r);
    assert_int_equal(most_running(e, 4), 3);
    assert_true(o[3].usage.queue_us >= 100000);
    mr_engine_free(e);
}

static void when_blocks_run_out_the_youngest_steps_aside_and_comes_back(void **state)
{
    (void)state;
    struct mr_options opt = options(3);
    opt.n_ctx = opt.kv_tokens = 128; /* 8 blocks, and 2 for the beginnings of two more sequences */
    struct mr_engine *e = engine_of(opt);
    memset(o, 0, sizeof o);
    const struct mr_request r = request(10, 100);
    for (int i = 0; i < 3; i++)
        o[i].id = submit(e, &r);
    run(e, o, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(o[i].finish, MR_FINISH_LENGTH);
        assert_int_equal(o[i].n_token, 100);
        assert_memory_equal(o[i].token, o[0].token, 100 * sizeof(int32_t));
    }
    assert_int_equal(o[0].usage.n_preempted, 0); /* the eldest never notices */
    assert_true(o[2].usage.n_preempted > 0);
    assert_true(o[0].order < o[1].order && o[0].order < o[2].order);
    struct mr_engine_stats stats;
    mr_engine_get_stats(e, &stats);
    assert_true(stats.n_redone_rows > 0 && stats.n_preempted > 0);
    assert_int_equal(stats.kv_bytes_in_use, 0);
    mr_engine_free(e);
}

static void the_lowest_priority_steps_aside_first(void **state)
{
    (void)state;
    struct mr_options opt = options(2);
    opt.n_ctx = opt.kv_tokens = 128;
    struct mr_engine *e = engine_of(opt);
    memset(o, 0, sizeof o);
    struct mr_request r = request(10, 100);
    o[0].id = submit(e, &r);
    step(e);
    r.priority = 3;
    o[1].id = submit(e, &r);
    run(e, o, 2);
    assert_true(o[0].usage.n_preempted > 0);
    assert_int_equal(o[1].usage.n_preempted, 0);
    assert_true(o[1].order < o[0].order);
    mr_engine_free(e);
}

static void a_cache_smaller_than_the_context_is_refused_with_both_numbers(void **state)
{
    (void)state;
    struct mr_options opt = options(2);
    struct mr_engine *e;
    struct mr_error err;
    opt.kv_tokens = 100;
    assert_int_equal(mr_engine_create(&e, model, &opt, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "kv_tokens is 100"));
    assert_non_null(strstr(err.message, "512"));
    opt.n_ctx = 0;
    assert_int_equal(mr_engine_create(&e, model, &opt, &err), MR_OK); /* a context that was not asked for follows */
    assert_int_equal(mr_engine_n_ctx(e), 100);
    const struct mr_request r = request(100, 1);
    uint64_t id;
    assert_int_equal(mr_engine_submit(e, &r, &id, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "100 tokens and the context 100"));
    mr_engine_free(e);
}

static void answers_share_the_blocks_of_their_prompt(void **state)
{
    (void)state;
    struct mr_engine *e = engine_of(options(8));
    memset(o, 0, sizeof o);
    struct mr_request r = request(320, 8);
    r.n = 8;
    const uint64_t id = submit(e, &r);
    for (int i = 0; i < 8; i++) {
        o[i].id = id;
        o[i].sample = i;
    }
    step(e);
    step(e);
    take_events(e, o, 8);
    struct mr_engine_stats stats;
    mr_engine_get_stats(e, &stats);
    assert_int_equal(stats.n_running, 8);
    const size_t block = stats.kv_bytes / (size_t)kv_n_blocks(model_kv_cache(e->kv), 0);
    assert_in_range(stats.kv_bytes_in_use / block, 20, 20 + 2 * 8); /* not 8 times 20 */
    run(e, o, 8);
    mr_engine_get_stats(e, &stats);
    assert_int_equal(stats.n_prompt_rows, 320 + 7); /* one row each, for its logits */
    bool differ = false;
    for (int i = 1; i < 8; i++)
        differ |= memcmp(o[0].token, o[i].token, 8 * sizeof(int32_t)) != 0;
    assert_true(differ);
    mr_engine_free(e);
}

static void a_cancel_ends_all_answers_and_frees_all_blocks(void **state)
{
    (void)state;
    struct mr_engine *e = engine_of(options(2));
    for (int n_step = 0; n_step < 6; n_step++) {
        memset(o, 0, sizeof o);
        struct mr_request r = request(100, 8);
        r.n = 5; /* two run, three wait */
        const uint64_t id = submit(e, &r);
        for (int i = 0; i < 5; i++) {
            o[i].id = id;
            o[i].sample = i;
        }
        for (int i = 0; i < n_step; i++)
            step(e);
        assert_int_equal(mr_engine_cancel(e, id), MR_OK);
        assert_true(mr_engine_is_idle(e));
        assert_int_equal(kv_bytes_in_use(model_kv_cache(e->kv)), 0);
        take_events(e, o, 5);
        for (int i = 0; i < 5; i++)
            assert_int_equal(o[i].finish, MR_FINISH_CANCELLED);
    }
    mr_engine_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_higher_priority_goes_first),
        cmocka_unit_test(waiting_raises_a_priority),
        cmocka_unit_test(a_short_prompt_passes_a_long_one_but_not_forever),
        cmocka_unit_test(keys_share_the_engine_evenly),
        cmocka_unit_test(a_deadline_ends_what_waits_and_what_runs),
        cmocka_unit_test(a_long_prompt_keeps_the_gaps_of_the_streams_short),
        cmocka_unit_test(prompts_get_on_beside_streams_that_take_all_the_time),
        cmocka_unit_test(policies_of_batching_differ_in_who_joins),
        cmocka_unit_test(a_dynamic_batch_waits_for_its_window_or_until_it_is_full),
        cmocka_unit_test(when_blocks_run_out_the_youngest_steps_aside_and_comes_back),
        cmocka_unit_test(the_lowest_priority_steps_aside_first),
        cmocka_unit_test(a_cache_smaller_than_the_context_is_refused_with_both_numbers),
        cmocka_unit_test(answers_share_the_blocks_of_their_prompt),
        cmocka_unit_test(a_cancel_ends_all_answers_and_frees_all_blocks),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
