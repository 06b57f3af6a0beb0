/* thread_pool.c: the ticket, a 64-bit word, holds the number of the present job and how many of its pieces nobody has taken
 * yet. A piece is taken by a compare-and-swap on the whole word, so a thread that wakes late, with the fields of an older job
 * in hand, takes nothing. */
#include "base/thread_pool.h"

#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cpu_limit.h"
#include "base/memory.h"
#include "base/thread_pin.h"
#include "base/thread_start.h"

enum {
    SPIN = 8000, /* polls before sleeping: one or two hundred microseconds, more than any gap between two jobs of a step */
    CACHE_LINE = 64
};

struct worker {
    struct thread_pool *pool;
    pthread_t thread;
    int index;
};

struct thread_pool {
    _Alignas(CACHE_LINE) _Atomic uint64_t ticket; /* job number << 32 | pieces left to take */
    _Alignas(CACHE_LINE) _Atomic int n_left;      /* pieces of the job that have not returned */
    /* The job; written only while no piece of it can be taken. */
    _Alignas(CACHE_LINE) _Atomic(pool_piece_fn *) piece;
    _Atomic(void *) context;
    _Atomic int n_piece;
    _Atomic int n_sleeper; /* workers that sleep, or are about to and look at the ticket once more */
    _Atomic bool caller_sleeps;
    _Atomic bool stop;
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_cond_t done;
    struct worker *worker; /* [n_thread], the caller's place 0 unused */
    int n_thread;
    int n_cpu; /* more threads than these are never woken at a time: they would take each other's CPU */
};

static void spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void piece_returned(struct thread_pool *pool)
{
    if (atomic_fetch_sub(&pool->n_left, 1) != 1 || !atomic_load(&pool->caller_sleeps))
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->lock);
}

/* Take and run pieces until none is left. */
static void run_pieces(struct thread_pool *pool, int thread)
{
    uint64_t ticket = atomic_load(&pool->ticket);
    while ((uint32_t)ticket != 0) {
        pool_piece_fn *piece = atomic_load_explicit(&pool->piece, memory_order_relaxed);
        void *context = atomic_load_explicit(&pool->context, memory_order_relaxed);
        const int n_piece = atomic_load_explicit(&pool->n_piece, memory_order_relaxed);
        if (!atomic_compare_exchange_weak(&pool->ticket, &ticket, ticket - 1))
            continue;
        piece(context, n_piece - (int)(uint32_t)ticket, thread);
        piece_returned(pool);
        ticket = atomic_load(&pool->ticket);
    }
}

static bool has_work(struct thread_pool *pool) { return (uint32_t)atomic_load(&pool->ticket) != 0 || atomic_load(&pool->stop); }

