/* pool_state.h: what stands behind engine_pool.h. One thread reads and writes the sockets, starts processes and sees them die;
 * a lock guards all, which is never held while anything blocks. */
#ifndef SERVER_POOL_STATE_H
#define SERVER_POOL_STATE_H

#include <pthread.h>
#include <sys/types.h>

#include "engine/record_queue.h"
#include "server/engine_link.h"
#include "server/engine_order.h"
#include "server/engine_pool.h"
#include "server/frame.h"
#include "server/id_map.h"

/* In this order. */
enum pool_phase {
    POOL_FREE,    /* no process */
    POOL_OPENING, /* the model */
    POOL_STANDBY,
    POOL_BEGINNING, /* it makes its engine */
    POOL_ACTIVE
};

struct pool_engine {
    enum pool_phase phase;
    uint64_t owes; /* serial of the order that it has not answered; 0: none */
    bool has_hello;
    int index;        /* which of the active ones it is or is to be; -1: a standby, or one that retires */
    uint64_t version; /* of the config that it was started with */
    bool retires;     /* another one takes its place, or has: it is active until its requests have ended */
    pid_t pid;
    int fd;
    struct frame_buffer in, out;
    int32_t n_open;                /* requests */
    int64_t for_us;                /* when the one died whose place it takes; 0: nobody did */
    enum mr_status failure_status; /* as it told; MR_OK: it did not */
    struct mr_engine_stats stats;
};

/* A request from submit until its last event is taken. */
struct pool_ticket {
    uint64_t id;
    int slot; /* of the process that has it; -1: it waits for one */
    bool has_output, is_done, is_cancelled;
    int32_t n, n_open;             /* answers, and those that have not ended */
    uint64_t ended[MR_N_MAX / 64]; /* a bit for each answer */
    uint64_t refused_by;           /* a bit for each slot */
    uint64_t prefix;               /* hash of the prompt's beginning */
    int n_deaths;                  /* of processes that had it */
    size_t n_bytes;
    void *record; /* the request; NULL: it has begun */
};

struct pool_adapter {
    int32_t id; /* the pool's: each process has its own */
    char *path;
};

/* What engines are told beside requests. */
struct pool_orders {
    pthread_mutex_t one_at_a_time; /* taken before the pool's lock, which guards the rest */
    uint64_t serial;               /* of the present one */
    int n_owed;                    /* engines that have not answered it */
    enum mr_status status;         /* of the first that could not obey it */
    struct mr_error error;
    struct pool_adapter *adapter; /* n_adapter of them that hold */
    int n_adapter;
    size_t capacity;
    int32_t n_id;
    bool has_targets;
    struct mr_targets targets; /* of each process */
};

/* In front of an event's record. */
struct pool_event_head {
    uint64_t ticket;
    int64_t retry_after_ms;
    bool is_last;
};

struct engine_pool {
    struct engine_link link;
    struct engine_pool_options options;
    pthread_t thread;
    int wake_fd, event_fd;
    struct record_queue reading; /* of who takes events */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool stop, rests;
    struct frame_buffer config;  /* the frame that each process gets first */
    uint64_t version, n_version; /* of the config; how many there were */
    struct pool_engine engine[POOL_ENGINES_MAX];
    int n_engine; /* places: active ones, standbys, and those that retire */
    struct id_map tickets;
    struct pool_orders orders;
    int n_waiting; /* tickets without a process */
    struct record_queue events;
    int64_t died_us[POOL_ENGINES_MAX]; /* when the last one in this place did; 0: none has */
    int32_t n_ctx;
    struct mr_engine_stats gone; /* counts of processes that died */
    struct engine_pool_counts counts;
    void (*stepped)(void *context, const struct mr_engine_stats *stats);
    void *context;
    pid_t *corpse; /* n_corpse, not yet waited for */
    size_t n_corpse, corpse_capacity;
    int n_failed; /* starts, one after the other */
    enum mr_status failure_status;
    struct mr_error failure;
    int64_t next_start_us;
};

enum {
    POOL_FAILURES_MAX = 3 /* starts, after which requests that wait are given up */
};

/* pool_thread.c */
void *pool_thread_run(void *context);
void pool_wake(const struct engine_pool *p);

/* pool_engines.c: the lock is held. */
void pool_fill(struct engine_pool *p, int64_t now_us); /* start what is missing, and let a standby begin */
void pool_lose(struct engine_pool *p, int slot, const char *why);
void pool_end_standbys(struct engine_pool *p);
int pool_n_living(const struct engine_pool *p);
bool pool_is_new(const struct engine_pool *p); /* every active one has the present config */
void pool_rest(struct engine_pool *p);         /* end those that are or begin to be active */
void pool_bury(struct engine_pool *p);         /* those who have died */
void pool_end(struct engine_pool *p);          /* all; on the thread that started them, with which they die */
void pool_stats(const struct engine_pool *p, struct mr_engine_stats *out); /* of all */

/* pool_orders.c: the lock is held, but by who calls pool_order and pool_orders_release. */
enum mr_status pool_order(struct engine_link *link, struct engine_order *order, struct mr_error *err);
bool pool_tell_orders(const struct engine_pool *p, struct pool_engine *e); /* to one that has begun. false: no memory */
void pool_take_done(struct engine_pool *p, struct pool_engine *e, const struct frame_head *head, const char *message);
void pool_drop_order(struct engine_pool *p, struct pool_engine *e); /* it will not answer */
void pool_orders_release(struct pool_orders *s);

/* pool_tickets.c: the lock is held. */
/* Give it to the process that is best for it. false: none is ready, or has memory; it waits. */
bool pool_assign(struct engine_pool *p, struct pool_ticket *t);
void pool_assign_waiting(struct engine_pool *p);
void pool_forget(struct engine_pool *p, struct pool_ticket *t);
void pool_take_event(struct engine_pool *p, int slot, const struct frame_head *head, const void *record, enum mr_status *status,
                     struct mr_error *err);
void pool_lose_tickets(struct engine_pool *p, int slot);
void pool_fail_waiting(struct engine_pool *p); /* nothing starts */

#endif
