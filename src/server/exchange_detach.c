/* exchange_detach.c: the transport of an exchange that nobody waits for. */
#include "server/exchange_detach.h"

#include <string.h>

#include "server/dispatch.h"
#include "server/exchange_report.h"
#include "server/exchange_state.h"
#include "server/keys.h"
#include "server/server.h"

/* Its answer has ended. Whoever calls holds it. */
static void resume(void *connection) { exchange_report_answers(connection); }

static const char *header(void *connection, const char *name)
{
    (void)connection;
    (void)name;
    return NULL;
}

static const struct transport transport = {.resume = resume, .header = header};

struct exchange *exchange_detach(const struct exchange *x)
{
    struct exchange *d = exchange_create(x->server, x->target.path);
    if (d == NULL)
        return NULL;
    d->transport = &transport;
    d->connection = d;
    d->route.endpoint = x->route.endpoint;
    d->key = x->key;
    api_key_hold(d->key);
    d->times = x->times;
    d->loading_us = x->loading_us;
    memcpy(d->id, x->id, sizeof d->id);
    memcpy(d->method, x->method, sizeof d->method);
    d->is_waiting = true;
    return d;
}

uint64_t exchange_detach_end(struct exchange *detached, struct exchange *x)
{
    pthread_mutex_lock(&detached->lock);
    const uint64_t ticket = detached->http < 400 ? detached->serial : 0;
    if (ticket == 0) {
        for (int i = 0; i < detached->n_header; i++)
            exchange_set_header(x, detached->header[i].name, detached->header[i].value);
        exchange_reply(x, detached->http, "application/json", detached->out.s != NULL ? detached->out.s : "", detached->out.n);
    }
    pthread_mutex_unlock(&detached->lock);
    exchange_drop(detached);
    return ticket;
}

void exchange_detach_cancel(struct server *s, uint64_t ticket)
{
    if (ticket != 0)
        dispatch_leave(s->dispatch, ticket);
}
