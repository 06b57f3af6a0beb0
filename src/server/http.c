/* http.c: from libmicrohttpd's callbacks to exchanges and back.
 * A connection is suspended while its exchange waits: for a worker, for the engine's first event, for the next piece of a
 * stream. Only this thread suspends; any thread resumes, behind the exchange's lock, so that no wake is lost. */
#include "server/http.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/access_log.h"
#include "server/connections.h"
#include "server/cors.h"
#include "server/dispatch.h"
#include "server/exchange_report.h"
#include "server/http_body.h"
#include "server/keys.h"
#include "server/listen.h"
#include "server/metrics.h"
#include "server/server.h"
#include "server/settings.h"
#include "server/text_file.h"
#include "server/workers.h"
#include "server/model_store.h"

enum {
    HEADER_BYTES_MAX = 32 << 10, /* of one connection: request line and headers, and a piece of the body */
    LONG_BODY_BYTES = 16 << 10,  /* from here on a worker reads it: about a millisecond's tokenising */
    STREAM_BLOCK_BYTES = 4096,
    PEM_BYTES_MAX = 1 << 20,
    LOADING_RETRY_MS = 2000
};

struct http {
    struct server *server;
    struct MHD_Daemon *daemon;
    struct connections *connections;
    struct http_bodies bodies;
    struct string_buffer certificate, key;
    int port;
    _Atomic int n_open;
};

static void resume(void *connection) { MHD_resume_connection(connection); }

