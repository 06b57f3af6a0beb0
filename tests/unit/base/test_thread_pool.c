/* test_thread_pool.c: fork and join. */
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/cpu_limit.h"
#include "base/thread_pool.h"

enum {
    MAX_PIECES = 4096
};

struct count {
    int runs[MAX_PIECES]; /* each place is written by one piece alone */
    int thread[MAX_PIECES];
    int rounding[MAX_PIECES];
};

static void count_piece(void *context, int piece, int thread)
{
    struct count *c = context;
    c->runs[piece]++;
    c->thread[piece] = thread;
    c->rounding[piece] = fegetround();
}

static struct thread_pool *make_pool(int n)
{
    struct thread_pool *pool;
    assert_int_equal(pool_create(&pool, n, NULL), MR_OK);
    return pool;
}

static void note_cpus(void *context, int piece, int thread)
{
    cpu_set_t *const set = context;
    (void)piece;
    assert_int_equal(sched_getaffinity(0, sizeof *set, &set[thread]), 0);
    const struct timespec pause = {.tv_nsec = 2000000}; /* so that the other thread takes a piece */
    nanosleep(&pause, NULL);
}

static void pinned_threads_may_use_one_cpu(void **state)
{
    (void)state;
    cpu_set_t before, seen[2];
    CPU_ZERO(&seen[1]);
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    struct thread_pool *pool = make_pool(2);
    assert_int_equal(pool_pin(pool, NULL), MR_OK);
    for (int i = 0; i < 100 && CPU_COUNT(&seen[1]) == 0; i++)
        pool_run(pool, note_cpus, seen, 4);
    assert_int_equal(CPU_COUNT(&seen[1]), 1);
    assert_true(CPU_EQUAL(&seen[0], &before)); /* the caller stays where it was */
    pool_free(pool);
}

static void each_piece_runs_once(void **state)
{
    (void)state;
    static struct count c;
    for (int n_thread = 1; n_thread <= 5; n_thread++) {
        struct thread_pool *pool = make_pool(n_thread);
        assert_int_equal(pool_n_thread(pool), n_thread);
        static const int sizes[] = {0, 1, 2, 3, 17, 64, MAX_PIECES};
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            memset(&c, 0, sizeof c);
            pool_run(pool, count_piece, &c, sizes[s]);
            for (int i = 0; i < MAX_PIECES; i++) {
                assert_int_equal(c.runs[i], i < sizes[s]);
                assert_in_range(c.thread[i], 0, n_thread - 1);
            }
        }
        pool_free(pool);
    }
}

static void many_short_jobs_follow_each_other(void **state)
{
    (void)state;
    static struct count c;
    memset(&c, 0, sizeof c);
    struct thread_pool *pool = make_pool(4);
    for (int job = 0; job < 5000; job++)
        pool_run(pool, count_piece, &c, 1 + job % 7);
    int total = 0, want = 0;
    for (int i = 0; i < MAX_PIECES; i++)
        total += c.runs[i];
    for (int job = 0; job < 5000; job++)
        want += 1 + job % 7;
    assert_int_equal(total, want);
    pool_free(pool);
}

static void sleeping_threads_wake(void **state)
{
    (void)state;
    static struct count c;
    memset(&c, 0, sizeof c);
    struct thread_pool *pool = make_pool(3);
    for (int job = 0; job < 5; job++) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        pool_run(pool, count_piece, &c, 100);
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(c.runs[i], 5);
    pool_free(pool);
}

static void pieces_round_to_nearest_whatever_the_caller_set(void **state)
{
    (void)state;
    static struct count c;
    struct thread_pool *pool = make_pool(2);
    fesetround(FE_UPWARD);
    pool_run(pool, count_piece, &c, 50);
    assert_int_equal(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    for (int i = 0; i < 50; i++)
        assert_int_equal(c.rounding[i], FE_TONEAREST);
    pool_free(pool);
}

struct absence {
    _Atomic int n_begun, n_done;
    int n_done_meanwhile;
};

/* The first piece takes until all others are done, as if its thread had lost its CPU. */
static void be_absent(void *context, int piece, int thread)
{
    struct absence *a = context;
    (void)piece;
    (void)thread;
    if (a->n_begun++ == 0) {
        const struct timespec pause = {.tv_nsec = 1000000};
        for (int i = 0; i < 20000 && a->n_done < MAX_PIECES - 1; i++)
            nanosleep(&pause, NULL);
        a->n_done_meanwhile = a->n_done;
    }
    a->n_done++;
}

static void an_absent_thread_holds_up_one_piece(void **state)
{
    (void)state;
    struct thread_pool *pool = make_pool(2);
    struct absence a = {0};
    pool_run(pool, be_absent, &a, MAX_PIECES);
    assert_int_equal(a.n_done_meanwhile, MAX_PIECES - 1);
    pool_free(pool);
}

static void look_at_signals(void *context, int piece, int thread)
{
    sigset_t held;
    bool *fails = context;
    pthread_sigmask(SIG_BLOCK, NULL, &held);
    fails[piece] = sigismember(&held, SIGINT) != (thread != 0) || sigismember(&held, SIGSEGV) != 0;
}

static void signals_go_to_the_caller(void **state)
{
    (void)state;
    bool fails[1000];
    sigset_t held;
    struct thread_pool *pool = make_pool(4);
    for (int job = 0; job < 10; job++) {
        pool_run(pool, look_at_signals, fails, 1000);
        for (int i = 0; i < 1000; i++)
            assert_false(fails[i]);
    }
    pool_free(pool);
    pthread_sigmask(SIG_BLOCK, NULL, &held);
    assert_int_equal(sigismember(&held, SIGINT), 0);
}

static void number_of_threads_is_checked(void **state)
{
    (void)state;
    struct thread_pool *pool;
    struct mr_error err;
    assert_int_equal(pool_create(&pool, -1, &err), MR_BAD_INPUT);
    assert_null(pool);
    assert_string_equal(err.message, "threads: -1 is not in 0..1024");
    assert_int_equal(pool_create(&pool, POOL_MAX_THREADS + 1, NULL), MR_BAD_INPUT);
    pool = make_pool(0);
    assert_int_equal(pool_n_thread(pool), cpu_limit());
    pool_free(pool);
    pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_piece_runs_once),
        cmocka_unit_test(pinned_threads_may_use_one_cpu),
        cmocka_unit_test(many_short_jobs_follow_each_other),
        cmocka_unit_test(sleeping_threads_wake),
        cmocka_unit_test(pieces_round_to_nearest_whatever_the_caller_set),
        cmocka_unit_test(an_absent_thread_holds_up_one_piece),
        cmocka_unit_test(number_of_threads_is_checked),
        cmocka_unit_test(signals_go_to_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
