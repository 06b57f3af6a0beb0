/* test_step_cost.c: the fitted cost of a step, and fair shares; all time is simulated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/fair_share.h"
#include "engine/step_cost.h"

/* A machine: 3 ms a step, 1 ms an answer's row, 0.25 ms a prompt's row, 0.2 us an attended position. */
static double machine_us(const struct step_shape *s)
{
    return 3000 + 1000.0 * s->n_decode + 250.0 * s->n_prompt + 0.2 * s->attended;
}

static void observe(struct step_cost *c, int n_decode, int n_prompt, double attended, double noise)
{
    const struct step_shape s = {n_decode, n_prompt, attended, 0};
    step_cost_observe(c, &s, (int64_t)(machine_us(&s) * noise));
}

static void learn(struct step_cost *c)
{
    for (int i = 0; i < 60; i++) {
        const int n_prompt = i % 3 == 0 ? 0 : i * 37 % 200;
        observe(c, i % 9, n_prompt, (i % 9) * 500 + step_attended(i * 91 % 3000, n_prompt), 1 + (i * 13 % 7 - 3) * 0.01);
    }
}

static void assert_near(double got, double want, double share)
{
    assert_true(got > want * (1 - share) && got < want * (1 + share));
}

static void predictions_come_close_to_the_machine(void **state)
{
    (void)state;
    struct step_cost c = {0};
    learn(&c);
    static const struct step_shape shapes[] = {
        {8, 0, 4000, 0}, {8, 64, 200000, 0}, {0, 512, 131000, 0}, {1, 0, 100, 0}, {4, 100, 5000, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        assert_near(step_cost_us(&c, &shapes[i]), machine_us(&shapes[i]), 0.1);
    assert_near(step_cost_prompt_row_us(&c), 250, 0.2);
    assert_near(step_cost_decode_weight(&c), 4, 0.3);
}

static void rows_fit_the_budget_and_deep_ones_cost_more(void **state)
{
    (void)state;
    struct step_cost c = {0};
    learn(&c);
    const struct step_shape decoding = {8, 0, 4000, 0};
    const int shallow = step_cost_rows(&c, &decoding, 0, 1000, 50000), deep = step_cost_rows(&c, &decoding, 6000, 1000, 50000);
    assert_true(deep < shallow && deep > 0);
    const struct step_shape both = {8, deep, 4000 + step_attended(6000, deep), 0};
    assert_true(machine_us(&both) < 55000 && machine_us(&both) > 40000);
    assert_int_equal(step_cost_rows(&c, &decoding, 0, 10, 50000), 10);
    assert_int_equal(step_cost_rows(&c, &decoding, 0, 10, 1000), 0);
}

static void a_changed_machine_is_learnt_again(void **state)
{
    (void)state;
    struct step_cost c = {0};
    learn(&c);
    for (int i = 0; i < 300; i++)
        observe(&c, i % 9, i * 37 % 200, 0, 3);
    const struct step_shape s = {8, 64, 0, 0};
    assert_near(step_cost_us(&c, &s), 3 * machine_us(&s), 0.1);
}

static void one_hiccup_does_not_spoil_the_fit(void **state)
{
    (void)state;
    struct step_cost c = {0};
    learn(&c);
    observe(&c, 8, 0, 4000, 100);
    const struct step_shape s = {8, 64, 20000, 0};
    assert_near(step_cost_us(&c, &s), machine_us(&s), 0.25);
}

static void drafts_have_a_price_of_their_own(void **state)
{
    (void)state;
    struct step_cost c = {0};
    for (int i = 0; i < 60; i++) { /* one stream, 4 ms a step, 0.5 ms a draft */
        const struct step_shape s = {1, 0, 100, i % 4};
        step_cost_observe(&c, &s, 4000 + 500 * s.n_draft);
    }
    const struct step_shape one = {1, 0, 100, 3};
    assert_near(step_cost_draft_row_us(&c), 500, 0.1);
    assert_near(step_cost_draft_share(&c, &one), 0.125, 0.1);
    assert_near(step_cost_us(&c, &one), 5500, 0.05);
}

static void scatter_is_what_two_of_a_hundred_steps_exceed(void **state)
{
    (void)state;
    struct step_cost c = {0};
    assert_true(step_cost_scatter(&c) == 1);
    learn(&c);
    assert_true(step_cost_scatter(&c) < 1.1);
    for (int i = 0; i < 400; i++)
        observe(&c, i % 9, i * 37 % 200, (i % 9) * 500, i % 20 == 0 ? 2 : 1);
    assert_near(step_cost_scatter(&c), 2, 0.1);
    for (int i = 0; i < 200; i++) /* one hiccup is no scatter */
        observe(&c, i % 9, i * 37 % 200, (i % 9) * 500, i == 100 ? 50 : 1);
    assert_true(step_cost_scatter(&c) < 1.1);
}

static void batches_of_one_size_tell_nothing_about_others(void **state)
{
    (void)state;
    struct step_cost c = {0};
    for (int i = 0; i < 100; i++)
        observe(&c, 1, 0, 100, 1);
    assert_false(step_cost_knows_batches(&c));
    for (int i = 0; i < 30; i++)
        observe(&c, 1 + i % 3, 0, 100, 1);
    assert_true(step_cost_knows_batches(&c));
    const struct step_shape eight = {8, 0, 800, 0}, with_prompts = {8, 16, 800 + 16 * 100.0, 0};
    assert_near(step_cost_batch_us(&c, 8, 100, 0), step_cost_us(&c, &eight), 0.01);
    learn(&c);
    assert_near(step_cost_batch_us(&c, 8, 100, 2), step_cost_us(&c, &with_prompts), 0.01);
}

static void nothing_is_known_at_first(void **state)
{
    (void)state;
    struct step_cost c = {0};
    const struct step_shape decoding = {8, 0, 4000, 0};
    assert_true(step_cost_us(&c, &decoding) == 0);
    assert_true(step_cost_decode_weight(&c) == 1);
    assert_true(step_cost_draft_share(&c, &decoding) == 0);
    const int n = step_cost_rows(&c, &decoding, 0, 5000, 50000);
    assert_true(n > 0 && n < 100);
    step_cost_observe(&c, &decoding, 0); /* a clock that stands still teaches nothing */
    assert_int_equal(c.n_seen, 0);
}

static void keys_share_evenly_whatever_they_ask_for(void **state)
{
    (void)state;
    struct fair_share f;
    assert_true(fair_share_init(&f, 10));
    const int a = fair_share_enter(&f, 1), b = fair_share_enter(&f, 2);
    for (int i = 0; i < 1000; i++) { /* requests of the first key cost three times as much */
        const int next = fair_share_served(&f, a) <= fair_share_served(&f, b) ? a : b;
        fair_share_chosen(&f, next);
        fair_share_charge(&f, next, next == a ? 30 : 10);
    }
    assert_near(fair_share_served(&f, a), fair_share_served(&f, b), 0.01);
    fair_share_release(&f);
}

static void a_key_cannot_save_up(void **state)
{
    (void)state;
    struct fair_share f;
    assert_true(fair_share_init(&f, 3));
    const int a = fair_share_enter(&f, 1);
    fair_share_leave(&f, fair_share_enter(&f, 2));
    fair_share_charge(&f, a, 1000);
    fair_share_chosen(&f, a);
    assert_true(fair_share_served(&f, fair_share_enter(&f, 2)) == 1000); /* comes back, and is not owed 1000 */
    assert_true(fair_share_served(&f, fair_share_enter(&f, 3)) == 1000); /* nor is a new one */
    fair_share_release(&f);
}

static void places_are_used_again(void **state)
{
    (void)state;
    struct fair_share f;
    assert_true(fair_share_init(&f, 4));
    for (uint64_t key = 0; key < 1000; key++) {
        const int place = fair_share_enter(&f, key);
        assert_in_range(place, 0, 3);
        fair_share_charge(&f, place, 1);
        fair_share_leave(&f, place);
    }
    fair_share_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_come_close_to_the_machine),
        cmocka_unit_test(rows_fit_the_budget_and_deep_ones_cost_more),
        cmocka_unit_test(a_changed_machine_is_learnt_again),
        cmocka_unit_test(one_hiccup_does_not_spoil_the_fit),
        cmocka_unit_test(drafts_have_a_price_of_their_own),
        cmocka_unit_test(scatter_is_what_two_of_a_hundred_steps_exceed),
        cmocka_unit_test(batches_of_one_size_tell_nothing_about_others),
        cmocka_unit_test(nothing_is_known_at_first),
        cmocka_unit_test(keys_share_evenly_whatever_they_ask_for),
        cmocka_unit_test(a_key_cannot_save_up),
        cmocka_unit_test(places_are_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
