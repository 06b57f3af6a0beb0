/* local_exchange.h: an exchange without a socket: a request that this process asks its own endpoints, which answer as they
 * answer over HTTP. Threads: one thread starts and ends it; `done` is called by any. */
#ifndef SERVER_BATCH_LOCAL_EXCHANGE_H
#define SERVER_BATCH_LOCAL_EXCHANGE_H

#include "server/exchange.h"

struct local_exchange;

/* POST the body (copied) to path. done is called once, when the reply is whole, perhaps before this returns; it must not call
 * back. Its requests get what others leave (mr_request.background). key: whose models
 * may be asked, NULL: all; its limits of requests and tokens are not touched. NULL: no memory, and done is not called. */
struct local_exchange *local_exchange_start(struct server *s, const char *path, const char *body, size_t n,
                                            const struct api_key *key, void (*done)(void *context), void *context);

struct local_reply {
    int http;
    const char *id; /* of the request */
    const char *body;
    size_t n;
    int64_t n_generated, n_prompt; /* tokens */
    int64_t retry_after_ms;        /* 0: none */
};

/* Once it is done; borrowed until it ends. */
void local_exchange_reply(const struct local_exchange *l, struct local_reply *out);
/* What still runs is cancelled; done is not called any more when this returns. Takes NULL. */
void local_exchange_end(struct local_exchange *l);

#endif
