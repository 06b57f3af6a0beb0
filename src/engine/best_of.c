/* best_of.c: holds answers back and tells the best. */
#include "engine/best_of.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/engine_state.h"

enum mr_status contest_begin(struct mr_engine *e, const struct request_record *r, struct mr_error *err)
{
    struct contest *c = mem_zero_array(1, sizeof *c + (size_t)r->n * sizeof *c->entrant);
    bool ok = c != NULL;
    for (int i = 0; ok && i < r->n; i++) {
        record_queue_init(&c->entrant[i].events);
        c->n++;
        ok = record_queue_reserve(&c->entrant[i].events, LAST_EVENT_BYTES);
    }
    if (!ok) {
        contest_free(c);
        return mr_fail(err, MR_NO_MEMORY, "no memory for the best of %d answers", r->n);
    }
    c->n_return = r->n_return;
    c->request = r->id;
    c->next = e->contests;
    e->contests = c;
    return MR_OK;
}

void contest_free(struct contest *c)
{
    if (c == NULL)
        return;
    for (int i = 0; i < c->n; i++)
        record_queue_release(&c->entrant[i].events);
    free(c);
}

struct contest *contest_find(const struct mr_engine *e, uint64_t request)
{
    struct contest *c = e->contests;
    while (c != NULL && c->request != request)
        c = c->next;
    return c;
}

static bool is_whole(const struct entrant *a) { return a->finish == MR_FINISH_STOP || a->finish == MR_FINISH_LENGTH; }

static double mean(const struct entrant *a) { return a->n_token > 0 ? a->logprob / a->n_token : 0; }

static bool is_better(const struct entrant *a, const struct entrant *b)
{
    return is_whole(a) != is_whole(b) ? is_whole(a) : mean(a) > mean(b);
}

/* order: the answers from best to worst, the earlier of equals first. */
static void rank(const struct contest *c, int *order)
{
    for (int i = 0; i < c->n; i++) {
        int at = i;
        for (; at > 0 && is_better(&c->entrant[i], &c->entrant[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* Hand the entrant's events on as those of answer `sample`; its last one has room whatever happens. */
static void tell(struct mr_engine *e, struct entrant *a, int sample, int n_discarded)
{
    bool failed = false;
    for (const void *p; (p = record_queue_pop(&a->events)) != NULL;) {
        struct event_record event;
        memcpy(&event, p, sizeof event);
        event.sample = sample;
        event.usage.n_discarded = n_discarded;
        char *to = failed ? NULL : record_queue_push(&e->events, event_bytes(&event));
        failed = to == NULL;
        if (!failed) {
            memcpy(to, p, event_bytes(&event));
            memcpy(to, &event, sizeof event);
        }
        if (event.finish == MR_FINISH_NONE)
            continue;
        if (!failed) {
            record_queue_unreserve(&e->events, LAST_EVENT_BYTES);
            continue;
        }
        event = (struct event_record){.request = event.request, .sample = sample, .token = -1, .usage = event.usage};
        event.finish = MR_FINISH_ERROR;
        event.status = MR_NO_MEMORY;
        event_push_end(&e->events, event, "no memory for the events of a request");
    }
}

static void end(struct mr_engine *e, struct contest *c)
{
    int order[MR_N_MAX], n_discarded = 0;
    rank(c, order);
    for (int i = c->n_return; i < c->n; i++)
        n_discarded += c->entrant[order[i]].n_token;
    for (int i = 0; i < c->n_return; i++)
        tell(e, &c->entrant[order[i]], i, i == 0 ? n_discarded : 0);
    struct contest **at = &e->contests;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    contest_free(c);
}

void contest_held(struct mr_engine *e, struct contest *c, const struct event_record *event)
{
    struct entrant *a = &c->entrant[event->sample];
    if (event->token >= 0) {
        a->logprob += (double)event->logprob;
        a->n_token++;
    }
    a->finish = event->finish;
    c->n_ended += event->finish != MR_FINISH_NONE;
    if (c->n_ended == c->n)
        end(e, c);
}
