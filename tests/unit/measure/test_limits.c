/* test_limits.c: rounds of work on several threads, and the machine's limits as far as they do not depend on it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/memory_free.h"
#include "measure/limits.h"
#include "measure/timed_rounds.h"

enum {
    THREADS = 3,
    ROUNDS = 5
};

struct seen {
    atomic_int n[ROUNDS][THREADS];
    atomic_int n_ended;
    atomic_bool overlap; /* a thread began a round while another was still in the one before */
    atomic_bool stop;
};

static void record(void *ctx, int thread, int round)
{
    struct seen *seen = ctx;
    if (atomic_load(&seen->n_ended) < round * THREADS)
        atomic_store(&seen->overlap, true);
    atomic_fetch_add(&seen->n[round][thread], 1);
    atomic_fetch_add(&seen->n_ended, 1);
}

static void every_thread_works_once_in_every_round(void **state)
{
    (void)state;
    struct seen seen;
    memset(&seen, 0, sizeof seen);
    double seconds[ROUNDS] = {0};
    assert_int_equal(timed_rounds(seconds, THREADS, ROUNDS, record, &seen, NULL, NULL), MR_OK);
    for (int r = 0; r < ROUNDS; r++) {
        assert_true(seconds[r] > 0);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(atomic_load(&seen.n[r][i]), 1);
    }
    assert_false(atomic_load(&seen.overlap));
}

static void stop_in_round_two(void *ctx, int thread, int round)
{
    struct seen *seen = ctx;
    record(ctx, thread, round);
    if (round == 2)
        atomic_store(&seen->stop, true);
}

static void stop_ends_all_threads_before_the_next_round(void **state)
{
    (void)state;
    struct seen seen;
    memset(&seen, 0, sizeof seen);
    double seconds[ROUNDS];
    struct mr_error err;
    assert_int_equal(timed_rounds(seconds, THREADS, ROUNDS, stop_in_round_two, &seen, &seen.stop, &err), MR_CANCELLED);
    assert_int_equal(atomic_load(&seen.n_ended), 3 * THREADS);
}

static void limits_are_stopped_by_a_flag_that_is_set(void **state)
{
    (void)state;
    struct limits l;
    const atomic_bool stop = true;
    assert_int_equal(limits_measure(&l, 2, cpu_detect(), &stop, NULL), MR_CANCELLED);
}

static void limits_hold_what_every_machine_has(void **state)
{
    (void)state;
    struct limits l;
    struct mr_error err = {{0}};
    assert_int_equal(limits_measure(&l, 1, cpu_detect(), NULL, &err), MR_OK);
    assert_true(l.gops[PEAK_F32] > 0 && l.gops[PEAK_INT8] > 0);
    assert_true(l.read_gb_s > 0 && l.read_bytes > 0 && l.clock_ghz > 0);
    assert_true(limits_gops(&l, PEAK_BF16) > 0);
}

static void memory_in_use_is_at_most_its_peak(void **state)
{
    (void)state;
    assert_true(memory_free_bytes() > 0);
    const size_t now = memory_resident_bytes();
    assert_true(now > 0 && now <= memory_peak_bytes());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_works_once_in_every_round),
        cmocka_unit_test(stop_ends_all_threads_before_the_next_round),
        cmocka_unit_test(limits_are_stopped_by_a_flag_that_is_set),
        cmocka_unit_test(limits_hold_what_every_machine_has),
        cmocka_unit_test(memory_in_use_is_at_most_its_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
