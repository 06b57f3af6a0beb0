/* engine_pool.c: the pool as a link: requests are given to it, events taken. */
#include "server/engine_pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread_start.h"
#include "server/pool_state.h"
#include "server/wire.h"

enum {
    PREFIX_TOKENS = 64, /* of a prompt, that say where its like are */
    LOOK_MS = 50
};

static struct engine_pool *of(struct engine_link *link) { return (struct engine_pool *)link; } /* its first member */
static const struct engine_pool *of_const(const struct engine_link *link) { return (const struct engine_pool *)link; }

/* FNV-1a, over the beginning of the prompt. */
static uint64_t hash_prefix(const struct mr_request *r)
{
    const int32_t n = r->n_prompt < PREFIX_TOKENS ? r->n_prompt : PREFIX_TOKENS;
    uint64_t h = 0xcbf29ce484222325;
    for (int32_t i = 0; i < n; i++)
        h = (h ^ (uint32_t)r->prompt[i]) * 0x100000001b3;
    return h ^ h >> 32;
}

static struct pool_ticket *make_ticket(uint64_t id, const struct mr_request *request, size_t bytes)
{
    struct pool_ticket *t = mem_zero_array(1, sizeof *t);
    char *record = mem_array(bytes, 1);
    if (t == NULL || record == NULL) {
        free(t);
        free(record);
        return NULL;
    }
    wire_request_write(record, request);
    *t = (struct pool_ticket){.id = id,
                              .slot = -1,
                              .n = request->n,
                              .n_open = request->n,
                              .prefix = hash_prefix(request),
                              .n_bytes = bytes,
                              .record = record};
    return t;
}

static enum mr_status pool_submit(struct engine_link *link, uint64_t ticket, const struct mr_request *request,
                                  struct mr_error *err)
{
    struct engine_pool *p = of(link);
    size_t bytes;
    MR_TRY(wire_request_bytes(&bytes, request, err));
    if (request->n < 1 || request->n > MR_N_MAX)
        return mr_fail(err, MR_BAD_INPUT, "n is %d, must be from 1 to %d", request->n, MR_N_MAX);
    if (bytes > FRAME_BYTES_MAX)
        return mr_fail(err, MR_BAD_INPUT, "the request has %zu bytes, at most %d are possible", bytes, FRAME_BYTES_MAX);
    struct pool_ticket *t = make_ticket(ticket, request, bytes);
    if (t == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a request of %d tokens", request->n_prompt);
    pthread_mutex_lock(&p->lock);
    const bool ok = id_map_add(&p->tickets, ticket, t);
    if (ok && !pool_assign(p, t))
        p->n_waiting++;
    pthread_mutex_unlock(&p->lock);
    if (ok) {
        pool_wake(p);
        return MR_OK;
    }
    free(t->record);
    free(t);
    return mr_fail(err, MR_NO_MEMORY, "no memory for a request of %d tokens", request->n_prompt);
}

static void pool_cancel(struct engine_link *link, uint64_t ticket)
{
    struct engine_pool *p = of(link);
    pthread_mutex_lock(&p->lock);
    struct pool_ticket *t = id_map_find(&p->tickets, ticket);
    if (t != NULL && t->slot >= 0) {
        frame_push(&p->engine[t->slot].out, FRAME_CANCEL, ticket, 0, 0); /* without memory it goes on, unheard */
        p->engine[t->slot].n_open--;
    } else if (t != NULL && !t->is_done) {
        p->n_waiting--;
    }
    if (t != NULL)
        pool_forget(p, t);
    pthread_mutex_unlock(&p->lock);
    pool_wake(p);
}

static int pool_event_fd(const struct engine_link *link) { return of_const(link)->event_fd; }

/* Whether the event is still wanted; the last one of a ticket ends it. */
static bool settle(struct engine_pool *p, const struct pool_event_head *head)
{
    pthread_mutex_lock(&p->lock);
    struct pool_ticket *t = id_map_find(&p->tickets, head->ticket);
    if (t != NULL && head->is_last)
        pool_forget(p, t);
    pthread_mutex_unlock(&p->lock);
    return t != NULL;
}

static bool refill(struct engine_pool *p)
{
    eventfd_t n;
    pthread_mutex_lock(&p->lock);
    const bool any = !record_queue_is_empty(&p->events);
    const struct record_queue empty = p->reading;
    if (any) {
        p->reading = p->events;
        p->events = empty;
    } else {
        (void)eventfd_read(p->event_fd, &n);
    }
    pthread_mutex_unlock(&p->lock);
    return any;
}

static bool pool_next_event(struct engine_link *link, struct mr_event *out, int64_t *retry_after_ms)
{
    struct engine_pool *p = of(link);
    for (;;) {
        const char *record = record_queue_pop(&p->reading);
        if (record == NULL && !refill(p))
            return false;
        if (record == NULL)
            continue;
        struct pool_event_head head;
        memcpy(&head, record, sizeof head);
        if (!settle(p, &head))
            continue;
        wire_event_read(out, record + sizeof head);
        *retry_after_ms = head.retry_after_ms;
        return true;
    }
}

static void get_stats(struct engine_link *link, struct mr_engine_stats *out)
{
    struct engine_pool *p = of(link);
    pthread_mutex_lock(&p->lock);
    pool_stats(p, out);
    pthread_mutex_unlock(&p->lock);
}

static int32_t get_n_ctx(const struct engine_link *link) { return of_const(link)->n_ctx; } /* set before create returns */

static void set_observer(struct engine_link *link, void (*stepped)(void *context, const struct mr_engine_stats *stats),
                         void *context)
{
    struct engine_pool *p = of(link);
    pthread_mutex_lock(&p->lock);
    p->stepped = stepped;
    p->context = context;
    pthread_mutex_unlock(&p->lock);
}

void engine_pool_counts(struct engine_link *l, struct engine_pool_counts *out)
{
    struct engine_pool *p = of(l);
    pthread_mutex_lock(&p->lock);
    *out = p->counts;
    out->n_active = out->n_standby = 0;
    for (int i = 0; i < p->n_engine; i++) {
        out->n_active += p->engine[i].phase == POOL_ACTIVE && !p->engine[i].retires;
        out->n_standby += p->engine[i].phase == POOL_STANDBY && p->engine[i].index < 0;
    }
    pthread_mutex_unlock(&p->lock);
}

int engine_pool_processes(struct engine_link *l, struct engine_pool_process *out)
{
    struct engine_pool *p = of(l);
    int n = 0;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->n_engine; i++) {
        const struct pool_engine *e = &p->engine[i];
        if ((e->phase == POOL_ACTIVE && !e->retires) || (e->phase == POOL_STANDBY && e->index < 0))
            out[n++] = (struct engine_pool_process){.pid = e->pid,
                                                    .index = e->index,
                                                    .n_open = e->n_open,
                                                    .step_us = e->stats.step_us,
                                                    .kv_bytes = e->stats.kv_bytes,
                                                    .kv_bytes_in_use = e->stats.kv_bytes_in_use};
    }
    pthread_mutex_unlock(&p->lock);
    return n;
}

