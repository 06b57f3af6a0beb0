/* http_body.c: bodies in memory are bounded together, and pieces of files wait for the worker that writes them. */
#include "server/http_body.h"

#include "base/clock.h"
#include "server/connections.h"
#include "server/dispatch.h"
#include "server/endpoint.h"
#include "server/server.h"
#include "server/settings.h"
#include "server/upload.h"
#include "server/workers.h"

enum {
    DISCARD_FACTOR = 8, /* a body that is too long is read and forgotten up to so many times the limit */
    ALL_FACTOR = 16,    /* all bodies together may have so many times the limit of one */
    ALL_RETRY_MS = 1000,
    PIECE_BYTES = 256 << 10, /* of a file are written in one go */
    TIME_BYTES = 1 << 20     /* of a file have request_timeout_s */
};

static bool is_upload(const struct exchange *x)
{
    return x->route.endpoint != NULL && (x->route.endpoint->flags & ENDPOINT_UPLOAD) != 0;
}

size_t http_body_max(const struct exchange *x)
{
    return is_upload(x) ? upload_body_max(x) : x->server->settings->max_body_bytes;
}

static void forget_body(struct http_bodies *b, struct exchange *x)
{
    atomic_fetch_sub(&b->bytes, x->body.n);
    string_buffer_release(&x->body);
}

/* Append to the body, or say in refusal why not. */
static void add_body(struct http_bodies *b, struct exchange *x, const char *bytes, size_t n)
{
    const size_t max = x->server->settings->max_body_bytes, before = x->body.n;
    if (atomic_load(&b->bytes) + n > max * ALL_FACTOR) {
        api_error_set(&x->refusal, 503, "the bodies of all requests together have more than %zu bytes", max * ALL_FACTOR);
        x->refusal.retry_after_ms = ALL_RETRY_MS;
        return;
    }
    string_buffer_add(&x->body, bytes, n);
    atomic_fetch_add(&b->bytes, x->body.n - before);
    if (x->body.failed)
        api_error_set(&x->refusal, 503, "no memory for the body");
}

static void keep_body(struct http_bodies *b, struct exchange *x, const char *bytes, size_t n)
{
    const size_t max = x->server->settings->max_body_bytes;
    if (n > max - x->body.n)
        api_error_set(&x->refusal, 413, "the body has more than %zu bytes", max);
    else
        add_body(b, x, bytes, n);
}

/* A worker writes what has come of a file, as its disk may take its time; nothing more comes meanwhile. MHD_NO: the client has
 * left, or the server ends. */
static enum MHD_Result write_later(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const bool goes_on = !x->is_gone && exchange_park(x) == MR_OK;
    if (goes_on)
        MHD_suspend_connection(x->connection);
    pthread_mutex_unlock(&x->lock);
    if (goes_on)
        workers_add(x->server->workers, x);
    return goes_on ? MHD_YES : MHD_NO;
}

void http_body_go_on(struct http_bodies *b, struct exchange *x)
{
    if (!is_upload(x) || x->body.n < PIECE_BYTES)
        return;
    dispatch_remove(x->server->dispatch, x);
    x->n_uploaded += x->body.n;
    forget_body(b, x);
}

/* Keep what comes of a file until a worker can be given a piece. A client that goes on sending has its time anew with each
 * TIME_BYTES. */
static enum MHD_Result pass_on(struct http_bodies *b, struct exchange *x, const char *bytes, size_t n)
{
    const size_t before = x->n_uploaded + x->body.n, after = before + n;
    if (after > upload_body_max(x)) {
        api_error_set(&x->refusal, 413, "the body has more than %zu bytes", upload_body_max(x));
        return MHD_YES;
    }
    if (after / TIME_BYTES != before / TIME_BYTES)
        connections_set(b->connections,
                        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context,
                        CONNECTION_SENDING, clock_us());
    add_body(b, x, bytes, n);
    return x->refusal.http != 0 || x->body.n < PIECE_BYTES ? MHD_YES : write_later(x);
}

enum MHD_Result http_body_take(struct http_bodies *b, struct exchange *x, const char *bytes, size_t n)
{
    enum MHD_Result result = MHD_YES;
    if (x->refusal.http == 0 && is_upload(x))
        result = pass_on(b, x, bytes, n);
    else if (x->refusal.http == 0)
        keep_body(b, x, bytes, n);
    if (x->refusal.http == 0)
        return result;
    forget_body(b, x);
    x->n_discarded += n;
    return x->n_discarded / DISCARD_FACTOR > x->server->settings->max_body_bytes ? MHD_NO : MHD_YES;
}
