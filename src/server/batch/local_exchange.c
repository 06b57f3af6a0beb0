/* local_exchange.c: the transport of an exchange that has no socket. */
#include "server/batch/local_exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/dispatch.h"
#include "server/exchange_report.h"
#include "server/keys.h"
#include "server/model_store.h"
#include "server/server.h"

struct local_exchange {
    struct exchange *x;
    void (*done)(void *context);
    void *context;
    bool is_told;
};

static void tell(struct local_exchange *l)
{
    if (l->is_told)
        return;
    l->is_told = true;
    l->done(l->context);
}

static void resume(void *connection) { tell(connection); }

static const char *header(void *connection, const char *name)
{
    (void)connection;
    (void)name;
    return NULL;
}

static const struct transport transport = {.resume = resume, .header = header};

static bool prepare(struct local_exchange *l, struct server *s, const char *path, const char *body, size_t n)
{
    struct exchange *x = l->x = exchange_create(s, path);
    if (x == NULL)
        return false;
    x->transport = &transport;
    x->connection = l;
    x->times.arrival_us = clock_us();
    snprintf(x->method, sizeof x->method, "POST");
    exchange_choose_id(x);
    route_find(&x->route, endpoint_table, x->method, &x->target);
    if (x->route.endpoint == NULL && x->refusal.http == 0)
        api_error_set(&x->refusal, 404, "no such path: %s", path);
    string_buffer_add(&x->body, body, n);
    return !x->body.failed;
}

static void wait_for_model(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const enum mr_status status = exchange_park(x);
    pthread_mutex_unlock(&x->lock);
    if (status == MR_OK)
        model_store_wait(x->server->store, x);
    else
        exchange_fail_status(x, status, NULL);
}

struct local_exchange *local_exchange_start(struct server *s, const char *path, const char *body, size_t n,
                                            const struct api_key *key, void (*done)(void *context), void *context)
{
    struct local_exchange *l = mem_zero_array(1, sizeof *l);
    if (l == NULL)
        return NULL;
    l->done = done;
    l->context = context;
    if (!prepare(l, s, path, body, n)) {
        exchange_drop(l->x);
        free(l);
        return NULL;
    }
    struct exchange *x = l->x;
    x->is_background = true;
    x->key = key;
    api_key_hold(key);
    if (x->refusal.http != 0)
        exchange_fail(x, &x->refusal);
    else if (!exchange_handle(x))
        wait_for_model(x);
    pthread_mutex_lock(&x->lock);
    if (x->is_ended)
        tell(l);
    else
        x->is_waiting = true;
    pthread_mutex_unlock(&x->lock);
    return l;
}

void local_exchange_reply(const struct local_exchange *l, struct local_reply *out)
{
    struct exchange *x = l->x;
    pthread_mutex_lock(&x->lock);
    *out = (struct local_reply){.http = x->http,
                                .id = x->id,
                                .body = x->out.s != NULL ? x->out.s : "",
                                .n = x->out.n,
                                .n_generated = x->usage.n_generated,
                                .n_prompt = x->usage.n_prompt};
    for (int i = 0; i < x->n_header; i++)
        if (strcmp(x->header[i].name, "retry-after-ms") == 0)
            out->retry_after_ms = strtoll(x->header[i].value, NULL, 10);
    pthread_mutex_unlock(&x->lock);
}

void local_exchange_end(struct local_exchange *l)
{
    if (l == NULL)
        return;
    struct exchange *x = l->x;
    pthread_mutex_lock(&x->lock);
    l->is_told = true;
    x->is_waiting = false;
    if (x->is_generating)
        exchange_leave(x);
    dispatch_remove(x->server->dispatch, x);
    exchange_report_answers(x);
    pthread_mutex_unlock(&x->lock);
    exchange_drop(x);
    free(l);
}
