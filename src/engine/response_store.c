/* response_store.c: events of answers, one behind the other, each behind its size. */
#include "engine/response_store.h"

#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/string_buffer.h"
#include "engine/engine_state.h"

struct stored_response {
    struct prefix_key key;
    uint64_t id;                           /* while it is open */
    int n_open;                            /* answers that have not ended */
    struct string_buffer text;             /* the events */
    struct stored_response *newer, *older; /* older alone while it is open */
};

void response_store_init(struct response_store *s, size_t capacity) { *s = (struct response_store){.capacity = capacity}; }

static void free_response(struct stored_response *r)
{
    string_buffer_release(&r->text);
    free(r);
}

static void free_list(struct stored_response *r)
{
    for (struct stored_response *older; r != NULL; r = older) {
        older = r->older;
        free_response(r);
    }
}

void response_store_release(struct response_store *s)
{
    free_list(s->newest);
    free_list(s->open);
    *s = (struct response_store){0};
}

_Static_assert(sizeof(struct mr_sampling) == 48, "a new field decides the answer, too: it must be without padding");
_Static_assert(offsetof(struct request_record, n_started) == 156, "what decides an answer belongs into its key");

void response_key(struct prefix_key *out, const struct prefix_key *seed, const struct request_record *r)
{
    const int32_t field[] = {r->n_prompt,   r->max_tokens, r->n_bias,       r->n_stop_token, r->n_stop,
                             r->min_tokens, r->constraint, r->n_constraint, r->n_salt,       r->n_adapter,
                             r->n_bad_word, r->n,          r->ignore_eos,   r->show_special, r->n_prediction};
    const uint8_t *texts = (const uint8_t *)(r + 1), *end = (const uint8_t *)request_record_salt(r) + r->n_salt + r->n_bad_word;
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, sizeof seed->byte, seed->byte);
    sha256_update(&sha, sizeof r->sampling, (const uint8_t *)&r->sampling);
    sha256_update(&sha, sizeof field, (const uint8_t *)field);
    sha256_update(&sha, (size_t)(end - texts), texts);
    sha256_digest(&sha, sizeof out->byte, out->byte);
}

static void unlink_response(struct response_store *s, struct stored_response *r)
{
    *(r->newer != NULL ? &r->newer->older : &s->newest) = r->older;
    *(r->older != NULL ? &r->older->newer : &s->oldest) = r->newer;
}

static void link_newest(struct response_store *s, struct stored_response *r)
{
    r->newer = NULL;
    r->older = s->newest;
    *(s->newest != NULL ? &s->newest->newer : &s->oldest) = r;
    s->newest = r;
}

static struct stored_response *find(const struct response_store *s, const struct prefix_key *key)
{
    struct stored_response *r = s->newest;
    while (r != NULL && memcmp(&r->key, key, sizeof *key) != 0)
        r = r->older;
    return r;
}

/* Room in the queue for all events at once, so that none is queued or all are. */
static bool make_room(struct record_queue *q, const struct string_buffer *text)
{
    const size_t framing = 16; /* of a record in the queue, at most, beside what stands in front of each here */
    size_t n_event = 0, n;
    for (size_t at = 0; at < text->n; at += sizeof n + n, n_event++)
        memcpy(&n, text->s + at, sizeof n);
    const size_t room = text->n + n_event * framing;
    if (!record_queue_reserve(q, room))
        return false;
    record_queue_unreserve(q, room);
    return true;
}

bool response_store_serve(struct mr_engine *e, const struct prefix_key *key, uint64_t id)
{
    struct response_store *s = &e->responses;
    struct stored_response *r = find(s, key);
    if (r == NULL || !make_room(&e->events, &r->text))
        return false;
    size_t n;
    for (size_t at = 0; at < r->text.n; at += sizeof n + n) {
        memcpy(&n, r->text.s + at, sizeof n);
        char *p = record_queue_push(&e->events, n);
        memcpy(p, r->text.s + at + sizeof n, n);
        struct event_record event;
        memcpy(&event, p, sizeof event);
        event.request = id;
        event.usage = (struct mr_usage){.n_prompt = event.usage.n_prompt,
                                        .n_generated = event.usage.n_generated,
                                        .cache_miss = MR_CACHE_OFF,
                                        .from_store = true};
        memcpy(p, &event, sizeof event);
    }
    unlink_response(s, r);
    link_newest(s, r);
    s->n_served++;
    return true;
}

void response_store_open(struct response_store *s, const struct prefix_key *key, uint64_t id, int n)
{
    struct stored_response *r = mem_zero_array(1, sizeof *r);
    if (r == NULL)
        return; /* it is answered all the same */
    *r = (struct stored_response){.key = *key, .id = id, .n_open = n, .older = s->open};
    string_buffer_init(&r->text);
    s->open = r;
}

/* All its answers have ended well. */
static void keep(struct response_store *s, struct stored_response *r)
{
    if (r->text.n > s->capacity || find(s, &r->key) != NULL) {
        free_response(r);
        return;
    }
    while (s->bytes > s->capacity - r->text.n) {
        struct stored_response *oldest = s->oldest;
        unlink_response(s, oldest);
        s->bytes -= oldest->text.n;
        free_response(oldest);
    }
    s->bytes += r->text.n;
    link_newest(s, r);
}

void response_store_note(struct response_store *s, const struct event_record *event, const void *bytes, size_t n)
{
    struct stored_response **at = &s->open;
    while (*at != NULL && (*at)->id != event->request)
        at = &(*at)->older;
    struct stored_response *r = *at;
    if (r == NULL)
        return;
    string_buffer_add(&r->text, (const char *)&n, sizeof n);
    string_buffer_add(&r->text, bytes, n);
    const bool is_end = event->finish != MR_FINISH_NONE;
    const bool is_lost = (is_end && event->finish != MR_FINISH_STOP && event->finish != MR_FINISH_LENGTH) || r->text.failed ||
                         r->text.n > s->capacity;
    r->n_open -= is_end;
    if (!is_lost && r->n_open > 0)
        return;
    *at = r->older;
    if (is_lost)
        free_response(r);
    else
        keep(s, r);
}
