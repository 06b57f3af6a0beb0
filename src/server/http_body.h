/* http_body.h: what comes behind the headers: into memory, within limits, or, of a file, through a worker to the disk.
 * Threads: the transport's. */
#ifndef SERVER_HTTP_BODY_H
#define SERVER_HTTP_BODY_H

#include <microhttpd.h>
#include <stdatomic.h>

#include "server/exchange_state.h"

struct connections;

struct http_bodies {
    struct connections *connections;
    _Atomic size_t bytes; /* of all requests together */
};

/* Bytes that the body of this exchange may have. */
size_t http_body_max(const struct exchange *x);

/* The next bytes of the body. What is wrong is in the exchange's refusal; the rest of such a body is read and forgotten, up to
 * a limit. The connection may be suspended behind it. MHD_NO: close it. */
enum MHD_Result http_body_take(struct http_bodies *b, struct exchange *x, const char *bytes, size_t n);

/* Before anything else is done for the exchange: what a worker has written of a file is forgotten. */
void http_body_go_on(struct http_bodies *b, struct exchange *x);

#endif
