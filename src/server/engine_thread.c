/* engine_thread.c: the engine's thread sleeps while there is nothing to do; between two steps it takes what was asked of it. */
#include "server/engine_thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread_start.h"
#include "engine/record_queue.h"
#include "server/engine_link.h"
#include "server/id_map.h"
#include "server/wire.h"

/* A request from submit until its last event is taken. */
struct ticket {
    uint64_t id;
    uint64_t engine_id; /* the engine thread's; 0: the engine does not have it yet */
    int32_t n_open;     /* the engine thread's: answers that have not ended */
    bool is_cancelled, is_told;
};

/* In front of the records in the two queues. */
struct request_head {
    uint64_t ticket;
};
struct event_head {
    uint64_t ticket;
    int64_t retry_after_ms;
    bool is_last;
};

struct call {
    enum mr_status (*fn)(struct mr_engine *engine, void *context, struct mr_error *err);
    void *context;
    struct mr_error *err;
    enum mr_status status;
    bool is_done;
    struct call *next;
};

struct engine_thread {
    struct engine_link link;
    struct mr_engine *engine;
    pthread_t thread;
    int event_fd;
    struct record_queue taking;  /* the engine thread's */
    struct id_map by_engine_id;  /* the engine thread's: tickets */
    struct record_queue reading; /* of who takes events */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake, answered;
    bool stop;
    struct record_queue requests, events;
    struct id_map tickets;
    int n_to_cancel;
    struct call *calls;
    struct mr_engine_stats stats;
    void (*stepped)(void *context, const struct mr_engine_stats *stats);
    void *context;
};

static struct engine_thread *of(struct engine_link *link) { return (struct engine_thread *)link; } /* its first member */
static const struct engine_thread *of_const(const struct engine_link *link) { return (const struct engine_thread *)link; }

static void swap(struct record_queue *a, struct record_queue *b)
{
    const struct record_queue c = *a;
    *a = *b;
    *b = c;
}

/* The lock is held. */
static bool has_work(const struct engine_thread *l)
{
    return l->stop || l->calls != NULL || l->n_to_cancel > 0 || !record_queue_is_empty(&l->requests);
}

/* Nothing may be lost, so the engine waits where memory for an event is short: who takes events frees some. */
static void push_event(struct engine_thread *l, const struct mr_event *event, const struct event_head *head)
{
    const size_t bytes = sizeof *head + wire_event_bytes(event);
    char *p;
    pthread_mutex_lock(&l->lock);
    while ((p = record_queue_push(&l->events, bytes)) == NULL && !l->stop) {
        pthread_mutex_unlock(&l->lock);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        pthread_mutex_lock(&l->lock);
    }
    if (p != NULL) {
        memcpy(p, head, sizeof *head);
        wire_event_write(p + sizeof *head, event);
    }
    pthread_mutex_unlock(&l->lock);
}

static void push_refusal(struct engine_thread *l, uint64_t ticket, enum mr_status status, const struct mr_error *err)
{
    const struct mr_event event = {
        .request = ticket, .token = -1, .finish = MR_FINISH_ERROR, .error = err->message, .status = status};
    const bool may_return = status == MR_BUSY || status == MR_FULL;
    push_event(l, &event,
               &(struct event_head){
                   .ticket = ticket, .retry_after_ms = may_return ? mr_engine_retry_after_ms(l->engine) : 0, .is_last = true});
}

static enum mr_status submit(struct engine_thread *l, struct ticket *t, const struct mr_request *request, struct mr_error *err)
{
    uint64_t id;
    MR_TRY(mr_engine_submit(l->engine, request, &id, err));
    if (!id_map_add(&l->by_engine_id, id, t)) {
        mr_engine_cancel(l->engine, id);
        return mr_fail(err, MR_NO_MEMORY, "no memory for a request");
    }
    t->engine_id = id;
    t->n_open = request->n;
    return MR_OK;
}

/* NULL: it was cancelled before the engine saw it, and is gone. */
static struct ticket *find_wanted(struct engine_thread *l, uint64_t id)
{
    pthread_mutex_lock(&l->lock);
    struct ticket *t = id_map_find(&l->tickets, id);
    if (t != NULL && t->is_cancelled) {
        l->n_to_cancel -= !t->is_told;
        free(id_map_remove(&l->tickets, id));
        t = NULL;
    }
    pthread_mutex_unlock(&l->lock);
    return t;
}

static void submit_all(struct engine_thread *l)
{
    const char *p;
    while ((p = record_queue_pop(&l->taking)) != NULL) {
        struct request_head head;
        struct wire_request request;
        struct mr_error err = {{0}};
        memcpy(&head, p, sizeof head);
        struct ticket *t = find_wanted(l, head.ticket);
        if (t == NULL)
            continue;
        wire_request_read(&request, p + sizeof head);
        const enum mr_status status = submit(l, t, &request.request, &err);
        if (status != MR_OK)
            push_refusal(l, head.ticket, status, &err);
    }
}

