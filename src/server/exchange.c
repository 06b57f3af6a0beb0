/* exchange.c: one request and its whole reply. What streams is in exchange_stream.c. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/dispatch.h"
#include "server/exchange_state.h"
#include "server/keys.h"
#include "server/server.h"
#include "server/upload.h"

enum {
    ID_RANDOM_BYTES = 12
};

struct exchange *exchange_create(struct server *s, const char *target)
{
    struct exchange *x = mem_zero_array(1, sizeof *x);
    struct mr_error err = {{0}};
    if (x == NULL)
        return NULL;
    x->server = s;
    x->fd = x->reply_fd = -1;
    x->times.begin_us = clock_us();
    atomic_init(&x->n_ref, 1);
    pthread_mutex_init(&x->lock, NULL);
    string_buffer_init(&x->body);
    string_buffer_init(&x->out);
    const enum mr_status status = target_parse(&x->target, target, &err);
    if (status != MR_OK)
        api_error_of_status(&x->refusal, status, err.message);
    return x;
}

void exchange_hold(struct exchange *x) { atomic_fetch_add_explicit(&x->n_ref, 1, memory_order_relaxed); }

void exchange_drop(struct exchange *x)
{
    if (x == NULL || atomic_fetch_sub_explicit(&x->n_ref, 1, memory_order_acq_rel) > 1)
        return;
    if (x->self != NULL && x->responder.free != NULL)
        x->responder.free(x->self);
    for (int i = 0; i < x->n_header; i++) {
        free(x->header[i].name);
        free(x->header[i].value);
    }
    api_key_drop(x->key);
    free(x->content_type);
    free(x->life);
    free(x->slot);
    target_release(&x->target);
    string_buffer_release(&x->body);
    string_buffer_release(&x->out);
    upload_free(x->upload);
    if (x->reply_fd >= 0)
        close(x->reply_fd);
    pthread_mutex_destroy(&x->lock);
    free(x);
}

/* What may stand in logs and headers as it is. */
static bool is_id(const char *s)
{
    const size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:+/=");
    return n > 0 && n <= EXCHANGE_ID_MAX && s[n] == '\0';
}

void exchange_choose_id(struct exchange *x)
{
    static const char digit[] = "0123456789abcdef";
    unsigned char random[ID_RANDOM_BYTES] = {0};
    const char *own = exchange_header(x, "x-request-id"), *trace = exchange_header(x, "traceparent");
    if (trace != NULL && strlen(trace) < sizeof x->traceparent)
        memcpy(x->traceparent, trace, strlen(trace) + 1);
    if (own != NULL && is_id(own)) {
        memcpy(x->id, own, strlen(own) + 1);
        return;
    }
    arc4random_buf(random, sizeof random);
    memcpy(x->id, "req_", 5);
    for (size_t i = 0; i < sizeof random; i++) {
        x->id[4 + 2 * i] = digit[random[i] >> 4];
        x->id[5 + 2 * i] = digit[random[i] & 15];
    }
}

const char *exchange_method(const struct exchange *x) { return x->method; }
const char *exchange_path(const struct exchange *x) { return x->target.path; }
const char *exchange_parameter(const struct exchange *x, const char *name) { return route_parameter(&x->route, name); }
const char *exchange_query(const struct exchange *x, const char *name) { return target_find_query(&x->target, name); }
const char *exchange_header(const struct exchange *x, const char *name) { return x->transport->header(x->connection, name); }
const char *exchange_id(const struct exchange *x) { return x->id; }
const struct api_key *exchange_key(const struct exchange *x) { return x->key; }
int64_t exchange_arrival_us(const struct exchange *x) { return x->times.arrival_us; }
struct server *exchange_server(const struct exchange *x) { return x->server; }

const char *exchange_body(const struct exchange *x, size_t *n)
{
    *n = x->body.n;
    return x->body.s != NULL ? x->body.s : "";
}

void exchange_wake(struct exchange *x)
{
    if (!x->is_waiting || x->is_working)
        return;
    x->is_waiting = false;
    x->transport->resume(x->connection);
}

/* A whole reply, once. The lock is held. */
static void reply(struct exchange *x, int http, const char *content_type, const void *bytes, size_t n)
{
    if (x->http != 0)
        return;
    x->content_type = mem_string(content_type, strlen(content_type));
    string_buffer_clear(&x->out);
    string_buffer_add(&x->out, bytes, n);
    x->http = x->out.failed || x->content_type == NULL ? 500 : http;
    if (x->out.failed)
        string_buffer_clear(&x->out);
    x->is_ended = true;
    x->times.end_us = clock_us();
    exchange_wake(x);
}