static const char *header(void *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static const struct transport transport = {.resume = resume, .header = header};

static struct connection *socket_context(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static int socket_of(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

/* ---- a request comes ---- */

static void *on_target(void *context, const char *target, struct MHD_Connection *c)
{
    struct http *h = context;
    struct exchange *x = exchange_create(h->server, target);
    if (x == NULL)
        return NULL;
    x->transport = &transport;
    x->connection = c;
    x->fd = socket_of(c);
    atomic_fetch_add(&h->n_open, 1);
    connections_set(h->connections, socket_context(c), CONNECTION_SENDING, x->times.begin_us);
    return x;
}

static const char *bearer(const struct exchange *x)
{
    const char *authorization = exchange_header(x, "Authorization");
    if (authorization != NULL && strncasecmp(authorization, "Bearer ", 7) == 0)
        return authorization + 7 + strspn(authorization + 7, " ");
    return exchange_header(x, "x-api-key");
}

static void check_key(struct exchange *x)
{
    if (x->server->keys == NULL || (x->route.endpoint->flags & ENDPOINT_OPEN) != 0)
        return;
    const char *token = bearer(x);
    x->key = token != NULL ? key_ring_find(x->server->keys, token) : NULL;
    if (x->key != NULL)
        return;
    api_error_set(&x->refusal, 401, token == NULL ? "an API key is needed: Authorization: Bearer KEY" : "unknown API key");
    x->refusal.code = "invalid_api_key";
    exchange_put_header(x, "WWW-Authenticate", "Bearer");
}

/* What can be said of a request once its headers are there. */
static void check_head(struct exchange *x, const char *method)
{
    const char *length = exchange_header(x, "Content-Length");
    snprintf(x->method, sizeof x->method, "%s", method);
    exchange_choose_id(x);
    if (x->refusal.http != 0)
        return;
    route_find(&x->route, endpoint_table, x->method, &x->target);
    if (x->route.methods[0] == '\0') {
        api_error_set(&x->refusal, 404, "no such path: %s", x->target.path);
    } else if (strcmp(x->method, "OPTIONS") == 0) {
        x->route.endpoint = NULL;
    } else if (x->route.endpoint == NULL) {
        api_error_set(&x->refusal, 405, "%s is not possible here, but %s", x->method, x->route.methods);
        exchange_put_header(x, "Allow", x->route.methods);
    } else {
        check_key(x);
    }
    if (x->refusal.http == 0 && length != NULL && strtoull(length, NULL, 10) > http_body_max(x))
        api_error_set(&x->refusal, 413, "the body has more than %zu bytes", http_body_max(x));
}

/* ---- a reply goes ---- */

static ssize_t read_stream(void *context, uint64_t at, char *out, size_t max)
{
    struct exchange *x = context;
    ssize_t n;
    pthread_mutex_lock(&x->lock);
    const size_t there = x->out.n - x->out_at;
    if (x->is_gone || at != (uint64_t)x->n_sent) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (there > 0) {
        n = (ssize_t)(there < max ? there : max);
        memcpy(out, x->out.s + x->out_at, (size_t)n);
        x->out_at += (size_t)n;
        if (x->out_at == x->out.n) {
            string_buffer_clear(&x->out);
            x->out_at = 0;
        }
        x->n_sent += n;
        exchange_report_first_byte(x);
    } else if (x->is_ended) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        x->is_waiting = true;
        MHD_suspend_connection(x->connection);
        n = 0;
    }
    pthread_mutex_unlock(&x->lock);
    return n;
}

static void drop_stream(void *context) { exchange_drop(context); }

static struct MHD_Response *make_response(struct exchange *x)
{
    struct MHD_Response *response;
    if (x->is_stream) {
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, read_stream, x, drop_stream);
        if (response != NULL)
            exchange_hold(x);
        return response;
    }
    if (x->reply_fd >= 0) {
        response = MHD_create_response_from_fd64((uint64_t)x->n_file, x->reply_fd);
        x->reply_fd = response != NULL ? -1 : x->reply_fd;
        x->n_sent = x->n_file;
        return response;
    }
    const bool is_empty = x->out.s == NULL;
    response = MHD_create_response_from_buffer(x->out.n, x->out.s, is_empty ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_FREE);
    if (response != NULL) {
        x->n_sent = (int64_t)x->out.n;
        string_buffer_init(&x->out); /* its memory is the response's now */
        pthread_mutex_lock(&x->lock);
        exchange_report_first_byte(x);
        pthread_mutex_unlock(&x->lock);
    }
    return response;
}

/* What is read of x here does not change any more. Without the lock: libmicrohttpd holds a response's own while it calls
 * read_stream, which takes the exchange's. */
static enum MHD_Result queue_reply(struct exchange *x)
{
    struct MHD_Response *response = make_response(x);
    const char *trace = exchange_header(x, "traceparent");
    if (response == NULL)
        return MHD_NO;
    if (x->content_type != NULL && x->http != 204)
        MHD_add_response_header(response, "Content-Type", x->content_type);
    if (x->is_stream)
        MHD_add_response_header(response, "Cache-Control", "no-cache");
    MHD_add_response_header(response, "x-request-id", x->id);
    if (trace != NULL)
        MHD_add_response_header(response, "traceparent", trace);
    for (int i = 0; i < x->n_header; i++)
        MHD_add_response_header(response, x->header[i].name, x->header[i].value);
    cors_add_headers(x, response);
    if (server_get_phase(x->server) == SERVER_DRAINING)
        MHD_add_response_header(response, "Connection", "close");
    x->is_queued = true;
    const enum MHD_Result result = MHD_queue_response(x->connection, (unsigned)x->http, response);
    MHD_destroy_response(response);
    return result;
}

/* Send what there is, or wait for it. */
static enum MHD_Result send_or_wait(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const bool is_gone = x->is_gone, has_reply = x->http != 0;
    if (!is_gone && !has_reply) {
        x->is_waiting = true;
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&x->lock);
    if (is_gone)
        return MHD_NO;
    return has_reply ? queue_reply(x) : MHD_YES;
}

/* Whether the server can answer this now. */
static void check_phase(struct exchange *x)
{
    const enum server_phase phase = server_get_phase(x->server);
    if (phase == SERVER_READY || (x->route.endpoint->flags & ENDPOINT_BEFORE_READY) != 0)
        return;
    api_error_set(&x->refusal, 503, phase == SERVER_LOADING ? "Loading model" : "the server shuts down");
    x->refusal.retry_after_ms = LOADING_RETRY_MS;
}

static void work_later(struct exchange *x) { workers_add(x->server->workers, x); }

static void wait_for_model(struct exchange *x) { model_store_wait(x->server->store, x); }

/* Suspend it, and hand it to whoever goes on with it. */
static enum MHD_Result hand_over(struct exchange *x, void (*to)(struct exchange *x))
{
    pthread_mutex_lock(&x->lock);
    const enum mr_status status = exchange_park(x);
    if (status == MR_OK)
        MHD_suspend_connection(x->connection);
    pthread_mutex_unlock(&x->lock);
    if (status == MR_OK) {
        to(x);
        return MHD_YES;
    }
    exchange_fail_status(x, status, NULL);
    return send_or_wait(x);
}

/* The request is whole. */
static enum MHD_Result answer(struct http *h, struct exchange *x)
{
    if (x->is_dispatched)
        return send_or_wait(x);
    x->is_dispatched = true;
    x->times.arrival_us = clock_us();
    connections_set(h->connections, socket_context(x->connection), CONNECTION_WAITING, x->times.arrival_us);
    if (x->refusal.http == 0 && x->route.endpoint != NULL)
        check_phase(x);
    if (x->refusal.http != 0) {
        exchange_fail(x, &x->refusal);
    } else if (x->route.endpoint == NULL) {
        exchange_set_header(x, "Allow", x->route.methods);
        exchange_reply(x, 204, "text/plain", "", 0);
    } else if (x->body.n > LONG_BODY_BYTES || (x->route.endpoint->flags & ENDPOINT_WAITS) != 0) {
        return hand_over(x, work_later);
    } else if (!exchange_handle(x)) {
        return hand_over(x, wait_for_model);
    }
    return send_or_wait(x);
}

static enum MHD_Result on_access(void *context, struct MHD_Connection *c, const char *url, const char *method,
                                 const char *version, const char *bytes, size_t *n, void **request)
{
    struct exchange *x = *request;
    (void)url;
    (void)version;
    (void)c;
    if (x == NULL)
        return MHD_NO;
    if (!x->has_begun) {
        x->has_begun = true;
        check_head(x, method);
        const bool asks = x->refusal.http != 0 && exchange_header(x, "Expect") != NULL;
        return asks ? answer(context, x) : MHD_YES; /* who asks before sending is spared the body */
    }
    struct http *h = context;
    http_body_go_on(&h->bodies, x);
    if (*n == 0)
        return answer(h, x);
    const size_t n_bytes = *n;
    *n = 0;
    return http_body_take(&h->bodies, x, bytes, n_bytes);
}

static void on_completed(void *context, struct MHD_Connection *c, void **request, enum MHD_RequestTerminationCode how)
{
    struct http *h = context;
    struct exchange *x = *request;
    if (x == NULL)
        return;
    *request = NULL;
    pthread_mutex_lock(&x->lock);
    x->is_waiting = false; /* nobody resumes what ends */
    if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK || x->is_generating)
        exchange_leave(x);
    dispatch_remove(x->server->dispatch, x);
    if (x->times.end_us == 0)
        x->times.end_us = clock_us();
    exchange_report_done(x);
    pthread_mutex_unlock(&x->lock);
    access_log_write(x->server->access_log, x, clock_us());
    connections_set(h->connections, socket_context(c), CONNECTION_IDLE, clock_us());
    atomic_fetch_sub(&h->bodies.bytes, x->body.n); /* a worker may still read it */
    atomic_fetch_sub(&h->n_open, 1);
    exchange_drop(x);
}

