/* test_step_budget.c: how wide the gaps of streams become while a long prompt is computed, on machines that scatter. */
#include "unit/engine/simulated_engine.h"

enum {
    N_STREAM = 8,
    LONG_PROMPT = 6000,
    TARGET_MS = 50
};

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void drop_events(struct mr_engine *e)
{
    for (struct mr_event event; mr_engine_next_event(e, &event);)
        continue;
}

/* The 99th percentile of the steps from the long prompt's arrival to its first token, in milliseconds. */
static double p99_beside_a_long_prompt(struct machine m, int *n_step)
{
    static int32_t prompt[LONG_PROMPT];
    static double gap[4096];
    struct mr_options o;
    mr_options_defaults(&o);
    o.max_running = N_STREAM + 1;
    o.n_ctx = LONG_PROMPT + 64;
    o.itl_target_ms = TARGET_MS;
    machine = m;
    struct mr_engine *e = simulated_engine(o);
    for (int i = 0; i < N_STREAM; i++) {
        const struct mr_request r = simulated_request(prompt, 20 + 13 * i, -1, i);
        submit(e, &r);
    }
    for (int i = 0; i < 60; i++, drop_events(e))
        mr_engine_step(e);
    const struct mr_request r = simulated_request(prompt, LONG_PROMPT, 1, 100);
    const uint64_t id = submit(e, &r);
    bool done = false;
    for (*n_step = 0; !done && *n_step < 4096; ++*n_step) {
        const int64_t begin = machine.now;
        mr_engine_step(e);
        gap[*n_step] = (double)(machine.now - begin) / 1e3;
        for (struct mr_event event; mr_engine_next_event(e, &event);)
            done |= event.request == id;
    }
    assert_true(done);
    mr_engine_free(e);
    qsort(gap, (size_t)*n_step, sizeof *gap, compare);
    return gap[(*n_step * 99 + 99) / 100 - 1];
}

static void gaps_beside_a_long_prompt_keep_the_target_however_steps_scatter(void **state)
{
    (void)state;
    static const struct machine machines[] = {
        {.step = 5000, .decode = 2000, .prompt = 700},
        {.step = 5000, .decode = 2000, .prompt = 700, .position = 0.4},
        {.step = 5000, .decode = 2000, .prompt = 700, .position = 0.4, .sigma = 0.1},
        {.step = 5000, .decode = 2000, .prompt = 700, .position = 0.4, .sigma = 0.25},
        {.step = 5000, .decode = 2000, .prompt = 200, .position = 0.2, .sigma = 0.3},
    };
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        for (uint32_t seed = 1; seed <= 3; seed++) {
            struct machine m = machines[i];
            int n_step;
            m.seed = seed;
            const double p99 = p99_beside_a_long_prompt(m, &n_step);
            if (p99 > 1.5 * TARGET_MS)
                fail_msg("machine %d, seed %d: the 99th percentile of %d gaps is %.1f ms", (int)i, (int)seed, n_step, p99);
            assert_in_range(n_step, LONG_PROMPT / 512, LONG_PROMPT / 4); /* and the prompt gets on */
        }
    }
}

static void two_long_prompts_and_many_short_ones_all_get_on_and_no_stream_stops(void **state)
{
    (void)state;
    static int32_t prompt[LONG_PROMPT];
    struct mr_options o;
    mr_options_defaults(&o);
    o.max_running = 8;
    o.n_ctx = LONG_PROMPT + 64;
    o.itl_target_ms = TARGET_MS;
    machine = (struct machine){.step = 5000, .decode = 2000, .prompt = 700, .position = 0.1};
    struct mr_engine *e = simulated_engine(o);
    struct mr_request r = simulated_request(prompt, 20, -1, 1);
    const uint64_t stream = submit(e, &r);
    for (int i = 0; i < 40; i++, drop_events(e))
        mr_engine_step(e);
    uint64_t id[12];
    bool ended[12] = {false};
    for (int i = 0; i < 12; i++) {
        r = simulated_request(prompt, i < 2 ? LONG_PROMPT : 30, i < 2 ? 1 : 10, 10 + i);
        id[i] = submit(e, &r);
    }
    int n_ended = 0;
    int64_t last_us = machine.now, widest_us = 0, short_us = 0, long_us = 0;
    for (int i = 0; n_ended < 12 && i < 4000; i++) {
        mr_engine_step(e);
        for (struct mr_event event; mr_engine_next_event(e, &event);) {
            if (event.request == stream) {
                widest_us = machine.now - last_us > widest_us ? machine.now - last_us : widest_us;
                last_us = machine.now;
            }
            for (int k = 0; k < 12; k++) {
                if (event.request != id[k] || event.finish == MR_FINISH_NONE || ended[k])
                    continue;
                ended[k] = true;
                n_ended++;
                *(k < 2 ? &long_us : &short_us) = machine.now;
            }
        }
    }
    assert_int_equal(n_ended, 12);
    assert_true(widest_us <= 1500 * TARGET_MS);
    assert_true(short_us < long_us); /* the short ones do not wait for the long ones */
    mr_engine_free(e);
}