static void release(struct engine_pool *p)
{
    for (size_t i = 0; i < p->tickets.capacity; i++) {
        struct pool_ticket *t = p->tickets.entry[i].id != 0 ? p->tickets.entry[i].value : NULL;
        if (t != NULL)
            free(t->record);
        free(t);
    }
    id_map_release(&p->tickets);
    record_queue_release(&p->reading);
    record_queue_release(&p->events);
    frame_buffer_release(&p->config);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
    pool_orders_release(&p->orders);
    if (p->wake_fd >= 0)
        close(p->wake_fd);
    if (p->event_fd >= 0)
        close(p->event_fd);
    free(p);
}

static void pool_free(struct engine_link *link)
{
    struct engine_pool *p = of(link);
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pool_wake(p);
    pthread_join(p->thread, NULL);
    release(p);
}

static const struct engine_link_kind engine_pool_kind = {.free = pool_free,
                                                         .submit = pool_submit,
                                                         .cancel = pool_cancel,
                                                         .event_fd = pool_event_fd,
                                                         .next_event = pool_next_event,
                                                         .stats = get_stats,
                                                         .n_ctx = get_n_ctx,
                                                         .set_observer = set_observer,
                                                         .order = pool_order};

bool engine_link_is_pool(const struct engine_link *l) { return l->kind == &engine_pool_kind; }

static bool write_config(struct frame_buffer *out, const struct engine_config *config)
{
    void *to = frame_push(out, FRAME_CONFIG, 0, 0, engine_config_bytes(config));
    if (to != NULL)
        engine_config_write(to, config);
    return to != NULL;
}

/* Those that retire keep theirs while others begin, where there are as many. */
static int n_places(const struct engine_pool_options *o)
{
    const int n = o->config.n_active + o->n_standby;
    return o->n_standby > 0 && n + o->config.n_active <= POOL_ENGINES_MAX ? n + o->config.n_active : n;
}