static void cancel_all(struct engine_thread *l)
{
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; l->n_to_cancel > 0 && i < l->tickets.capacity; i++) {
        struct ticket *t = l->tickets.entry[i].value;
        if (l->tickets.entry[i].id == 0 || !t->is_cancelled || t->is_told || t->engine_id == 0)
            continue;
        t->is_told = true;
        l->n_to_cancel--;
        mr_engine_cancel(l->engine, t->engine_id); /* it may have ended in the meantime */
    }
    pthread_mutex_unlock(&l->lock);
}

static void move_events(struct engine_thread *l)
{
    struct mr_event event;
    while (mr_engine_next_event(l->engine, &event)) {
        const uint64_t engine_id = event.request;
        struct ticket *t = id_map_find(&l->by_engine_id, engine_id);
        if (t == NULL)
            continue;
        t->n_open -= event.finish != MR_FINISH_NONE;
        const struct event_head head = {.ticket = t->id, .is_last = t->n_open == 0};
        event.request = t->id;
        if (head.is_last)
            id_map_remove(&l->by_engine_id, engine_id);
        push_event(l, &event, &head);
    }
}

static void answer_calls(struct engine_thread *l, struct call *c)
{
    while (c != NULL) {
        struct call *next = c->next; /* the caller's memory: gone once it is done */
        c->status = c->fn(l->engine, c->context, c->err);
        pthread_mutex_lock(&l->lock);
        c->is_done = true;
        pthread_cond_broadcast(&l->answered);
        pthread_mutex_unlock(&l->lock);
        c = next;
    }
}

/* The lock is held. */
static void tell(struct engine_thread *l)
{
    const int64_t n_steps = l->stats.n_steps;
    mr_engine_get_stats(l->engine, &l->stats);
    if (l->stepped != NULL && l->stats.n_steps > n_steps)
        l->stepped(l->context, &l->stats);
    if (!record_queue_is_empty(&l->events))
        eventfd_write(l->event_fd, 1);
}

/* What was asked for since the last step. The lock is held, but not all the time. */
static void obey(struct engine_thread *l)
{
    struct call *calls = l->calls;
    l->calls = NULL;
    swap(&l->requests, &l->taking);
    pthread_mutex_unlock(&l->lock);
    submit_all(l);
    cancel_all(l);
    move_events(l);
    answer_calls(l, calls);
    pthread_mutex_lock(&l->lock);
    tell(l); /* a step may take long */
}

