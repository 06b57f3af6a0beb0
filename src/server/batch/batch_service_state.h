/* batch_service_state.h: what the clerk and the runner share. */
#ifndef SERVER_BATCH_BATCH_SERVICE_STATE_H
#define SERVER_BATCH_BATCH_SERVICE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/batch/batch_run.h"
#include "server/batch/batch_service.h"

struct batch_service {
    struct server *server;
    struct batch_store *store;
    char *folder;
    pthread_t clerk, runner;
    bool has_clerk, has_runner;
    pthread_mutex_t lock; /* of changes of records, and of what follows */
    pthread_cond_t wake;  /* something has changed */
    atomic_bool stop;
    char running[BATCH_ID_MAX + 1]; /* the job that the runner has; "": none */
    atomic_bool leave;              /* the runner is to let go of it */
    uint64_t last_owner;            /* whose job the runner had last */
    char counted[BATCH_ID_MAX + 1]; /* the job that it had last, and how far it came */
    struct batch_progress progress;
    int64_t n_pending; /* lines, as the metrics were told */
};

/* Seconds since the epoch. */
int64_t batch_service_now(void);
/* Wait for a change, ms at most; the lock is held. */
void batch_service_wait(struct batch_service *b, int ms);

/* The job goes over to another status, with the time of it, unless it is not `from` any more (BUSY). What the caller has
 * changed in its body is kept; files become records in the same transaction. */
enum mr_status batch_service_move(struct batch_service *b, struct batch_record *job, const char *from, const char *to,
                                  const struct batch_record *file, int n_file, struct mr_error *err);

/* Whether somebody else has a job with lines to run. */
bool batch_service_has_other(struct batch_service *b, uint64_t owner);

/* Tell the metrics what there is; the lock is held. */
void batch_service_survey(struct batch_service *b);
/* Lines of the running job got results; the lock is held. */
void batch_service_progress(struct batch_service *b, const struct batch_progress *p);

/* What the clerk has to do now: one step. NOT_FOUND: nothing. */
enum mr_status batch_clerk_step(struct batch_service *b, struct mr_error *err);
/* What another process has left half done. */
enum mr_status batch_clerk_tidy(struct batch_service *b, struct mr_error *err);
/* Run lines of a job until it has none, or may not, or gives way to somebody else's. */
enum mr_status batch_runner_step(struct batch_service *b, struct batch_record *job, struct mr_error *err);

#endif