/* The longest of so many steps, in milliseconds. */
static double longest_step(struct mr_engine *e, int n)
{
    double longest = 0;
    for (int i = 0; i < n; i++, drop_events(e)) {
        const int64_t begin = machine.now;
        mr_engine_step(e);
        longest = fmax(longest, (double)(machine.now - begin) / 1e3);
    }
    return longest;
}

static void targets_may_change_while_requests_run(void **state)
{
    (void)state;
    static int32_t prompt[LONG_PROMPT];
    struct mr_options o;
    struct mr_targets t;
    struct mr_error err = {{0}};
    mr_options_defaults(&o);
    o.max_running = 2;
    o.n_ctx = LONG_PROMPT + 64;
    o.itl_target_ms = 0;
    machine = (struct machine){.step = 5000, .decode = 2000, .prompt = 700};
    struct mr_engine *e = simulated_engine(o);
    struct mr_request r = simulated_request(prompt, 20, -1, 1);
    submit(e, &r);
    longest_step(e, 40);
    r = simulated_request(prompt, LONG_PROMPT, 1, 2);
    submit(e, &r);
    assert_true(longest_step(e, 3) > 4 * TARGET_MS);
    mr_targets_of(&t, &o);
    t.itl_target_ms = -1;
    assert_int_equal(mr_engine_set_targets(e, &t, &err), MR_BAD_INPUT);
    assert_non_null(strstr(err.message, "itl_target_ms"));
    assert_true(longest_step(e, 3) > 4 * TARGET_MS);
    t.itl_target_ms = TARGET_MS;
    check(mr_engine_set_targets(e, &t, &err), &err);
    assert_true(longest_step(e, 20) < 1.5 * TARGET_MS);
    mr_engine_free(e);
}

static void assert_long_step(struct mr_engine *e)
{
    const double ms = longest_step(e, 4);
    assert_true(ms > 200 && ms <= 250);
}

static void background_steps_are_short_where_others_may_come(void **state)
{
    (void)state;
    static int32_t prompt[LONG_PROMPT];
    struct mr_options o;
    mr_options_defaults(&o);
    o.max_running = 4;
    o.n_ctx = LONG_PROMPT + 64;
    o.itl_target_ms = 200;
    machine = (struct machine){.step = 5000, .decode = 2000, .prompt = 700};
    struct mr_engine *e = simulated_engine(o);
    struct mr_request r = simulated_request(prompt, LONG_PROMPT, 20, 1);
    r.background = true;
    submit(e, &r);
    assert_long_step(e); /* nobody was there */
    struct mr_request other = simulated_request(prompt, 100, 20, 2);
    submit(e, &other);
    while (!engine_has_only_background(e))
        longest_step(e, 1);
    assert_true(longest_step(e, 20) < 1.2 * 60);
    machine.now += 11000000;
    assert_long_step(e);
    mr_engine_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(background_steps_are_short_where_others_may_come),
                                       cmocka_unit_test(targets_may_change_while_requests_run),
                                       cmocka_unit_test(gaps_beside_a_long_prompt_keep_the_target_however_steps_scatter),
                                       cmocka_unit_test(two_long_prompts_and_many_short_ones_all_get_on_and_no_stream_stops)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
