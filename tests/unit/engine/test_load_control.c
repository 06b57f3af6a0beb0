/* test_load_control.c: load, hysteresis, the correction by what was measured, lengths of answers, and promises. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/load_control.h"
#include "engine/promises.h"

static const int64_t second = 1000000;

static void load_is_the_mean_of_ten_seconds(void **state)
{
    (void)state;
    struct load_window w = {0};
    for (int i = 0; i < 300; i++) /* ten a second, of cost 5, for half a minute */
        load_window_add(&w, 7 * second + i * second / 10, 5);
    assert_true(load_window_rate(&w, 37 * second) > 47 && load_window_rate(&w, 37 * second) < 53);
    assert_true(load_window_rate(&w, 42 * second) > 20 && load_window_rate(&w, 42 * second) < 30);
    assert_true(load_window_rate(&w, 48 * second) == 0);
    assert_true(load_window_rate(&w, 4800 * second) == 0);
}

static void a_burst_counts_over_a_second_at_least(void **state)
{
    (void)state;
    struct load_window w = {0};
    load_window_add(&w, 100, 50);
    assert_true(load_window_rate(&w, 101) == 50);
}

static void the_position_is_linear_between_the_thresholds_and_goes_back_late(void **state)
{
    (void)state;
    assert_true(load_position(0, 0.5, 0.6, 0.8) == 0);
    assert_true(load_position(0, 0.9, 0.6, 0.8) == 1);
    const double middle = load_position(0, 0.7, 0.6, 0.8);
    assert_true(middle > 0.49 && middle < 0.51);
    assert_true(load_position(1, 0.78, 0.6, 0.8) == 1); /* as before: not 5 % lower yet */
    assert_true(load_position(1, 0.70, 0.6, 0.8) < 0.8);
    assert_true(load_position(middle, 0.68, 0.6, 0.8) == middle);
    assert_true(load_position(1, 0.5, 0.6, 0.8) == 0);
    assert_true(load_position(0.5, 0.7, 0.7, 0.7) == 0.5); /* a step */
}

static void the_part_of_the_target_falls_by_a_factor_and_rises_by_steps(void **state)
{
    (void)state;
    struct target_control t;
    target_control_init(&t);
    const double start = t.part;
    target_control_note(&t, 1.2, second, 2 * second);
    assert_true(t.part == start * t.down);
    const double low = t.part;
    for (int i = 0; i < 20; i++) /* let in before that */
        target_control_note(&t, 1.2, second + i, 3 * second);
    assert_true(t.part == low);
    target_control_note(&t, 0.3, 4 * second, 5 * second);
    assert_true(t.part > low && t.part - low < 0.01);
    for (int i = 0; i < 10000; i++)
        target_control_note(&t, 0.3, 4 * second, 5 * second);
    assert_true(t.part > 0.8 && t.part < 1);
    for (int i = 0; i < 1000; i++)
        target_control_note(&t, 9, i * 10 * second, i * 10 * second + 1);
    assert_true(t.part > 0.1); /* something is always let in */
}

/* A delay that scatters: with 1 of 100 late at most the part stays where it is. */
static void the_part_settles_where_few_are_late(void **state)
{
    (void)state;
    struct target_control t;
    int n_late = 0;
    target_control_init(&t);
    for (int i = 0; i < 200000; i++) {
        const double share = t.part * (0.9 + 0.4 * (i * 7919LL % 10007) / 10007.0); /* 1.3 of the forecast at most */
        target_control_note(&t, share, i * second, i * second + 1);
        n_late += i >= 100000 && share > t.late;
    }
    assert_in_range(n_late, 100, 1000);
    assert_true(t.part > 0.6 && t.part < 0.75);
}

static void one_late_answer_of_a_hundred_is_none(void **state)
{
    (void)state;
    struct target_control t;
    target_control_init(&t);
    for (int i = 0; i < 127; i++)
        target_control_note(&t, 0.5, 0, 0);
    target_control_note(&t, 3, 0, 0);
    assert_true(target_control_p99(&t) == 0.5);
    target_control_note(&t, 2, 0, 0);
    assert_true(target_control_p99(&t) == 2);
}

