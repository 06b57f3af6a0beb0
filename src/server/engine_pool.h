/* engine_pool.h: engine processes behind one link. The active ones divide the requests, the CPUs and the memory; a standby has
 * the model open, sleeps, and takes the place of an active one that dies. A request of which nothing has been told yet is then
 * given to another process, once; one that has begun ends with an error event.
 * What one process refuses for want of room the others are asked for: a request is refused once all of them have. */
#ifndef SERVER_ENGINE_POOL_H
#define SERVER_ENGINE_POOL_H

#include <sys/types.h>

#include "server/engine_config.h"

struct engine_link;

enum {
    POOL_ENGINES_MAX = 64
};

struct engine_pool_options {
    struct engine_config config; /* of each process: its share; n_active: how many answer */
    int32_t n_standby;           /* with n_active at most POOL_ENGINES_MAX */
    int32_t n_vocab, n_embd;     /* of the model */
    int model_fd;                /* of a file without a name, which config.path leads to; -1: it has one. Borrowed */
};

/* Start the processes, and wait until the active ones are ready. CANCELLED: progress said so. */
enum mr_status engine_pool_create(struct engine_link **out, const struct engine_pool_options *options,
                                  bool (*progress)(void *context, size_t done, size_t total), void *context,
                                  struct mr_error *err);

/* End the active ones, which nobody uses: only standbys stay, with neither keys and values nor CPU time. */
void engine_pool_rest(struct engine_link *l);
/* Have active ones again, from the standbys where those are there: as engine_pool_create. On failure it rests. */
enum mr_status engine_pool_resume(struct engine_link *l, bool (*progress)(void *context, size_t done, size_t total),
                                  void *context, struct mr_error *err);

/* From now on processes have this config, which differs from the present one in its options alone. Standbys are started with it
 * and take the places of the active ones, one after the other; each of those goes on until its requests have ended. Returns
 * once all places are taken. On failure the old ones stay, and the old config holds. */
enum mr_status engine_pool_renew(struct engine_link *l, const struct engine_config *config, struct mr_error *err);

/* What has happened to the processes. */
struct engine_pool_counts {
    int32_t n_active, n_standby; /* ready */
    int64_t n_died;              /* without having been told to */
    int64_t n_handed_on;         /* requests, from one that died to another */
    int64_t n_lost;              /* requests that ended with one */
    int64_t take_over_us;        /* from the last death to its successor's being ready; 0: there was none */
};
void engine_pool_counts(struct engine_link *l, struct engine_pool_counts *out);

/* One of them. */
struct engine_pool_process {
    pid_t pid;
    int32_t index;  /* which of the active ones; -1: a standby */
    int32_t n_open; /* requests */
    int64_t step_us;
    size_t kv_bytes, kv_bytes_in_use;
};
/* Those that are ready, POOL_ENGINES_MAX at most; returns how many. */
int engine_pool_processes(struct engine_link *l, struct engine_pool_process *out);

/* l is a pool. */
bool engine_link_is_pool(const struct engine_link *l);

#endif
