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
struct model_store;      /* model_store.h */
struct exchange;         /* exchange.h */
struct batch_service;    /* batch/batch_service.h */
struct slot_board;       /* slot_board.h */

enum model_phase {
    MODEL_UNLOADED,
    MODEL_LOADING,
    MODEL_LOADED,
    MODEL_UNLOADING
};

/* The store's part of a model (model_store.h). */
struct model_use {
    enum model_phase phase;
    bool is_leaving; /* no new request may use it: another model waits for its place */
    int n_user;
    int64_t used_us, expires_us;
    size_t bytes;             /* weights, keys and values; 0: it has not been loaded yet */
    struct exchange *waiting; /* a list by next_job */
};

/* A model by its name in the API. What a file has to be read for is there while it is loaded: take it first. */
struct hosted_model {
    char *name, *path;
    int64_t file_bytes;
    bool stays; /* it is loaded at the start, and never unloaded */
    struct model_use use;
    struct model_metrics *metrics; /* always there */
    struct slot_board *slots;      /* the same */
    /* while it is loaded: */
    struct mr_model *model;   /* tokenising may go on beside the engine; for all else there is the link */
    struct chat_prompt *chat; /* NULL: it has no template */
    struct engine_link *engine;
    struct mr_model_info info;
    int32_t n_ctx;
    int64_t created; /* seconds since the epoch */
    int shared_fd;   /* of the weights that engine processes map; -1: none */
    bool rests;      /* unloaded, but for a standby process and what this one needs */
    const struct server_settings *opened_with;
};

/* In this order, none twice. */
enum server_phase {
    SERVER_LOADING,
    SERVER_READY,
    SERVER_DRAINING /* no new request is let in */
};

struct settings_version; /* settings that were read again, and those before */

struct server {
    const struct server_settings *_Atomic settings; /* others after server_reload; what was read once stays valid */
    struct settings_version *versions;
    struct key_ring *keys; /* NULL: none needed */
    struct metrics *metrics;
    struct hosted_model *model; /* the first one is that of requests that name none, where it stays loaded */
    int n_model;
    struct model_store *store;
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
    struct batch_service *batches; /* NULL: no folder for them */
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
/* Settings that were read again: those that may change in a running server count from now on (settings_merge), targets also for
 * the engines that run. What `fresh` holds is borrowed. NO_MEMORY, BAD_INPUT: nothing has changed. One thread. */
enum mr_status server_reload(struct server *s, const struct server_settings *fresh, struct string_buffer *changed,
                             struct string_buffer *kept, struct mr_error *err);
void server_free(struct server *s); /* ends what still runs; takes NULL */

static inline enum server_phase server_get_phase(struct server *s)
{
    return (enum server_phase)atomic_load_explicit(&s->phase, memory_order_acquire);
}

/* By name or alias, loaded or not; NULL: no such model. name NULL or "": the first one, where it stays loaded or is the only
 * one. */
struct hosted_model *server_find_model(struct server *s, const char *name);
/* false: it is not loaded; exchange_await waits until it is. Else it stays loaded until it is given back. */
bool server_take_model(struct server *s, struct hosted_model *m);
/* The same to look at it, also while another model waits for its place. */
bool server_peek_model(struct server *s, struct hosted_model *m);
void server_give_model(struct server *s, struct hosted_model *m);

#define SERVER_KEEP_ALIVE INT64_MIN /* as the settings say */
/* A request for it has ended: from now on it stays loaded for so long; negative: for ever. */
void server_touch_model(struct server *s, struct hosted_model *m, int64_t keep_alive_us);

#endif
