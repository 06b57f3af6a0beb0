/* batch_run.h: the lines of a job, given to the endpoints that answer them over HTTP. Results are recorded as they come,
 * several in one transaction; lines that have one are not run again. Within a window lines are run in the order of their texts,
 * so that those that begin alike follow each other and share what is computed for their beginning. Threads: the caller's. */
#ifndef SERVER_BATCH_BATCH_RUN_H
#define SERVER_BATCH_BATCH_RUN_H

#include "server/batch/batch_store.h"

struct api_key;
struct server;

struct batch_progress {
    struct batch_counts counts;
    int64_t n_generated, n_prompt; /* tokens of the results that were recorded in this run */
    int64_t n_recorded;            /* results of this run */
};

struct batch_run_options {
    struct server *server;
    struct batch_store *store;
    const struct batch_job *job;
    const char *input;
    const struct api_key *key;                                       /* NULL: nobody's */
    int (*room)(void *context);                                      /* how many lines may run now */
    bool (*go_on)(void *context);                                    /* asked several times a second */
    bool (*give_way)(void *context);                                 /* asked between two windows; NULL: never */
    void (*progress)(void *context, const struct batch_progress *p); /* the same, and first of all; may be NULL */
    void *context;
};

/* Until every line has its result. CANCELLED: go_on said no; lines that ran are pending. BUSY: it gave way, and what it had
 * begun has its result. FULL, IO: results could not be recorded. */
enum mr_status batch_run(const struct batch_run_options *options, struct mr_error *err);

#endif
