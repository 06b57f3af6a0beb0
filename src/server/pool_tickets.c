/* pool_tickets.c: which process has which request, and what becomes of it when the process dies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/status.h"
#include "server/pool_state.h"
#include "server/wire.h"

enum {
    SLACK = 2 /* requests that a process may have more than another, for its prompt to be in the cache */
};

static bool may_have(const struct engine_pool *p, int slot, const struct pool_ticket *t)
{
    return p->engine[slot].phase == POOL_ACTIVE && (t->refused_by >> slot & 1) == 0;
}

/* Whoever does not retire, then the one with the fewest requests. */
static bool is_better(const struct pool_engine *a, const struct pool_engine *b)
{
    return a->retires != b->retires ? b->retires : a->n_open < b->n_open;
}

/* Equal beginnings of prompts go the same way, where it is not much busier. -1: there is none. */
static int choose(const struct engine_pool *p, const struct pool_ticket *t)
{
    const int wanted = (int)(t->prefix % (uint64_t)p->options.config.n_active);
    int best = -1;
    for (int i = 0; i < p->n_engine; i++)
        if (may_have(p, i, t) && (best < 0 || is_better(&p->engine[i], &p->engine[best])))
            best = i;
    for (int i = 0; i < p->n_engine; i++)
        if (may_have(p, i, t) && p->engine[i].index == wanted && p->engine[i].n_open < p->engine[best].n_open + SLACK)
            return i;
    return best;
}

bool pool_assign(struct engine_pool *p, struct pool_ticket *t)
{
    const int slot = choose(p, t);
    if (slot < 0)
        return false;
    struct pool_engine *e = &p->engine[slot];
    void *to = frame_push(&e->out, FRAME_REQUEST, t->id, 0, t->n_bytes);
    if (to == NULL)
        return false;
    memcpy(to, t->record, t->n_bytes);
    t->slot = slot;
    e->n_open++;
    return true;
}