static void percentiles_of_lengths(void **state)
{
    (void)state;
    struct recent_lengths r = {0};
    assert_int_equal(recent_lengths_percentile(&r, 70), -1);
    recent_lengths_note(&r, 9);
    assert_int_equal(recent_lengths_percentile(&r, 70), 9);
    for (int i = 1; i <= 10; i++)
        recent_lengths_note(&r, i);
    for (int i = 0; i < LENGTHS_RECENT; i++) /* only the last ones count */
        recent_lengths_note(&r, i * 7 % LENGTHS_RECENT);
    assert_int_equal(recent_lengths_percentile(&r, 70), 22);
    assert_int_equal(recent_lengths_percentile(&r, 100), 31);
}

static void what_is_left_is_that_of_answers_as_long(void **state)
{
    (void)state;
    struct recent_lengths r = {0};
    for (int i = 1; i <= 10; i++)
        recent_lengths_note(&r, 10 * i);
    assert_int_equal(recent_lengths_beyond(&r, 0, 70, NULL, 0), 70);
    assert_int_equal(recent_lengths_beyond(&r, 80, 70, NULL, 0), 100);
    assert_int_equal(recent_lengths_beyond(&r, 79, 30, NULL, 0), 80);
    assert_int_equal(recent_lengths_beyond(&r, 100, 30, NULL, 0), -1);
}

static void answers_that_still_run_count_as_longer(void **state)
{
    (void)state;
    struct recent_lengths r = {0};
    static const int32_t running[] = {5, 25, 60, 60, 60, 60};
    for (int i = 1; i <= 4; i++)
        recent_lengths_note(&r, 10 * i);
    assert_int_equal(recent_lengths_beyond(&r, 0, 50, NULL, 0), 20);
    /* 10: one of nine ends, 20: one of eight, 30: one of six, 40: one of five; 5 and 25 tell nothing of what is longer */
    assert_int_equal(recent_lengths_beyond(&r, 0, 11, running, 6), 10);
    assert_int_equal(recent_lengths_beyond(&r, 0, 22, running, 6), 20);
    assert_int_equal(recent_lengths_beyond(&r, 0, 35, running, 6), 30);
    assert_int_equal(recent_lengths_beyond(&r, 0, 48, running, 6), 40);
    assert_int_equal(recent_lengths_beyond(&r, 0, 49, running, 6), -1);
    assert_int_equal(recent_lengths_beyond(&r, 30, 20, running, 6), 40);
}

static void each_of_the_refused_is_told_a_time_of_its_own(void **state)
{
    (void)state;
    struct promises p;
    double cost;
    promises_init(&p);
    int64_t last = 0;
    for (int i = 0; i < 2 * PROMISES_MAX; i++) {
        const int64_t due = promises_make(&p, second, 2 * second, 1, 100, 200000);
        assert_true(due >= 2 * second && due > last);
        last = due;
    }
    assert_true(promises_due(&p, 1000 * second, &cost) == 0); /* nobody has ever come back */
    for (int i = 0; i < 60; i++)
        promises_keep(&p, i % 2 == 0 ? 1 : 2); /* key 2 was promised nothing */
    assert_true(p.come_back > 0.5);
    assert_true(promises_due(&p, 1000 * second, &cost) > 100 && cost > 10000);
    promises_expire(&p, 10000 * second);
    assert_int_equal(p.n, 0);
    assert_true(p.come_back < 0.01);
    assert_true(promises_make(&p, 20000 * second, 20001 * second, 1, 100, 200000) == 20001 * second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load_is_the_mean_of_ten_seconds),
        cmocka_unit_test(a_burst_counts_over_a_second_at_least),
        cmocka_unit_test(the_position_is_linear_between_the_thresholds_and_goes_back_late),
        cmocka_unit_test(the_part_of_the_target_falls_by_a_factor_and_rises_by_steps),
        cmocka_unit_test(the_part_settles_where_few_are_late),
        cmocka_unit_test(one_late_answer_of_a_hundred_is_none),
        cmocka_unit_test(what_is_left_is_that_of_answers_as_long),
        cmocka_unit_test(answers_that_still_run_count_as_longer),
        cmocka_unit_test(percentiles_of_lengths),
        cmocka_unit_test(each_of_the_refused_is_told_a_time_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
