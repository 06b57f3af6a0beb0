/* exchange_state.h: what stands behind struct exchange, for the transport and the parts of exchange.
 * Life: the transport makes one for each request and holds it until its reply has gone out; a worker and the dispatcher hold it
 * while they use it. Threads: `lock` guards what is below it; before the handler is called only the transport's thread knows
 * the exchange. */
#ifndef SERVER_EXCHANGE_STATE_H
#define SERVER_EXCHANGE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "millrace.h"
#include "server/api_error.h"
#include "server/exchange.h"
#include "server/router.h"

enum {
    EXCHANGE_ID_MAX = 64,      /* bytes of an id */
    EXCHANGE_HEADERS_MAX = 16, /* that an endpoint sets */
    EXCHANGE_REQUESTS_MAX = 4096
};

struct slot_task; /* slot_board.h */
struct upload;    /* upload.h */

/* What carries the exchange. Called with its lock held, but for header. */
struct transport {
    /* The exchange waits and has something to say, or its client left: its thread calls on it again. */
    void (*resume)(void *connection);
    const char *(*header)(void *connection, const char *name); /* of the request; NULL: not there */
};

struct header_field {
    char *name, *value;
};

/* Times by clock_us; 0: not come to pass. */
struct exchange_times {
    int64_t begin_us;       /* the request line was there */
    int64_t arrival_us;     /* the request was complete */
    int64_t submit_us;      /* its requests went to the engine */
    int64_t first_event_us; /* the first one came back */
    int64_t first_byte_us;  /* of content, handed to the socket */
    int64_t end_us;         /* the reply was complete */
};

struct exchange {
    struct server *server;
    const struct transport *transport;
    void *connection;
    int fd; /* of the socket; -1: none to watch */
    _Atomic int n_ref;
    uint64_t serial;
    char id[EXCHANGE_ID_MAX + 1];
    char traceparent[56]; /* of the request; "": none, or none that is right */
    char method[16];
    struct target target;
    struct route route;
    struct string_buffer body;
    size_t n_discarded; /* bytes of a body that will not be read */
    size_t n_uploaded;  /* bytes that went on to `upload`; what waits to is the body */
    struct upload *upload;
    const struct api_key *key;
    bool is_background;       /* its requests get what others leave */
    struct api_error refusal; /* http 0: none; else the reply, before a handler is called */
    bool has_begun;           /* the transport's: the first call for it has been */
    bool is_dispatched;       /* the transport's: it went to its handler */
    bool is_queued;           /* the transport's: the reply is on its way */
    int64_t n_sent;           /* the transport's: bytes of the body */
    struct exchange *next_job;
    struct hosted_model *awaited;         /* the model that the handler waits for; NULL: it does not */
    int64_t awaited_since_us, loading_us; /* loading_us: what such waits took */

    pthread_mutex_t lock;
    bool is_waiting; /* the transport waits for resume */
    bool is_working; /* a worker calls the handler, which reads the connection's headers: no resume before it is done */
    bool is_gone;    /* the client left, or the server ends: nothing goes out any more */
    int http;        /* 0: no reply yet */
    char *content_type;
    struct header_field header[EXCHANGE_HEADERS_MAX];
    int n_header;
    struct string_buffer out; /* of the reply's body; bytes before out_at have been taken */
    size_t out_at;
    int reply_fd; /* the reply's body is this file, n_file bytes of it; -1: it is not */
    int64_t n_file;
    bool is_stream; /* the reply goes out as it comes */
    bool is_ended;  /* nothing will be appended to out */

    struct responder responder;
    void *self; /* NULL: generates nothing */
    bool is_generating, is_watched, has_entered;
    struct hosted_model *model;
    int n_request;
    int64_t n_open;      /* answers that have not ended */
    int64_t last_out_us; /* when something was appended, or the waiting began */
    struct exchange_times times;
    struct mr_usage usage;     /* sums over the requests; first_token_us of the earliest */
    enum mr_finish finish;     /* of the answer that ended last */
    enum mr_status status;     /* of a failure */
    struct request_life *life; /* n_request of them, for the metrics */
    struct slot_task **slot;   /* as many, for /slots */
};

/* NULL: no memory. target: of the request line. The request's faults so far are in refusal. */
struct exchange *exchange_create(struct server *s, const char *target);
void exchange_hold(struct exchange *x);
void exchange_drop(struct exchange *x); /* frees it with the last one; takes NULL */

/* The client's own id, where it is one, or a new one; and the trace that the request belongs to. */
void exchange_choose_id(struct exchange *x);

/* Call the endpoint's handler. What it leaves without a reply gets 500. false: it waits for a model, and its transport, once it
 * is suspended, calls exchange_park. */
bool exchange_handle(struct exchange *x);
/* The lock is held: it belongs to a worker from now on. */
enum mr_status exchange_park(struct exchange *x);

/* An event of the i-th request. The lock is held. */
void exchange_take_event(struct exchange *x, int i, const struct mr_event *event, int64_t retry_after_ms);
/* Time has passed: a stream that has long been silent says that it lives. The lock is held. */
void exchange_tick(struct exchange *x, int64_t now_us);
/* Its client left, or the server ends: what it generates is cancelled. The lock is held. */
void exchange_leave(struct exchange *x);
/* The server ends while it generates. The lock is held. */
void exchange_shut(struct exchange *x);

/* The lock is held: the transport has something to do. */
void exchange_wake(struct exchange *x);
/* The same as exchange_fail and exchange_set_header, with the lock held. */
void exchange_fail_locked(struct exchange *x, const struct api_error *e);
void exchange_put_header(struct exchange *x, const char *name, const char *value);

#endif