static bool prepare(struct engine_pool *p, const struct engine_pool_options *options)
{
    *p = (struct engine_pool){.link = {&engine_pool_kind},
                              .options = *options,
                              .n_engine = n_places(options),
                              .wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
                              .event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    pthread_mutex_init(&p->orders.one_at_a_time, NULL);
    for (int i = 0; i < p->n_engine; i++)
        p->engine[i].index = p->engine[i].fd = -1;
    return write_config(&p->config, &options->config) && p->wake_fd >= 0 && p->event_fd >= 0;
}

/* For a change, or a while. The lock is held. */
static void wait_a_while(struct engine_pool *p)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&p->changed, &p->lock, &until);
}

/* Until all active ones are there, or one cannot be. */
static enum mr_status wait_ready(struct engine_pool *p, bool (*progress)(void *context, size_t done, size_t total),
                                 void *context, struct mr_error *err)
{
    for (;;) {
        struct engine_pool_counts counts;
        engine_pool_counts(&p->link, &counts);
        if (counts.n_active == p->options.config.n_active)
            return MR_OK;
        if (progress != NULL && !progress(context, (size_t)counts.n_active, (size_t)p->options.config.n_active))
            return mr_fail(err, MR_CANCELLED, "interrupted");
        pthread_mutex_lock(&p->lock);
        if (p->n_failed > 0) {
            const enum mr_status status = mr_fail(err, p->failure_status, "%s", p->failure.message);
            pthread_mutex_unlock(&p->lock);
            return status;
        }
        wait_a_while(p);
        pthread_mutex_unlock(&p->lock);
    }
}

/* Until the places are taken, or a process with the new config cannot be started. The lock is held. */
static enum mr_status wait_renewed(struct engine_pool *p, struct mr_error *err)
{
    pool_wake(p); /* its thread starts the standbys */
    while (!p->stop && !p->rests && !pool_is_new(p)) {
        if (p->n_failed > 0)
            return mr_fail(err, p->failure_status, "%s", p->failure.message);
        wait_a_while(p);
    }
    return MR_OK;
}

enum mr_status engine_pool_renew(struct engine_link *l, const struct engine_config *config, struct mr_error *err)
{
    struct engine_pool *p = of(l);
    struct frame_buffer fresh = {0};
    if (!write_config(&fresh, config))
        return mr_fail(err, MR_NO_MEMORY, "no memory for engine processes");
    pthread_mutex_lock(&p->lock);
    if (pool_n_living(p) > p->options.config.n_active + p->options.n_standby ||
        p->n_engine < 2 * p->options.config.n_active + 1) {
        pthread_mutex_unlock(&p->lock);
        frame_buffer_release(&fresh);
        return mr_fail(err, MR_BUSY,
                       "there is no room for more engine processes, or those of the last change still have requests");
    }
    struct frame_buffer old = p->config;
    const uint64_t version = p->version;
    p->version = ++p->n_version;
    p->config = fresh;
    p->n_failed = 0;
    p->next_start_us = 0;
    pool_end_standbys(p);
    const enum mr_status status = wait_renewed(p, err);
    if (status != MR_OK) {
        p->config = old;
        p->version = version;
        p->n_failed = 0;
        old = fresh;
        pool_end_standbys(p);
    }
    frame_buffer_release(&old);
    pthread_mutex_unlock(&p->lock);
    pool_wake(p);
    return status;
}

void engine_pool_rest(struct engine_link *l)
{
    struct engine_pool *p = of(l);
    pthread_mutex_lock(&p->lock);
    p->rests = true;
    pool_rest(p);
    pthread_mutex_unlock(&p->lock);
    pool_wake(p); /* its thread starts a standby where there is none */
}

enum mr_status engine_pool_resume(struct engine_link *l, bool (*progress)(void *context, size_t done, size_t total),
                                  void *context, struct mr_error *err)
{
    struct engine_pool *p = of(l);
    pthread_mutex_lock(&p->lock);
    p->rests = false;
    p->n_failed = 0;
    pthread_mutex_unlock(&p->lock);
    pool_wake(p);
    const enum mr_status status = wait_ready(p, progress, context, err);
    if (status != MR_OK)
        engine_pool_rest(l);
    return status;
}

enum mr_status engine_pool_create(struct engine_link **out, const struct engine_pool_options *options,
                                  bool (*progress)(void *context, size_t done, size_t total), void *context,
                                  struct mr_error *err)
{
    *out = NULL;
    struct engine_pool *p = mem_zero_array(1, sizeof *p);
    if (p == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for engine processes");
    if (!prepare(p, options) || !thread_start(&p->thread, pool_thread_run, p)) {
        release(p);
        return mr_fail(err, MR_NO_MEMORY, "no memory for engine processes");
    }
    const enum mr_status status = wait_ready(p, progress, context, err);
    if (status != MR_OK)
        pool_free(&p->link);
    else
        *out = &p->link;
    return status;
}