static void *run(void *context)
{
    struct engine_thread *l = context;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        tell(l);
        while (!has_work(l) && mr_engine_is_idle(l->engine))
            pthread_cond_wait(&l->wake, &l->lock);
        if (l->stop)
            break;
        if (has_work(l))
            obey(l);
        pthread_mutex_unlock(&l->lock);
        if (!mr_engine_is_idle(l->engine))
            mr_engine_step(l->engine);
        move_events(l);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static void link_free(struct engine_link *link)
{
    struct engine_thread *l = of(link);
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_signal(&l->wake);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    mr_engine_free(l->engine);
    for (size_t i = 0; i < l->tickets.capacity; i++)
        free(l->tickets.entry[i].value);
    id_map_release(&l->tickets);
    id_map_release(&l->by_engine_id);
    record_queue_release(&l->taking);
    record_queue_release(&l->reading);
    record_queue_release(&l->requests);
    record_queue_release(&l->events);
    close(l->event_fd);
    free(l);
}

/* The lock is held. Takes the ticket where it succeeds. */
static bool enqueue(struct engine_thread *l, struct ticket *t, const struct mr_request *request, size_t bytes)
{
    const struct request_head head = {.ticket = t->id};
    if (!id_map_add(&l->tickets, t->id, t))
        return false;
    char *p = record_queue_push(&l->requests, sizeof head + bytes);
    if (p == NULL) {
        id_map_remove(&l->tickets, t->id);
        return false;
    }
    memcpy(p, &head, sizeof head);
    wire_request_write(p + sizeof head, request);
    pthread_cond_signal(&l->wake);
    return true;
}

static enum mr_status link_submit(struct engine_link *link, uint64_t ticket, const struct mr_request *request,
                                  struct mr_error *err)
{
    struct engine_thread *l = of(link);
    size_t bytes;
    MR_TRY(wire_request_bytes(&bytes, request, err));
    struct ticket *t = mem_zero_array(1, sizeof *t);
    bool ok = t != NULL;
    if (ok) {
        t->id = ticket;
        pthread_mutex_lock(&l->lock);
        ok = enqueue(l, t, request, bytes);
        pthread_mutex_unlock(&l->lock);
    }
    if (ok)
        return MR_OK;
    free(t);
    return mr_fail(err, MR_NO_MEMORY, "no memory for a request of %d tokens", request->n_prompt);
}

static void link_cancel(struct engine_link *link, uint64_t ticket)
{
    struct engine_thread *l = of(link);
    pthread_mutex_lock(&l->lock);
    struct ticket *t = id_map_find(&l->tickets, ticket);
    if (t != NULL && !t->is_cancelled) {
        t->is_cancelled = true;
        l->n_to_cancel++;
        pthread_cond_signal(&l->wake);
    }
    pthread_mutex_unlock(&l->lock);
}

static int link_event_fd(const struct engine_link *link) { return of_const(link)->event_fd; }

/* Whether the event is still wanted; the last one of a ticket ends it. */
static bool settle(struct engine_thread *l, const struct event_head *head)
{
    pthread_mutex_lock(&l->lock);
    struct ticket *t = id_map_find(&l->tickets, head->ticket);
    const bool is_wanted = t != NULL && !t->is_cancelled;
    if (head->is_last && t != NULL) {
        l->n_to_cancel -= t->is_cancelled && !t->is_told;
        free(id_map_remove(&l->tickets, head->ticket));
    }
    pthread_mutex_unlock(&l->lock);
    return is_wanted;
}

static bool refill(struct engine_thread *l)
{
    pthread_mutex_lock(&l->lock);
    const bool any = !record_queue_is_empty(&l->events);
    eventfd_t n;
    if (any)
        swap(&l->events, &l->reading);
    else
        (void)eventfd_read(l->event_fd, &n);
    pthread_mutex_unlock(&l->lock);
    return any;
}

static bool link_next_event(struct engine_link *link, struct mr_event *out, int64_t *retry_after_ms)
{
    struct engine_thread *l = of(link);
    for (;;) {
        const char *p = record_queue_pop(&l->reading);
        if (p == NULL && !refill(l))
            return false;
        if (p == NULL)
            continue;
        struct event_head head;
        memcpy(&head, p, sizeof head);
        if (!settle(l, &head))
            continue;
        wire_event_read(out, p + sizeof head);
        *retry_after_ms = head.retry_after_ms;
        return true;
    }
}

static void link_stats(struct engine_link *link, struct mr_engine_stats *out)
{
    struct engine_thread *l = of(link);
    pthread_mutex_lock(&l->lock);
    *out = l->stats;
    pthread_mutex_unlock(&l->lock);
}

static void link_set_observer(struct engine_link *link, void (*stepped)(void *context, const struct mr_engine_stats *stats),
                              void *context)
{
    struct engine_thread *l = of(link);
    pthread_mutex_lock(&l->lock);
    l->stepped = stepped;
    l->context = context;
    pthread_mutex_unlock(&l->lock);
}

static int32_t link_n_ctx(const struct engine_link *link) { return mr_engine_n_ctx(of_const(link)->engine); }

static enum mr_status link_call(struct engine_link *link,
                                enum mr_status (*fn)(struct mr_engine *engine, void *context, struct mr_error *err),
                                void *context, struct mr_error *err)
{
    struct engine_thread *l = of(link);
    struct call call = {.fn = fn, .context = context, .err = err};
    pthread_mutex_lock(&l->lock);
    struct call **last = &l->calls;
    while (*last != NULL)
        last = &(*last)->next;
    *last = &call;
    pthread_cond_signal(&l->wake);
    while (!call.is_done)
        pthread_cond_wait(&l->answered, &l->lock);
    pthread_mutex_unlock(&l->lock);
    return call.status;
}

static const struct engine_link_kind engine_thread_kind = {.free = link_free,
                                                           .submit = link_submit,
                                                           .cancel = link_cancel,
                                                           .event_fd = link_event_fd,
                                                           .next_event = link_next_event,
                                                           .stats = link_stats,
                                                           .n_ctx = link_n_ctx,
                                                           .set_observer = link_set_observer,
                                                           .call = link_call};

enum mr_status engine_thread_create(struct engine_link **out, struct mr_model *model, const struct mr_options *options,
                                    struct mr_error *err)
{
    *out = NULL;
    struct mr_engine *engine;
    MR_TRY(mr_engine_create(&engine, model, options, err));
    struct engine_thread *l = mem_zero_array(1, sizeof *l);
    const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (l == NULL || fd < 0)
        goto fail;
    *l = (struct engine_thread){.link = {&engine_thread_kind},
                                .engine = engine,
                                .event_fd = fd,
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .wake = PTHREAD_COND_INITIALIZER,
                                .answered = PTHREAD_COND_INITIALIZER};
    if (!thread_start(&l->thread, run, l))
        goto fail;
    *out = &l->link;
    return MR_OK;
fail:
    free(l);
    if (fd >= 0)
        close(fd);
    mr_engine_free(engine);
    return mr_fail(err, MR_NO_MEMORY, "the engine's thread could not be started");
}
