/* server.h: what all exchanges share. Constant once the server runs, but for what locks itself. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "engine/chat_prompt.h"
#include "millrace.h"

struct server_settings; /* settings.h */
struct key_ring;        /* keys.h */
struct metrics;         /* metrics.h */
struct engine_link;     /* engine_link.h: the thread that computes */

/* A model by its name in the API. */
struct hosted_model {
    const char *name;
    struct mr_model *model;   /* tokenising may go on beside the engine; for all else there is the link */
    struct chat_prompt *chat; /* NULL: it has no template */
    struct engine_link *engine;
    struct mr_model_info info;
    int32_t n_ctx;
    int64_t created; /* seconds since the epoch */
};

struct server {
    const struct server_settings *settings;
    struct key_ring *keys; /* NULL: none needed */
    struct metrics *metrics;
    struct hosted_model *model;
    int n_model;
};

/* By name, alias or the name of an adapter; NULL: no such model. name NULL or "": the only one. */
struct hosted_model *server_find_model(struct server *s, const char *name);

#endif