void exchange_reply(struct exchange *x, int http, const char *content_type, const void *bytes, size_t n)
{
    pthread_mutex_lock(&x->lock);
    reply(x, http, content_type, bytes, n);
    pthread_mutex_unlock(&x->lock);
}

void exchange_reply_file(struct exchange *x, const char *content_type, int fd, int64_t n)
{
    pthread_mutex_lock(&x->lock);
    if (x->http == 0) {
        x->reply_fd = fd;
        x->n_file = n;
        reply(x, 200, content_type, "", 0);
    } else {
        close(fd);
    }
    pthread_mutex_unlock(&x->lock);
}

static int append_json(const char *bytes, size_t n, void *out)
{
    string_buffer_add(out, bytes, n);
    return ((struct string_buffer *)out)->failed ? -1 : 0;
}

void exchange_reply_json(struct exchange *x, int http, json_t *value)
{
    struct string_buffer text;
    string_buffer_init(&text);
    const bool ok = value != NULL && json_dump_callback(value, append_json, &text, JSON_COMPACT | JSON_ENCODE_ANY) == 0;
    json_decref(value);
    if (ok)
        exchange_reply(x, http, "application/json", text.s, text.n);
    else
        exchange_fail_status(x, MR_NO_MEMORY, NULL);
    string_buffer_release(&text);
}

void exchange_put_header(struct exchange *x, const char *name, const char *value)
{
    if (x->http != 0 || x->n_header == EXCHANGE_HEADERS_MAX)
        return;
    const struct header_field field = {.name = mem_string(name, strlen(name)), .value = mem_string(value, strlen(value))};
    if (field.name == NULL || field.value == NULL || strpbrk(value, "\r\n") != NULL) {
        free(field.name);
        free(field.value);
        return;
    }
    x->header[x->n_header++] = field;
}

void exchange_set_header(struct exchange *x, const char *name, const char *value)
{
    pthread_mutex_lock(&x->lock);
    exchange_put_header(x, name, value);
    pthread_mutex_unlock(&x->lock);
}

void exchange_fail_locked(struct exchange *x, const struct api_error *e)
{
    const struct endpoint *endpoint = x->route.endpoint;
    struct string_buffer text;
    char seconds[32];
    if (x->http != 0)
        return;
    string_buffer_init(&text);
    (endpoint != NULL && endpoint->write_error != NULL ? endpoint->write_error : api_error_write)(e, &text);
    if (e->retry_after_ms > 0) {
        snprintf(seconds, sizeof seconds, "%lld", (long long)((e->retry_after_ms + 999) / 1000));
        exchange_put_header(x, "Retry-After", seconds);
        snprintf(seconds, sizeof seconds, "%lld", (long long)e->retry_after_ms);
        exchange_put_header(x, "retry-after-ms", seconds);
    }
    reply(x, e->http, "application/json", text.s != NULL ? text.s : "{}", text.s != NULL ? text.n : 2);
    string_buffer_release(&text);
}

void exchange_fail(struct exchange *x, const struct api_error *e)
{
    pthread_mutex_lock(&x->lock);
    exchange_fail_locked(x, e);
    pthread_mutex_unlock(&x->lock);
}

void exchange_fail_status(struct exchange *x, enum mr_status status, const struct mr_error *err)
{
    struct api_error e;
    api_error_of_status(&e, status, err != NULL ? err->message : NULL);
    exchange_fail(x, &e);
}

void exchange_await(struct exchange *x, struct hosted_model *model) { x->awaited = model; }

enum mr_status exchange_park(struct exchange *x)
{
    const enum mr_status status = dispatch_add(x->server->dispatch, x);
    x->is_working = x->is_waiting = status == MR_OK;
    return status;
}

bool exchange_handle(struct exchange *x)
{
    x->route.endpoint->handle(x);
    if (x->awaited != NULL)
        return false;
    pthread_mutex_lock(&x->lock);
    if (x->http == 0 && !x->is_generating && !x->is_gone) {
        struct api_error e;
        api_error_set(&e, 500, "the request was left without a reply");
        exchange_fail_locked(x, &e);
    }
    pthread_mutex_unlock(&x->lock);
    return true;
}