static void on_connection(void *context, struct MHD_Connection *c, void **of_socket, enum MHD_ConnectionNotificationCode what)
{
    struct http *h = context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *of_socket = connections_add(h->connections, socket_of(c), clock_us());
        if (connections_all(h->connections) == 1)
            dispatch_wake(h->server->dispatch);
    } else {
        connections_remove(h->connections, *of_socket);
        *of_socket = NULL;
    }
    metrics_set_connections(h->server->metrics, connections_all(h->connections));
}

/* ---- the daemon ---- */

static enum mr_status read_tls(struct http *h, struct mr_error *err)
{
    const struct server_settings *s = h->server->settings;
    if ((s->tls_certificate == NULL) != (s->tls_key == NULL))
        return mr_fail(err, MR_BAD_INPUT, "tls_certificate and tls_key need each other");
    if (s->tls_certificate == NULL)
        return MR_OK;
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return mr_fail(err, MR_NO_SUPPORT, "tls_certificate: libmicrohttpd was built without TLS");
    MR_TRY(text_file_read(&h->certificate, s->tls_certificate, PEM_BYTES_MAX, err));
    return text_file_read(&h->key, s->tls_key, PEM_BYTES_MAX, err);
}

static enum mr_status start_daemon(struct http *h, struct mr_error *err)
{
    const struct server_settings *s = h->server->settings;
    const bool tls = s->tls_certificate != NULL;
    const int max = listen_raise_limit(s->max_connections);
    int fd;
    MR_TRY(listen_open(&fd, &h->port, s, err));
    struct MHD_OptionItem option[] = {
        {MHD_OPTION_LISTEN_SOCKET, fd, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, max, NULL},
        {MHD_OPTION_PER_IP_CONNECTION_LIMIT, s->max_connections_per_address, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, s->idle_timeout_s, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEADER_BYTES_MAX, NULL},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
        {tls ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0, h->certificate.s},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, h->key.s},
        {MHD_OPTION_END, 0, NULL},
    };
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | (tls ? MHD_USE_TLS : 0);
    h->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_access, h, MHD_OPTION_URI_LOG_CALLBACK, on_target, h,
                                 MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
                                 MHD_OPTION_ARRAY, option, MHD_OPTION_END);
    if (h->daemon != NULL)
        return MR_OK;
    close(fd);
    return mr_fail(err, tls ? MR_BAD_INPUT : MR_IO, "the server could not be started%s",
                   tls ? "; tls_certificate and tls_key must hold a certificate and its key in PEM" : "");
}

enum mr_status http_create(struct http **out, struct server *s, struct mr_error *err)
{
    *out = NULL;
    struct http *h = mem_zero_array(1, sizeof *h);
    if (h == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the server");
    h->server = s;
    h->connections =
        connections_create((int64_t)s->settings->idle_timeout_s * 1000000, (int64_t)s->settings->request_timeout_s * 1000000);
    enum mr_status status = h->connections != NULL ? read_tls(h, err) : mr_fail(err, MR_NO_MEMORY, "no memory for the server");
    if (status == MR_OK)
        status = start_daemon(h, err);
    if (status != MR_OK) {
        http_free(h);
        return status;
    }
    h->bodies.connections = h->connections;
    dispatch_set_connections(s->dispatch, h->connections);
    *out = h;
    return MR_OK;
}

void http_free(struct http *h)
{
    if (h == NULL)
        return;
    dispatch_set_connections(h->server->dispatch, NULL);
    if (h->daemon != NULL)
        MHD_stop_daemon(h->daemon);
    connections_free(h->connections);
    string_buffer_release(&h->certificate);
    string_buffer_release(&h->key);
    free(h);
}

int http_port(const struct http *h) { return h->port; }

int http_n_connections(const struct http *h)
{
    return (int)MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)->num_connections;
}

int http_n_open(struct http *h) { return atomic_load(&h->n_open); }