static int by_id(const void *a, const void *b)
{
    const struct pool_ticket *const *x = a, *const *y = b;
    return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

/* Those without a process, the oldest first; NULL: none, or no memory now. */
static struct pool_ticket **list_waiting(const struct engine_pool *p, size_t *n)
{
    struct pool_ticket **list = p->n_waiting > 0 ? mem_array(p->tickets.n, sizeof(struct pool_ticket *)) : NULL;
    *n = 0;
    if (list == NULL)
        return NULL;
    for (size_t i = 0; i < p->tickets.capacity; i++) {
        struct pool_ticket *t = p->tickets.entry[i].value;
        if (p->tickets.entry[i].id != 0 && t->slot < 0 && !t->is_done)
            list[(*n)++] = t;
    }
    qsort(list, *n, sizeof(struct pool_ticket *), by_id);
    return list;
}

void pool_assign_waiting(struct engine_pool *p)
{
    size_t n;
    struct pool_ticket **list = list_waiting(p, &n);
    for (size_t i = 0; i < n; i++) {
        if (!pool_assign(p, list[i]))
            break;
        p->n_waiting--;
    }
    free(list);
}

void pool_forget(struct engine_pool *p, struct pool_ticket *t)
{
    id_map_remove(&p->tickets, t->id);
    free(t->record);
    free(t);
}

/* Nothing may be lost, so the pool waits where memory for an event is short: who takes events frees some. */
static void push_event(struct engine_pool *p, const struct mr_event *event, const struct pool_event_head *head)
{
    char *to;
    while ((to = record_queue_push(&p->events, sizeof *head + wire_event_bytes(event))) == NULL && !p->stop) {
        pthread_mutex_unlock(&p->lock);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        pthread_mutex_lock(&p->lock);
    }
    if (to == NULL)
        return;
    memcpy(to, head, sizeof *head);
    wire_event_write(to + sizeof *head, event);
}

/* No process has it any more; its last event is on its way. */
static void finish(struct engine_pool *p, struct pool_ticket *t)
{
    if (t->slot >= 0)
        p->engine[t->slot].n_open--;
    else
        p->n_waiting--;
    t->slot = -1;
    t->is_done = true;
}

static void fail(struct engine_pool *p, struct pool_ticket *t, enum mr_status status, const char *message)
{
    const struct mr_event event = {
        .request = t->id, .token = -1, .finish = MR_FINISH_ERROR, .error = message, .status = status};
    const struct pool_event_head head = {.ticket = t->id, .is_last = true};
    finish(p, t);
    push_event(p, &event, &head);
}

static bool is_ended(const struct pool_ticket *t, int32_t sample) { return (t->ended[sample / 64] >> (sample % 64) & 1) != 0; }

/* Another process may have room for what this one refused. */
static bool try_others(struct engine_pool *p, struct pool_ticket *t, const struct mr_event *event)
{
    if (event->finish != MR_FINISH_ERROR || (event->status != MR_BUSY && event->status != MR_FULL) || t->record == NULL)
        return false;
    t->refused_by |= 1ULL << t->slot;
    const int from = t->slot;
    if (!pool_assign(p, t))
        return false;
    p->engine[from].n_open--;
    return true;
}

/* What has begun is not begun again. */
static void note_output(struct pool_ticket *t)
{
    t->has_output = true;
    free(t->record);
    t->record = NULL;
}

void pool_take_event(struct engine_pool *p, int slot, const struct frame_head *frame, const void *record,
                     enum mr_status *status, struct mr_error *err)
{
    struct pool_ticket *t = id_map_find(&p->tickets, frame->ticket);
    *status = MR_OK;
    if (t == NULL || t->slot != slot) /* cancelled meanwhile */
        return;
    const struct wire_limits limits = {p->options.n_vocab, p->options.n_embd, t->n};
    struct mr_event event;
    *status = wire_event_check(record, (size_t)frame->bytes, &limits, err);
    if (*status != MR_OK)
        return;
    wire_event_read(&event, record);
    if (is_ended(t, event.sample) || try_others(p, t, &event))
        return;
    note_output(t);
    event.request = t->id;
    if (event.finish != MR_FINISH_NONE) {
        t->ended[event.sample / 64] |= 1ULL << (event.sample % 64);
        t->n_open--;
    }
    /* A refusal is one event for all of its answers. */
    const bool is_refusal = event.finish == MR_FINISH_ERROR && (event.status == MR_BUSY || event.status == MR_FULL);
    const struct pool_event_head head = {
        .ticket = t->id, .retry_after_ms = frame->value > 0 ? frame->value : 0, .is_last = t->n_open == 0 || is_refusal};
    if (head.is_last)
        finish(p, t);
    push_event(p, &event, &head);
}

/* The first that a process has; -1: that waits. Looked for again and again: the lock is not held all the time. */
static struct pool_ticket *first_of(const struct engine_pool *p, int slot)
{
    for (size_t i = 0; i < p->tickets.capacity; i++) {
        struct pool_ticket *t = p->tickets.entry[i].value;
        if (p->tickets.entry[i].id != 0 && t->slot == slot && !t->is_done)
            return t;
    }
    return NULL;
}

void pool_lose_tickets(struct engine_pool *p, int slot)
{
    struct pool_ticket *t;
    while ((t = first_of(p, slot)) != NULL) {
        t->slot = -1;
        p->engine[slot].n_open--;
        p->n_waiting++;
        t->refused_by = 0;
        if (!t->has_output && ++t->n_deaths <= 1) {
            p->counts.n_handed_on++;
            continue;
        }
        p->counts.n_lost++;
        fail(p, t, MR_IO,
             t->has_output ? "the engine process ended in the middle of the answer"
                           : "two engine processes ended while they had this request");
    }
}

void pool_fail_waiting(struct engine_pool *p)
{
    char message[MR_ERROR_MAX];
    struct pool_ticket *t;
    snprintf(message, sizeof message, "no engine process starts: %.400s", p->failure.message);
    while (!p->stop && (t = first_of(p, -1)) != NULL)
        fail(p, t, MR_IO, message);
}
