/* best_of.h: several answers of which the best are told. Their events are held until all have ended; then those of the best,
 * by the mean logprob of their tokens, go on as answers 0, 1, ... in that order; answers that ended by themselves or by length
 * come before others.
 * Threads: owned by the engine's. */
#ifndef ENGINE_BEST_OF_H
#define ENGINE_BEST_OF_H

#include "engine/record_queue.h"
#include "engine/request_record.h"

struct mr_engine;
struct event_record;

struct entrant {
    struct record_queue events;
    double logprob; /* sum over its tokens */
    int n_token;
    int32_t finish; /* enum mr_finish; NONE: it goes on */
};

struct contest {
    struct contest *next;
    uint64_t request;
    int n, n_return, n_ended;
    struct entrant entrant[]; /* [n] */
};

/* For a request of which n_return of n answers are told, with room for all their ends. NO_MEMORY. */
enum mr_status contest_begin(struct mr_engine *e, const struct request_record *r, struct mr_error *err);
void contest_free(struct contest *c);                                      /* takes NULL */
struct contest *contest_find(const struct mr_engine *e, uint64_t request); /* NULL: it holds nothing back */
/* The event has been held: count it. With the last answer's end the best are told, and c is freed. */
void contest_held(struct mr_engine *e, struct contest *c, const struct event_record *event);

#endif
