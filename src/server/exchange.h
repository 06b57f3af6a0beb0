/* exchange.h: one HTTP request and its reply, as an endpoint sees them: no sockets here.
 * Threads: an endpoint and its responder are called by one thread at a time. */
#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include <jansson.h>

#include "base/status.h"
#include "base/string_buffer.h"
#include "server/metrics.h"

struct exchange;
struct server;
struct api_key;

/* What is told to a client that something was wrong. The endpoint's write_error gives it its shape. */
struct api_error {
    int http;         /* 400, 401, 404, 413, 429, 500, 503, ... */
    const char *type; /* "invalid_request_error"; NULL: by http */
    const char *code; /* "model_not_found"; NULL: none */
    char param[128];  /* the field, as a client wrote it: "messages[2].content"; "": none */
    char message[MR_ERROR_MAX];
    int64_t retry_after_ms;  /* 0: none */
    int32_t n_prompt, n_ctx; /* of a prompt that does not fit; else 0 */
};

/* The request, whole. Strings are borrowed until the reply ends. */
const char *exchange_method(const struct exchange *x);
const char *exchange_path(const struct exchange *x);
const char *exchange_parameter(const struct exchange *x, const char *name); /* of the path: "id" */
const char *exchange_query(const struct exchange *x, const char *name);     /* NULL: not there */
const char *exchange_header(const struct exchange *x, const char *name);    /* NULL: not there */
const char *exchange_body(const struct exchange *x, size_t *n);
const char *exchange_id(const struct exchange *x);            /* "req_...", in logs and x-request-id */
const struct api_key *exchange_key(const struct exchange *x); /* NULL: the server asks for none */
int64_t exchange_arrival_us(const struct exchange *x);        /* when it was complete, by the engine's clock */
struct server *exchange_server(const struct exchange *x);

/* Reply at once; bytes are copied. */
void exchange_reply(struct exchange *x, int http, const char *content_type, const void *bytes, size_t n);
void exchange_reply_json(struct exchange *x, int http, json_t *value);                     /* takes the reference */
void exchange_reply_file(struct exchange *x, const char *content_type, int fd, int64_t n); /* takes the descriptor */
void exchange_fail(struct exchange *x, const struct api_error *e);
/* By a status of the engine's: BAD_INPUT and NO_SUPPORT 400, NOT_FOUND 404, BUSY and FULL 429, NO_MEMORY 503, the rest 500. */
void exchange_fail_status(struct exchange *x, enum mr_status status, const struct mr_error *err);
/* A header of the reply, before it begins. */
void exchange_set_header(struct exchange *x, const char *name, const char *value);

/* How events of the engine become bytes of a reply. The reply begins with the first event, whole or streamed: whatever
 * fails before it is told by the endpoint's write_error and the right status. */
struct responder {
    const char *content_type; /* "application/json", "text/event-stream", "application/x-ndjson" */
    bool is_stream;           /* what is appended goes out at once; false: when all has ended */
    const char *keep_alive;   /* sent while nothing else is: ": keep-alive\n\n"; NULL: none */
    const char *constraint;   /* the field that the requests' constraint is from, named where it is wrong; NULL: none. Kept */
    /* An event of the i-th request, but for those that say that it failed. FULL, BAD_INPUT, ...: end the reply with this error.
     */
    enum mr_status (*event)(void *self, int i, const struct mr_event *event, struct string_buffer *out, struct mr_error *err);
    /* All answers of all requests have ended. */
    enum mr_status (*end)(void *self, struct string_buffer *out, struct mr_error *err);
    /* It failed before anything of the reply went out, which write_error tells. May be NULL. */
    void (*refused)(void *self, const struct api_error *e);
    /* It failed after the stream had begun: an event that says so. */
    void (*fail)(void *self, const struct api_error *e, struct string_buffer *out);
    void (*free)(void *self);
};

struct hosted_model;

/* The model is not loaded: the handler returns without a reply, and is called again once it is; where that cannot be, the
 * exchange fails. */
void exchange_await(struct exchange *x, struct hosted_model *model);

/* Where the time of the i-th request has gone so far, in microseconds that sum to the time since its first byte. For
 * responders. false: it is not known. */
bool exchange_stages(const struct exchange *x, int i, int64_t stage_us[N_STAGES]);

/* Give the requests (copied) to the model's engine and reply with their events. key, arrival_us and the adapter's life are the
 * exchange's work. self is the exchange's from now on, on failure too. */
void exchange_generate(struct exchange *x, struct hosted_model *model, const struct mr_request *request, int n,
                       const struct responder *responder, void *self);

#endif
