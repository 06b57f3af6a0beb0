/* endpoint.h: what answers one method and path. One file in api/ for each endpoint or family of them, one row each in
 * endpoints.c. */
#ifndef SERVER_ENDPOINT_H
#define SERVER_ENDPOINT_H

#include "base/string_buffer.h"

struct exchange;
struct api_error;

enum endpoint_flag {
    ENDPOINT_OPEN = 1,         /* no API key needed */
    ENDPOINT_BEFORE_READY = 2, /* answers while the model still loads */
    ENDPOINT_WAITS = 4,        /* for the disk: a worker calls it */
    ENDPOINT_UPLOAD = 8        /* its body is a form with a file (upload.h), which does not come into memory */
};

struct endpoint {
    const char *method;
    const char *path; /* "/v1/responses/{id}": a segment in braces matches any one segment */
    unsigned flags;   /* of enum endpoint_flag */
    /* Read the request, then reply, fail or generate, once (exchange.h). Threads: the server's or, for long bodies, a worker;
     * several at a time. */
    void (*handle)(struct exchange *x);
    /* An error as clients of this API read it. */
    void (*write_error)(const struct api_error *e, struct string_buffer *out);
};

extern const struct endpoint endpoint_table[]; /* a row without a method ends it */

#endif
