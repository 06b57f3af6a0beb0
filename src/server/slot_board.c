/* slot_board.c: tasks in the order of coming, and the places of their answers. A token costs a lock and no search. */
#include "server/slot_board.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/string_buffer.h"

enum {
    NO_PLACE = -1
};

struct slot_answer {
    int32_t place;
    int32_t n_decoded;
    bool has_new_line, has_ended;
    struct string_buffer text;
};

struct slot_task {
    struct slot_board *board;
    struct slot_task *previous, *next;
    struct slot_view view; /* what all its answers share */
    int32_t *prompt;       /* NULL: not kept */
    int32_t n_answer;
    struct slot_answer answer[];
};

struct place {
    struct slot_task *task; /* NULL: free */
    int32_t sample;
    struct slot_view last; /* of the answer that was here before, while it is free */
};

struct slot_board {
    pthread_mutex_t lock;
    struct slot_task *first, *newest;
    int64_t n_task;
    bool keeps_text;
    int32_t n_place, n_busy;
    struct place place[];
};

struct slot_board *slot_board_create(int32_t n_place, bool keeps_text)
{
    size_t bytes;
    if (!size_mul(&bytes, (size_t)n_place, sizeof(struct place)) || !size_add(&bytes, bytes, sizeof(struct slot_board)))
        return NULL;
    struct slot_board *b = mem_zero_array(1, bytes);
    if (b == NULL)
        return NULL;
    pthread_mutex_init(&b->lock, NULL);
    b->keeps_text = keeps_text;
    b->n_place = n_place;
    for (int32_t i = 0; i < n_place; i++)
        b->place[i].last.id_task = -1;
    return b;
}

