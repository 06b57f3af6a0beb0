/* pool_orders.c: one order at a time goes to all engines, and to those that begin later what still holds of them. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "server/pool_state.h"

static bool tell(struct pool_engine *e, uint64_t serial, const struct engine_order *o)
{
    void *to = frame_push(&e->out, FRAME_ORDER, serial, 0, engine_order_bytes(o));
    if (to != NULL)
        engine_order_write(to, o);
    return to != NULL;
}

bool pool_tell_orders(const struct engine_pool *p, struct pool_engine *e)
{
    struct engine_order o = {.kind = ENGINE_ORDER_TARGETS, .targets = p->orders.targets};
    if (p->orders.has_targets && !tell(e, 0, &o))
        return false;
    for (int i = 0; i < p->orders.n_adapter; i++) {
        o = (struct engine_order){
            .kind = ENGINE_ORDER_LOAD_ADAPTER, .adapter = p->orders.adapter[i].id, .path = p->orders.adapter[i].path};
        if (!tell(e, 0, &o))
            return false;
    }
    return true;
}

void pool_take_done(struct engine_pool *p, struct pool_engine *e, const struct frame_head *head, const char *message)
{
    struct pool_orders *s = &p->orders;
    if (head->ticket == 0 || head->ticket != e->owes)
        return;
    e->owes = 0;
    s->n_owed--;
    if (head->value != MR_OK && s->status == MR_OK) {
        const bool is_status = head->value > MR_OK && head->value <= MR_BUSY;
        s->status = mr_fail(&s->error, is_status ? (enum mr_status)head->value : MR_IO, "%.*s",
                            head->bytes < MR_ERROR_MAX ? (int)head->bytes : MR_ERROR_MAX - 1, message);
    }
    pthread_cond_broadcast(&p->changed);
}

void pool_drop_order(struct engine_pool *p, struct pool_engine *e)
{
    p->orders.n_owed -= e->owes != 0;
    e->owes = 0;
    pthread_cond_broadcast(&p->changed);
}

static enum mr_status add_adapter(struct pool_orders *s, struct engine_order *o, struct mr_error *err)
{
    char *path = mem_string(o->path, strlen(o->path));
    if (path == NULL || !mem_grow(&s->adapter, &s->capacity, (size_t)s->n_adapter + 1, sizeof *s->adapter)) {
        free(path);
        return mr_fail(err, MR_NO_MEMORY, "no memory for an adapter");
    }
    o->adapter = ++s->n_id;
    s->adapter[s->n_adapter++] = (struct pool_adapter){.id = o->adapter, .path = path};
    return MR_OK;
}

static enum mr_status remove_adapter(struct pool_orders *s, int32_t id, struct mr_error *err)
{
    int i = 0;
    while (i < s->n_adapter && s->adapter[i].id != id)
        i++;
    if (i == s->n_adapter)
        return mr_fail(err, MR_NOT_FOUND, "no adapter has the id %d", (int)id);
    free(s->adapter[i].path);
    s->adapter[i] = s->adapter[--s->n_adapter];
    return MR_OK;
}

/* What holds from now on, for those that begin later. */
static enum mr_status note(struct engine_pool *p, struct engine_order *o, struct mr_error *err)
{
    if (o->kind == ENGINE_ORDER_LOAD_ADAPTER)
        return add_adapter(&p->orders, o, err);
    if (o->kind == ENGINE_ORDER_UNLOAD_ADAPTER)
        return remove_adapter(&p->orders, o->adapter, err);
    p->orders.has_targets = true;
    p->orders.targets = o->targets;
    return MR_OK;
}

/* To all engines; serial 0: whose answers nobody waits for. */
static void tell_all(struct engine_pool *p, uint64_t serial, const struct engine_order *o)
{
    for (int i = 0; i < p->n_engine; i++) {
        struct pool_engine *e = &p->engine[i];
        if (e->phase != POOL_ACTIVE)
            continue;
        if (!tell(e, serial, o)) {
            p->orders.status = mr_fail(&p->orders.error, MR_NO_MEMORY, "no memory for an order to an engine process");
        } else if (serial != 0) {
            e->owes = serial;
            p->orders.n_owed++;
        }
    }
}

/* An adapter that one of them does not take is nobody's. */
static void take_back(struct engine_pool *p, const struct engine_order *o)
{
    const struct engine_order back = {.kind = ENGINE_ORDER_UNLOAD_ADAPTER, .adapter = o->adapter};
    if (o->kind == ENGINE_ORDER_LOAD_ADAPTER && remove_adapter(&p->orders, o->adapter, NULL) == MR_OK)
        tell_all(p, 0, &back);
}

static enum mr_status give(struct engine_pool *p, struct engine_order *o, struct mr_error *err)
{
    struct pool_orders *s = &p->orders;
    MR_TRY(note(p, o, err));
    s->status = MR_OK;
    s->n_owed = 0;
    tell_all(p, ++s->serial, o);
    pool_wake(p);
    while (s->n_owed > 0 && !p->stop)
        pthread_cond_wait(&p->changed, &p->lock);
    if (s->status == MR_OK)
        return MR_OK;
    take_back(p, o);
    pool_wake(p);
    return mr_fail(err, s->status, "%s", s->error.message);
}

enum mr_status pool_order(struct engine_link *link, struct engine_order *order, struct mr_error *err)
{
    struct engine_pool *p = (struct engine_pool *)link; /* its first member */
    const int32_t n = p->options.config.n_active;
    struct engine_order o = *order;
    o.targets.bucket_capacity = o.targets.bucket_capacity / n + (o.targets.bucket_capacity % n > 0); /* each has its share */
    pthread_mutex_lock(&p->orders.one_at_a_time);
    pthread_mutex_lock(&p->lock);
    const enum mr_status status = give(p, &o, err);
    pthread_mutex_unlock(&p->lock);
    pthread_mutex_unlock(&p->orders.one_at_a_time);
    order->adapter = o.adapter;
    return status;
}

void pool_orders_release(struct pool_orders *s)
{
    for (int i = 0; i < s->n_adapter; i++)
        free(s->adapter[i].path);
    free(s->adapter);
    pthread_mutex_destroy(&s->one_at_a_time);
}
