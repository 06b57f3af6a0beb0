/* test_runners.c: who may join a batch in which others have to end in time, and when. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/runners.h"

/* A step takes 10, and 1 for each answer. */
static const struct pace pace = {.step = 10, .decode = 1, .prompt = 1};

static struct runner runner(double left, double until) { return (struct runner){0, left, left, until, 0}; }

static void whoever_comes_to_an_empty_batch_joins(void **state)
{
    (void)state;
    const struct runners none = {.n = 0};
    const struct runner hopeless = runner(100, 1);
    assert_true(runners_may_join(&none, &pace, &hopeless));
}

static void nobody_joins_who_makes_another_late(void **state)
{
    (void)state;
    const struct runner x = runner(10, INFINITY);
    struct runners r = {.run = {runner(10, 110)}, .n = 1}; /* alone it takes exactly that */
    assert_false(runners_may_join(&r, &pace, &x));
    r.run[0].until_us = 120;
    assert_true(runners_may_join(&r, &pace, &x));
    r.run[0].until_us = 109; /* it is late anyway */
    assert_true(runners_may_join(&r, &pace, &x));
}

static void the_rows_of_a_prompt_take_their_time_from_the_others(void **state)
{
    (void)state;
    struct runner x = runner(10, INFINITY);
    const struct runners r = {.run = {runner(10, 130)}, .n = 1};
    x.prompt_us = 10;
    assert_true(runners_may_join(&r, &pace, &x));
    x.prompt_us = 11;
    assert_false(runners_may_join(&r, &pace, &x));
}

/* Beside one that has 5 tokens left it takes 5 steps of 12, then 5 of 11. */
static void an_answer_gets_faster_when_others_end(void **state)
{
    (void)state;
    struct runners r = {.run = {runner(5, INFINITY)}, .n = 1};
    struct runner x = runner(10, INFINITY);
    double start;
    assert_true(runners_join(&r, &pace, &x, 8, &start) == 5 * 12 + 5 * 11);
    assert_true(start == 0);
    assert_int_equal(r.n, 2);
}

static void who_cannot_join_now_does_when_another_has_ended(void **state)
{
    (void)state;
    struct runners r = {.run = {runner(10, 115), runner(4, INFINITY)}, .n = 2}; /* the first takes 4 x 12 + 6 x 11 */
    const struct runner x = runner(10, INFINITY);
    double start;
    runners_join(&r, &pace, &x, 8, &start);
    assert_true(start == 4 * 12 + 6 * 11);
    r = (struct runners){.run = {runner(10, INFINITY), runner(4, INFINITY)}, .n = 2};
    runners_join(&r, &pace, &x, 2, &start); /* no more than two */
    assert_true(start == 4 * 12);
    assert_int_equal(r.n, 2);
}

/* Within the slack of its time it is kept from more, though it may be late anyway. */
static void slack_is_kept_for_what_is_not_expected(void **state)
{
    (void)state;
    const struct runner x = runner(10, INFINITY);
    struct runners r = {.run = {{.left = 10, .longest = 10, .until_us = 125, .slack_us = 10}}, .n = 1};
    assert_false(runners_may_join(&r, &pace, &x)); /* it would take 120 */
    r.run[0].until_us = 101;                       /* alone it takes 110 */
    assert_false(runners_may_join(&r, &pace, &x));
    r.run[0].until_us = 99;
    assert_true(runners_may_join(&r, &pace, &x));
    r.run[0].until_us = 130;
    assert_true(runners_may_join(&r, &pace, &x));
}

static void an_answer_that_may_become_longer_has_time_for_that(void **state)
{
    (void)state;
    struct runner x = runner(10, 200);
    const struct runners r = {.run = {{.left = 5, .longest = 10, .until_us = 120}}, .n = 1};
    assert_true(runners_may_join(&r, &pace, &x));
    struct runners tight = r;
    tight.run[0].until_us = 119;
    assert_false(runners_may_join(&tight, &pace, &x));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whoever_comes_to_an_empty_batch_joins),
                                       cmocka_unit_test(nobody_joins_who_makes_another_late),
                                       cmocka_unit_test(the_rows_of_a_prompt_take_their_time_from_the_others),
                                       cmocka_unit_test(an_answer_gets_faster_when_others_end),
                                       cmocka_unit_test(who_cannot_join_now_does_when_another_has_ended),
                                       cmocka_unit_test(slack_is_kept_for_what_is_not_expected),
                                       cmocka_unit_test(an_answer_that_may_become_longer_has_time_for_that)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