static void wait_for_work(struct thread_pool *pool)
{
    for (int i = 0; i < SPIN; i++) {
        if (has_work(pool))
            return;
        spin_pause();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->n_sleeper, 1);
    while (!has_work(pool))
        pthread_cond_wait(&pool->work, &pool->lock);
    atomic_fetch_sub(&pool->n_sleeper, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *argument)
{
    const struct worker *w = argument;
    fesetenv(FE_DFL_ENV);
    while (!atomic_load(&w->pool->stop)) {
        wait_for_work(w->pool);
        run_pieces(w->pool, w->index);
    }
    return NULL;
}

static void wait_for_pieces(struct thread_pool *pool)
{
    for (int i = 0; i < SPIN; i++) {
        if (atomic_load(&pool->n_left) == 0)
            return;
        spin_pause();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_sleeps, true);
    while (atomic_load(&pool->n_left) != 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->lock);
}

static void run_alone(pool_piece_fn *piece, void *context, int n_piece)
{
    for (int i = 0; i < n_piece; i++)
        piece(context, i, 0);
}

/* As many sleepers as there are CPUs for. */
static void wake_workers(struct thread_pool *pool)
{
    const int n_sleeper = atomic_load(&pool->n_sleeper), n_awake = pool->n_thread - n_sleeper;
    if (n_sleeper == 0 || n_awake >= pool->n_cpu)
        return;
    pthread_mutex_lock(&pool->lock);
    if (pool->n_thread <= pool->n_cpu)
        pthread_cond_broadcast(&pool->work);
    else
        for (int i = n_awake; i < pool->n_cpu; i++)
            pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

static void run_shared(struct thread_pool *pool, pool_piece_fn *piece, void *context, int n_piece)
{
    const uint64_t job = (atomic_load(&pool->ticket) >> 32) + 1;
    atomic_store_explicit(&pool->piece, piece, memory_order_relaxed);
    atomic_store_explicit(&pool->context, context, memory_order_relaxed);
    atomic_store_explicit(&pool->n_piece, n_piece, memory_order_relaxed);
    atomic_store(&pool->n_left, n_piece);
    atomic_store(&pool->ticket, job << 32 | (uint32_t)n_piece);
    wake_workers(pool);
    run_pieces(pool, 0);
    wait_for_pieces(pool);
}

void pool_run(struct thread_pool *pool, pool_piece_fn *piece, void *context, int n_piece)
{
    fenv_t caller; /* rounding and flushing modes are the same on every thread (the numeric rule, point 8) */
    fegetenv(&caller);
    fesetenv(FE_DFL_ENV);
    if (pool->n_thread == 1 || n_piece <= 1)
        run_alone(piece, context, n_piece);
    else
        run_shared(pool, piece, context, n_piece);
    fesetenv(&caller);
}

int pool_n_thread(const struct thread_pool *pool) { return pool->n_thread; }

enum mr_status pool_pin(struct thread_pool *pool, struct mr_error *err)
{
    pthread_t *thread = mem_array((size_t)pool->n_thread, sizeof *thread);
    if (thread == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory to pin %d threads", pool->n_thread);
    for (int i = 1; i < pool->n_thread; i++)
        thread[i - 1] = pool->worker[i].thread;
    const bool ok = threads_pin(thread, pool->n_thread - 1);
    free(thread);
    return ok ? MR_OK : mr_fail(err, MR_NO_SUPPORT, "pin: the system does not let threads stay on one CPU");
}

/* Stop and join the workers 1 to n - 1, and free. */
static void tear_down(struct thread_pool *pool, int n)
{
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 1; i < n; i++)
        pthread_join(pool->worker[i].thread, NULL);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->lock);
    free(pool->worker);
    free(pool);
}

/* Start the workers. Returns how many threads there are now. */
static int start_workers(struct thread_pool *pool)
{
    int n = 1;
    for (; n < pool->n_thread; n++) {
        pool->worker[n] = (struct worker){.pool = pool, .index = n};
        if (!thread_start(&pool->worker[n].thread, worker_main, &pool->worker[n]))
            break;
    }
    return n;
}

enum mr_status pool_create(struct thread_pool **out, int n_thread, struct mr_error *err)
{
    *out = NULL;
    if (n_thread < 0 || n_thread > POOL_MAX_THREADS)
        return mr_fail(err, MR_BAD_INPUT, "threads: %d is not in 0..%d", n_thread, POOL_MAX_THREADS);
    if (n_thread == 0)
        n_thread = cpu_limit() < POOL_MAX_THREADS ? cpu_limit() : POOL_MAX_THREADS;
    struct thread_pool *pool = mem_aligned(CACHE_LINE, sizeof *pool);
    struct worker *worker = mem_zero_array((size_t)n_thread, sizeof *worker);
    if (pool == NULL || worker == NULL) {
        free(pool);
        free(worker);
        return mr_fail(err, MR_NO_MEMORY, "no memory for %d threads", n_thread);
    }
    *pool = (struct thread_pool){.worker = worker, .n_thread = n_thread, .n_cpu = cpu_limit()};
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    const int n_started = start_workers(pool);
    if (n_started < n_thread) {
        tear_down(pool, n_started);
        return mr_fail(err, MR_NO_MEMORY, "cannot start thread %d of %d", n_started, n_thread);
    }
    *out = pool;
    return MR_OK;
}

void pool_free(struct thread_pool *pool)
{
    if (pool != NULL)
        tear_down(pool, pool->n_thread);
}