void slot_board_free(struct slot_board *b)
{
    if (b == NULL)
        return;
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static struct slot_view show(const struct slot_task *t, int32_t sample)
{
    const struct slot_answer *a = &t->answer[sample];
    struct slot_view v = t->view;
    v.is_processing = true;
    v.n_decoded = a->n_decoded;
    v.has_new_line = a->has_new_line;
    v.prompt = t->prompt;
    v.generated = t->prompt != NULL && a->text.s != NULL ? a->text.s : NULL;
    v.n_generated = v.generated != NULL ? a->text.n : 0;
    return v;
}

static void leave(struct slot_task *t, int32_t sample)
{
    struct slot_answer *a = &t->answer[sample];
    a->has_ended = true;
    if (a->place == NO_PLACE)
        return;
    struct place *p = &t->board->place[a->place];
    p->last = show(t, sample);
    p->last.is_processing = false;
    p->last.prompt = NULL;
    p->last.generated = NULL;
    p->last.n_generated = 0;
    p->task = NULL;
    a->place = NO_PLACE;
    t->board->n_busy--;
}

static void take(struct slot_task *t, int32_t sample, int32_t place)
{
    t->board->place[place].task = t;
    t->board->place[place].sample = sample;
    t->answer[sample].place = place;
    t->board->n_busy++;
}

/* A free place, or that of an answer without a token, which was thought to run. NO_PLACE: all have tokens. */
static int32_t find_place(struct slot_board *b)
{
    int32_t found = NO_PLACE;
    for (int32_t i = 0; i < b->n_place; i++) {
        struct place *p = &b->place[i];
        if (p->task == NULL)
            return i;
        if (p->task->answer[p->sample].n_decoded == 0)
            found = i;
    }
    if (found != NO_PLACE) {
        struct place *p = &b->place[found];
        p->task->answer[p->sample].place = NO_PLACE;
        p->task = NULL;
        b->n_busy--;
    }
    return found;
}

/* Answers that have no place yet, the oldest first, while the engine runs more than have one. */
static void place_running(struct slot_board *b, int32_t n_running)
{
    for (struct slot_task *t = b->first; t != NULL && b->n_busy < n_running && b->n_busy < b->n_place; t = t->next)
        for (int32_t i = 0; i < t->n_answer && b->n_busy < n_running && b->n_busy < b->n_place; i++)
            if (t->answer[i].place == NO_PLACE && !t->answer[i].has_ended)
                take(t, i, find_place(b));
}

static struct slot_task *make(const struct slot_board *b, const struct mr_request *r)
{
    const int32_t n = r->best_of > r->n ? r->best_of : r->n;
    struct slot_task *t = mem_zero_array(1, sizeof *t + (size_t)n * sizeof t->answer[0]);
    if (t == NULL)
        return NULL;
    t->n_answer = n;
    for (int32_t i = 0; i < n; i++) {
        t->answer[i].place = NO_PLACE;
        string_buffer_init(&t->answer[i].text);
    }
    t->prompt = b->keeps_text ? mem_array((size_t)r->n_prompt, sizeof *r->prompt) : NULL;
    if (t->prompt != NULL)
        memcpy(t->prompt, r->prompt, (size_t)r->n_prompt * sizeof *r->prompt);
    return t;
}

struct slot_task *slot_task_begin(struct slot_board *b, const struct mr_request *r, bool is_stream, bool is_speculative)
{
    struct slot_task *t = b != NULL && r->n >= 1 && r->n <= MR_N_MAX && r->best_of <= MR_N_MAX ? make(b, r) : NULL;
    if (t == NULL)
        return NULL;
    t->board = b;
    t->view = (struct slot_view){.is_stream = is_stream,
                                 .ignore_eos = r->ignore_eos,
                                 .is_speculative = is_speculative,
                                 .sampling = r->sampling,
                                 .max_tokens = r->max_tokens,
                                 .n_prompt = r->n_prompt,
                                 .n_cached = -1};
    pthread_mutex_lock(&b->lock);
    t->view.id_task = b->n_task++;
    t->previous = b->newest;
    if (b->newest != NULL)
        b->newest->next = t;
    else
        b->first = t;
    b->newest = t;
    pthread_mutex_unlock(&b->lock);
    return t;
}

static void see_token(struct slot_task *t, const struct mr_event *e)
{
    struct slot_answer *a = &t->answer[e->sample];
    a->n_decoded++;
    const int32_t place = a->place == NO_PLACE ? find_place(t->board) : NO_PLACE;
    if (place != NO_PLACE)
        take(t, e->sample, place);
}

void slot_task_event(struct slot_task *t, const struct mr_event *e)
{
    if (t == NULL || e->sample < 0 || e->sample >= t->n_answer || t->answer[e->sample].has_ended)
        return;
    struct slot_answer *a = &t->answer[e->sample];
    pthread_mutex_lock(&t->board->lock);
    if (e->token >= 0 && !e->is_prompt)
        see_token(t, e);
    a->has_new_line |= e->n_text > 0 && memchr(e->text, '\n', e->n_text) != NULL;
    if (t->prompt != NULL)
        string_buffer_add(&a->text, e->text, e->n_text);
    if (e->finish != MR_FINISH_NONE) {
        a->n_decoded = e->usage.n_generated > a->n_decoded ? e->usage.n_generated : a->n_decoded;
        t->view.n_cached = e->usage.n_cached;
        leave(t, e->sample);
    }
    pthread_mutex_unlock(&t->board->lock);
}

void slot_task_end(struct slot_task *t)
{
    if (t == NULL)
        return;
    struct slot_board *b = t->board;
    pthread_mutex_lock(&b->lock);
    for (int32_t i = 0; i < t->n_answer; i++)
        if (!t->answer[i].has_ended)
            leave(t, i);
    *(t->previous != NULL ? &t->previous->next : &b->first) = t->next;
    *(t->next != NULL ? &t->next->previous : &b->newest) = t->previous;
    pthread_mutex_unlock(&b->lock);
    for (int32_t i = 0; i < t->n_answer; i++)
        string_buffer_release(&t->answer[i].text);
    free(t->prompt);
    free(t);
}

void slot_board_each(struct slot_board *b, int32_t n_running,
                     void (*fn)(void *context, int32_t place, const struct slot_view *v), void *context)
{
    pthread_mutex_lock(&b->lock);
    place_running(b, n_running);
    for (int32_t i = 0; i < b->n_place; i++) {
        const struct place *p = &b->place[i];
        const struct slot_view v = p->task != NULL ? show(p->task, p->sample) : p->last;
        fn(context, i, &v);
    }
    pthread_mutex_unlock(&b->lock);
}
