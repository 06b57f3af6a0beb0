/* timed_rounds.h: the same work on several threads at once, again and again, each round timed.
 * Own threads, not the pool of the back ends: what is measured here is the machine. */
#ifndef MEASURE_TIMED_ROUNDS_H
#define MEASURE_TIMED_ROUNDS_H

#include <stdatomic.h>

#include "base/status.h"

enum {
    TIMED_THREADS_MAX = 1024
};

/* What thread `thread` does in round `round`; called on n_threads threads at once. */
typedef void timed_work_fn(void *ctx, int thread, int round);

/* seconds[n_round]: from the first thread's start to the last one's end. All threads start a round together. *stop (may
 * be NULL) is looked at between rounds. CANCELLED, NO_MEMORY, NO_SUPPORT (threads cannot be started). */
enum mr_status timed_rounds(double *seconds, int n_threads, int n_round, timed_work_fn *work, void *ctx,
                            const atomic_bool *stop, struct mr_error *err);

#endif
