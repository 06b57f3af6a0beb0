/* thread_pool.h: fork and join over numbered pieces of work.
 * Pieces are taken dynamically, so which thread runs a piece is not determined; a piece must not depend on it, and no sum
 * may be split over pieces. Idle threads spin for a fraction of a millisecond, then sleep; no more
 * are woken than there are CPUs for.
 * Threads: pool_run is called by one thread at a time, which works too. */
#ifndef BASE_THREAD_POOL_H
#define BASE_THREAD_POOL_H

#include "base/status.h"

struct thread_pool; /* opaque */

enum {
    POOL_MAX_THREADS = 1024
};

/* One piece; thread is 0 (the caller of pool_run) to n_thread - 1, for memory that each thread has for itself. */
typedef void pool_piece_fn(void *context, int piece, int thread);

/* n_thread counts the calling thread; 0: as many as cpu_limit() says. NO_MEMORY: no thread could be started. */
enum mr_status pool_create(struct thread_pool **out, int n_thread, struct mr_error *err);
void pool_free(struct thread_pool *pool); /* takes NULL; no pool_run is under way */
int pool_n_thread(const struct thread_pool *pool);

/* Each thread but the caller's stays on a CPU of its own from now on; the caller finds the one that is left, and threads that
 * it starts later may run anywhere. NO_SUPPORT: the system does not let it. */
enum mr_status pool_pin(struct thread_pool *pool, struct mr_error *err);

/* Call piece(context, i, thread) once for each i < n_piece, and return when all have returned. Not to be nested.
 * n_piece is less than 2^31. */
void pool_run(struct thread_pool *pool, pool_piece_fn *piece, void *context, int n_piece);

#endif
