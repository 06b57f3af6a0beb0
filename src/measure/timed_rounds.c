/* timed_rounds.c: threads that start each round together at a spinning barrier: one that sleeps wakes its threads up to
 * 100 microseconds apart, 2 % of a round. */
#include "measure/timed_rounds.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"

enum {
    SPINS = 4000 /* then the CPU is offered to others */
};

struct team {
    int n_threads, n_round;
    timed_work_fn *work;
    void *ctx;
    const atomic_bool *stop;
    atomic_int n_waiting;
    atomic_uint generation;
    atomic_bool quit;           /* set by the last thread at a barrier, so that all leave at the same one */
    int64_t *start_us, *end_us; /* [n_round][n_threads] */
};

struct member {
    struct team *team;
    int number;
    pthread_t thread;
};

static void barrier_wait(struct team *t)
{
    const unsigned generation = atomic_load(&t->generation);
    if (atomic_fetch_add(&t->n_waiting, 1) + 1 == t->n_threads) {
        atomic_store(&t->n_waiting, 0);
        if (t->stop != NULL && atomic_load(t->stop))
            atomic_store(&t->quit, true);
        atomic_fetch_add(&t->generation, 1);
        return;
    }
    for (int i = 0; atomic_load(&t->generation) == generation && !atomic_load(&t->quit); i++)
        if (i > SPINS)
            sched_yield();
}

static void *member_run(void *arg)
{
    const struct member *m = arg;
    struct team *t = m->team;
    for (int r = 0; r < t->n_round; r++) {
        barrier_wait(t);
        if (atomic_load(&t->quit))
            break;
        const int at = r * t->n_threads + m->number;
        t->start_us[at] = clock_us();
        t->work(t->ctx, m->number, r);
        t->end_us[at] = clock_us();
    }
    return NULL;
}

/* Start and join all; where one cannot be started, those that were are sent home. */
static enum mr_status run_members(struct team *t, struct member *member, struct mr_error *err)
{
    int n = 0;
    for (; n < t->n_threads; n++) {
        member[n] = (struct member){.team = t, .number = n};
        if (pthread_create(&member[n].thread, NULL, member_run, &member[n]) != 0)
            break;
    }
    const int n_started = n;
    if (n_started < t->n_threads)
        atomic_store(&t->quit, true);
    while (n > 0)
        pthread_join(member[--n].thread, NULL);
    if (n_started < t->n_threads)
        return mr_fail(err, MR_NO_SUPPORT, "the system starts only %d of %d threads", n_started, t->n_threads);
    return atomic_load(&t->quit) ? mr_fail(err, MR_CANCELLED, "stopped") : MR_OK;
}

static double round_seconds(const struct team *t, int round)
{
    const int64_t *start = t->start_us + (size_t)round * (size_t)t->n_threads;
    const int64_t *end = t->end_us + (size_t)round * (size_t)t->n_threads;
    int64_t first = start[0], last = end[0];
    for (int i = 1; i < t->n_threads; i++) {
        first = start[i] < first ? start[i] : first;
        last = end[i] > last ? end[i] : last;
    }
    return last > first ? (double)(last - first) * 1e-6 : 1e-6;
}

enum mr_status timed_rounds(double *seconds, int n_threads, int n_round, timed_work_fn *work, void *ctx,
                            const atomic_bool *stop, struct mr_error *err)
{
    struct team t = {.n_threads = n_threads, .n_round = n_round, .work = work, .ctx = ctx, .stop = stop};
    const size_t n = (size_t)n_threads * (size_t)n_round;
    struct member *member = mem_array((size_t)n_threads, sizeof *member);
    t.start_us = mem_array(n, sizeof *t.start_us);
    t.end_us = mem_array(n, sizeof *t.end_us);
    enum mr_status status = member != NULL && t.start_us != NULL && t.end_us != NULL
                                ? run_members(&t, member, err)
                                : mr_fail(err, MR_NO_MEMORY, "no memory for the times of %d threads", n_threads);
    for (int r = 0; r < n_round && status == MR_OK; r++)
        seconds[r] = round_seconds(&t, r);
    free(member);
    free(t.start_us);
    free(t.end_us);
    return status;
}
