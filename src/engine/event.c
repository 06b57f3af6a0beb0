/* event.c: events as flat records, and back. */
#include <string.h>

#include "engine/engine_state.h"

size_t event_bytes(const struct event_record *event)
{
    return sizeof *event + (size_t)event->n_top * sizeof(struct mr_logprob) + (size_t)event->n_embedding * sizeof(float) +
           event->n_text + event->n_error;
}

enum mr_status engine_emit(struct mr_engine *e, const struct event_record *event, const struct mr_logprob *top,
                           const char *text)
{
    struct contest *contest = event->is_prompt ? NULL : contest_find(e, event->request);
    struct record_queue *q = contest != NULL ? &contest->entrant[event->sample].events : &e->events;
    const size_t top_bytes = (size_t)event->n_top * sizeof *top;
    char *p = record_queue_push(q, event_bytes(event));
    if (p == NULL)
        return MR_NO_MEMORY;
    memcpy(p, event, sizeof *event);
    if (top_bytes > 0)
        memcpy(p + sizeof *event, top, top_bytes);
    if (event->n_text > 0)
        memcpy(p + sizeof *event + top_bytes, text, event->n_text);
    if (event->finish != MR_FINISH_NONE)
        record_queue_unreserve(q, LAST_EVENT_BYTES);
    if (contest != NULL)
        contest_held(e, contest, event);
    else
        response_store_note(&e->responses, event, p, event_bytes(event));
    return MR_OK;
}

enum mr_status engine_emit_embedding(struct mr_engine *e, const struct event_record *event, const float *embedding)
{
    char *p = record_queue_push(&e->events, event_bytes(event));
    if (p == NULL)
        return MR_NO_MEMORY;
    memcpy(p, event, sizeof *event);
    memcpy(p + sizeof *event, embedding, (size_t)event->n_embedding * sizeof *embedding);
    record_queue_unreserve(&e->events, LAST_EVENT_BYTES);
    return MR_OK;
}

void event_push_end(struct record_queue *q, struct event_record event, const char *error)
{
    event.n_top = 0;
    event.n_text = 0;
    event.n_error = error != NULL ? (uint32_t)strlen(error) + 1 : 0;
    char *p = record_queue_push_reserved(q, LAST_EVENT_BYTES);
    memcpy(p, &event, sizeof event);
    if (error != NULL)
        memcpy(p + sizeof event, error, event.n_error);
}

void engine_emit_end(struct mr_engine *e, struct event_record event, const char *error)
{
    struct contest *contest = contest_find(e, event.request);
    event_push_end(contest != NULL ? &contest->entrant[event.sample].events : &e->events, event, error);
    if (contest != NULL)
        contest_held(e, contest, &event);
    else
        response_store_note(&e->responses, &event, &event, sizeof event);
}

bool mr_engine_next_event(struct mr_engine *e, struct mr_event *out)
{
    const char *p = record_queue_pop(&e->events);
    if (p == NULL)
        return false;
    struct event_record event;
    memcpy(&event, p, sizeof event);
    p += sizeof event;
    *out = (struct mr_event){.request = event.request,
                             .sample = event.sample,
                             .token = event.token,
                             .is_prompt = event.is_prompt,
                             .logprob = event.logprob,
                             .n_top = event.n_top,
                             .n_embedding = event.n_embedding,
                             .finish = (enum mr_finish)event.finish,
                             .status = (enum mr_status)event.status,
                             .usage = event.usage};
    out->top = (const struct mr_logprob *)p;
    p += (size_t)event.n_top * sizeof *out->top;
    out->embedding = event.n_embedding > 0 ? (const float *)p : NULL;
    p += (size_t)event.n_embedding * sizeof *out->embedding;
    out->text = p;
    out->n_text = event.n_text;
    out->error = event.n_error > 0 ? p + event.n_text : NULL;
    return true;
}

const char *mr_finish_text(enum mr_finish finish)
{
    static const char *const text[] = {"", "stop", "length", "cancelled", "error", "timeout"};
    return finish >= MR_FINISH_NONE && finish <= MR_FINISH_TIMEOUT ? text[finish] : "";
}

const char *mr_speculation_text(enum mr_speculation speculation)
{
    static const char *const text[] = {"auto", "off", "draft", "ngram", "reference", "lookahead", "layers", "heads", "none"};
    return (unsigned)speculation < MR_N_SPECULATIONS ? text[speculation] : "";
}

const char *mr_cache_tier_text(enum mr_cache_tier tier)
{
    static const char *const text[] = {"off", "starting", "ready", "locked", "full", "unnamed"};
    return (unsigned)tier < MR_N_TIERS ? text[tier] : "";
}

const char *mr_cache_miss_text(enum mr_cache_miss miss)
{
    static const char *const text[] = {"hit", "off", "different", "evicted", "window"};
    return (unsigned)miss < sizeof text / sizeof *text ? text[miss] : "";
}
