/* stored_responses.c: a list, the newest first, behind one lock. */
#include "server/api/stored_responses.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct stored_response {
    struct stored_response *newer, *older;
    char id[64];
    uint64_t key, ticket; /* ticket 0: none */
    int n_holder;         /* guarded by the store's lock, as is all but is_cancelled */
    bool is_listed, is_running;
    atomic_bool is_cancelled;
    char *response, *messages; /* NULL: none */
};

struct stored_responses {
    pthread_mutex_t lock;
    struct stored_response *newest, *oldest;
    int n;
    size_t bytes, budget;
};

struct stored_responses *stored_responses_create(size_t bytes)
{
    struct stored_responses *s = mem_zero_array(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->budget = bytes;
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

static size_t bytes_of(const struct stored_response *r)
{
    return sizeof *r + (r->response != NULL ? strlen(r->response) : 0) + (r->messages != NULL ? strlen(r->messages) : 0);
}

static void let_go(struct stored_response *r)
{
    if (--r->n_holder > 0)
        return;
    free(r->response);
    free(r->messages);
    free(r);
}

static void unlist(struct stored_responses *s, struct stored_response *r)
{
    if (!r->is_listed)
        return;
    *(r->newer != NULL ? &r->newer->older : &s->newest) = r->older;
    *(r->older != NULL ? &r->older->newer : &s->oldest) = r->newer;
    r->is_listed = false;
    s->n--;
    s->bytes -= bytes_of(r);
    let_go(r);
}

static void list(struct stored_responses *s, struct stored_response *r)
{
    r->newer = NULL;
    r->older = s->newest;
    *(s->newest != NULL ? &s->newest->newer : &s->oldest) = r;
    s->newest = r;
    r->is_listed = true;
    r->n_holder++;
    s->n++;
    s->bytes += bytes_of(r);
}

static void make_room(struct stored_responses *s)
{
    while (s->oldest != NULL && (s->n > STORED_RESPONSES_MAX || s->bytes > s->budget))
        unlist(s, s->oldest);
}

void stored_responses_free(struct stored_responses *s)
{
    if (s == NULL)
        return;
    while (s->oldest != NULL)
        unlist(s, s->oldest);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

struct stored_response *stored_responses_begin(struct stored_responses *s, const char *id, uint64_t key, const char *response)
{
    struct stored_response *r = mem_zero_array(1, sizeof *r);
    if (r == NULL || strlen(id) >= sizeof r->id || (r->response = mem_string(response, strlen(response))) == NULL) {
        free(r);
        return NULL;
    }
    memcpy(r->id, id, strlen(id) + 1);
    r->key = key;
    r->n_holder = 1;
    r->is_running = true;
    atomic_init(&r->is_cancelled, false);
    pthread_mutex_lock(&s->lock);
    list(s, r);
    make_room(s);
    pthread_mutex_unlock(&s->lock);
    return r;
}

/* The lock is held. Takes the text; NULL: no memory, the old one stays. */
static void set_text(struct stored_responses *s, struct stored_response *r, char *text)
{
    if (text == NULL)
        return;
    s->bytes -= r->is_listed ? strlen(r->response) : 0;
    s->bytes += r->is_listed ? strlen(text) : 0;
    free(r->response);
    r->response = text;
}

void stored_responses_update(struct stored_responses *s, struct stored_response *r, const char *response, bool is_last)
{
    pthread_mutex_lock(&s->lock);
    if (r->is_running)
        set_text(s, r, mem_string(response, strlen(response)));
    r->is_running &= !is_last;
    pthread_mutex_unlock(&s->lock);
}

void stored_responses_finish(struct stored_responses *s, struct stored_response *r, const char *response, const char *messages)
{
    char *text = mem_string(response, strlen(response)), *turns = mem_string(messages, strlen(messages));
    pthread_mutex_lock(&s->lock);
    const bool stays = r->is_listed && r->is_running; /* else it was deleted, or cancelled */
    if (r->is_running)
        unlist(s, r);
    r->is_running = false;
    if (stays && text != NULL && turns != NULL) {
        free(r->response);
        free(r->messages);
        r->response = text;
        r->messages = turns;
        text = turns = NULL;
        list(s, r);
        make_room(s);
    }
    pthread_mutex_unlock(&s->lock);
    free(text);
    free(turns);
}

void stored_response_drop(struct stored_responses *s, struct stored_response *r)
{
    if (r == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    if (r->is_running)
        unlist(s, r);
    let_go(r);
    pthread_mutex_unlock(&s->lock);
}

bool stored_response_is_cancelled(const struct stored_response *r)
{
    return r != NULL && atomic_load_explicit(&r->is_cancelled, memory_order_relaxed);
}

/* The lock is held. */
static struct stored_response *find(const struct stored_responses *s, const char *id, uint64_t key)
{
    struct stored_response *r = s->newest;
    while (r != NULL && (r->key != key || strcmp(r->id, id) != 0))
        r = r->older;
    return r;
}

static bool copy(struct stored_responses *s, const char *id, uint64_t key, bool messages, struct string_buffer *out)
{
    pthread_mutex_lock(&s->lock);
    const struct stored_response *r = find(s, id, key);
    const char *text = r == NULL ? NULL : messages ? r->messages : r->response;
    if (text != NULL)
        string_buffer_puts(out, text);
    pthread_mutex_unlock(&s->lock);
    return text != NULL;
}

bool stored_responses_get(struct stored_responses *s, const char *id, uint64_t key, struct string_buffer *response)
{
    return copy(s, id, key, false, response);
}

bool stored_responses_messages(struct stored_responses *s, const char *id, uint64_t key, struct string_buffer *messages)
{
    return copy(s, id, key, true, messages);
}

void stored_responses_set_ticket(struct stored_responses *s, const char *id, uint64_t key, uint64_t ticket)
{
    pthread_mutex_lock(&s->lock);
    struct stored_response *r = find(s, id, key);
    if (r != NULL)
        r->ticket = ticket;
    pthread_mutex_unlock(&s->lock);
}

bool stored_responses_cancel(struct stored_responses *s, const char *id, uint64_t key, const char *response, bool *was_running,
                             uint64_t *ticket)
{
    pthread_mutex_lock(&s->lock);
    struct stored_response *r = find(s, id, key);
    *was_running = r != NULL && r->is_running;
    *ticket = *was_running ? r->ticket : 0;
    if (*was_running)
        atomic_store_explicit(&r->is_cancelled, true, memory_order_relaxed);
    if (*ticket != 0) {
        set_text(s, r, mem_string(response, strlen(response)));
        r->is_running = false;
    }
    pthread_mutex_unlock(&s->lock);
    return r != NULL;
}

bool stored_responses_delete(struct stored_responses *s, const char *id, uint64_t key, uint64_t *ticket)
{
    pthread_mutex_lock(&s->lock);
    struct stored_response *r = find(s, id, key);
    *ticket = r != NULL && r->is_running ? r->ticket : 0;
    if (r != NULL)
        unlist(s, r);
    pthread_mutex_unlock(&s->lock);
    return r != NULL;
}
