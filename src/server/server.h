/* server.h: what all exchanges share. Constant once the server runs, but for what locks itself. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdatomic.h>

#include "engine/chat_prompt.h"
#include "millrace.h"

struct server_settings;  /* settings.h */
struct key_ring;         /* keys.h */
struct metrics;          /* metrics.h */
struct engine_link;      /* engine_link.h: the thread that computes */
struct dispatch;         /* dispatch.h: the thread that takes events to the exchanges */
struct http;             /* http.h: the thread that reads and writes */
struct workers;          /* workers.h: threads for long bodies */
struct adapter_names;    /* adapter_names.h */
struct access_log;       /* access_log.h */
struct stored_responses; /* api/stored_responses.h */
struct embedding_cache;  /* api/embedding_cache.h */

/* A model by its name in the API. */
struct hosted_model {
    char *name;
    struct mr_model *model;   /* tokenising may go on beside the engine; for all else there is the link */
    struct chat_prompt *chat; /* NULL: it has no template */
    struct engine_link *engine;
    struct model_metrics *metrics;
    struct mr_model_info info;
    int32_t n_ctx;
    int64_t created; /* seconds since the epoch */
    int shared_fd;   /* of the weights that engine processes map; -1: none */
};

/* In this order, none twice. */
enum server_phase {
    SERVER_LOADING, /* model is not set yet */
    SERVER_READY,
    SERVER_DRAINING /* no new request is let in */
};

struct server {
    const struct server_settings *settings;
    struct key_ring *keys; /* NULL: none needed */
    struct metrics *metrics;
    struct hosted_model *model;
    int n_model;
    _Atomic int phase; /* enum server_phase */
    int64_t start_us;
    struct dispatch *dispatch;
    struct workers *workers;
    struct http *http;
    struct access_log *access_log; /* NULL: none */
    struct trace_export *traces;   /* NULL: none */
    struct stored_responses *responses;
    struct embedding_cache *embeddings;
    struct adapter_names *adapters;
};

/* Bind and listen; requests are answered from now on, by most endpoints with 503. *out is NULL on failure: BAD_INPUT names the
 * setting. The settings are borrowed. */
enum mr_status server_start(struct server **out, const struct server_settings *settings, struct mr_error *err);
/* The same without a socket: for requests of this process's own. */
enum mr_status server_start_local(struct server **out, const struct server_settings *settings, struct mr_error *err);
/* Open the model, create its engine, have it answer a token, and be ready. progress: as in mr_options, may be NULL. */
enum mr_status server_load(struct server *s, bool (*progress)(void *context, size_t done, size_t total), void *context,
                           struct mr_error *err);
int server_port(const struct server *s);
/* Let no new request in, and wait until all have ended or drain_s have passed. go_on is asked now and then; false: wait no
 * longer. */
void server_drain(struct server *s, bool (*go_on)(void *context), void *context);
void server_free(struct server *s); /* ends what still runs; takes NULL */

static inline enum server_phase server_get_phase(struct server *s)
{
    return (enum server_phase)atomic_load_explicit(&s->phase, memory_order_acquire);
}

/* By name, alias or the name of an adapter; NULL: no such model. name NULL or "": the only one. */
struct hosted_model *server_find_model(struct server *s, const char *name);

#endif
