/* batch_run.c: a window of lines, sorted; as many of them under way as there is room for. */
#include "server/batch/batch_run.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/batch/batch_result.h"

enum {
    WINDOW = 1024,           /* lines that are read ahead */
    WINDOW_BYTES = 64 << 20, /* of their texts, about */
    UNDER_WAY_MAX = WINDOW / 2,
    LOOK_MS = 100,
    RETRY_MS = 500,
    RETRY_MS_MAX = 30000,
    UNAVAILABLE_MAX = 20 /* times that a line is told 503 before this is its result */
};

/* A line that is read; `next` and `is_done` are behind the run's lock while it is under way. */
struct call {
    struct run *run;
    struct call *next;
    bool is_done;
    struct batch_line line;
    struct batch_request request;
    char *body;
    struct local_exchange *exchange; /* NULL: not under way */
    int64_t not_before_us;
    int n_try;
};

struct run {
    const struct batch_run_options *o;
    struct batch_reader reader;
    struct call *waiting[WINDOW + UNDER_WAY_MAX]; /* in the order in which they are run */
    int n_waiting, n_under_way;
    int32_t last_line; /* that was read */
    bool is_all_read, gives_way;
    struct call *under_way;
    struct batch_line result[WINDOW]; /* that is not recorded yet; its text is owned */
    int n_result;
    struct batch_progress progress, added;
    pthread_mutex_t lock; /* of n_done and is_done */
    pthread_cond_t wake;
    int n_done;
};

static void free_call(struct call *c)
{
    if (c == NULL)
        return;
    local_exchange_end(c->exchange);
    json_decref(c->request.root);
    free(c->body);
    free(c);
}

/* ---- reading ahead ---- */

static enum mr_status read_call(struct run *r, struct call *c, struct mr_error *err)
{
    struct string_buffer text;
    struct batch_fault fault = {0};
    string_buffer_init(&text);
    enum mr_status status = batch_reader_reread(&r->reader, c->line.offset, (size_t)c->line.n, &text, err);
    if (status == MR_OK) {
        const struct batch_text t = {.text = text.s, .n = text.n, .line = c->line.line};
        if (!batch_request_parse(&c->request, &t, NULL, &fault))
            status = mr_fail(err, MR_BAD_INPUT, "line %d of the input has changed: %s", (int)c->line.line, fault.message);
    }
    string_buffer_release(&text);
    if (status != MR_OK)
        return status;
    c->body = json_dumps(c->request.body, JSON_COMPACT);
    return c->body != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for a line");
}

/* What a body's text begins with is what its prompt begins with, where its members stand in the same order. */
static int compare_calls(const void *a, const void *b)
{
    const struct call *x = *(struct call *const *)a, *y = *(struct call *const *)b;
    const int order = strcmp(x->body, y->body);
    return order != 0 ? order : (x->line.line > y->line.line) - (x->line.line < y->line.line);
}

static enum mr_status read_one(struct run *r, const struct batch_line *line, size_t *n_bytes, struct mr_error *err)
{
    struct call *c = mem_zero_array(1, sizeof *c);
    if (c == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a line");
    c->run = r;
    c->line = *line;
    const enum mr_status status = read_call(r, c, err);
    if (status != MR_OK) {
        free_call(c);
        return status;
    }
    r->waiting[r->n_waiting++] = c;
    r->last_line = line->line;
    *n_bytes += strlen(c->body);
    return MR_OK;
}

static enum mr_status read_ahead(struct run *r, struct mr_error *err)
{
    static const size_t most = WINDOW_BYTES;
    struct batch_line *line = mem_array(WINDOW, sizeof *line);
    int n = WINDOW;
    size_t n_bytes = 0;
    if (line == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the lines");
    enum mr_status status = batch_store_pending(r->o->store, r->o->job->id, r->last_line, line, &n, err);
    r->is_all_read = status == MR_OK && n == 0;
    for (int i = 0; status == MR_OK && i < n && n_bytes < most; i++)
        status = read_one(r, &line[i], &n_bytes, err);
    free(line);
    qsort(r->waiting, (size_t)r->n_waiting, sizeof *r->waiting, compare_calls);
    return status;
}

/* ---- running ---- */

static void done(void *context)
{
    struct call *c = context;
    pthread_mutex_lock(&c->run->lock);
    c->is_done = true;
    c->run->n_done++;
    pthread_cond_signal(&c->run->wake);
    pthread_mutex_unlock(&c->run->lock);
}

/* Keep a line's result until it is recorded. */
static enum mr_status keep(struct run *r, struct call *c, enum batch_line_state state, struct string_buffer *text,
                           struct mr_error *err)
{
    if (text->failed) {
        string_buffer_release(text);
        return mr_fail(err, MR_NO_MEMORY, "no memory for a result");
    }
    c->line.state = state;
    c->line.result = text->s;
    c->line.n_result = text->n;
    r->result[r->n_result++] = c->line;
    return MR_OK;
}

static enum mr_status refuse_stream(struct run *r, struct call *c, struct mr_error *err)
{
    static const char body[] = "{\"error\":{\"message\":\"stream: a batch answers whole\",\"type\":\"invalid_request_error\","
                               "\"param\":\"stream\",\"code\":null}}";
    const struct local_reply reply = {.http = 400, .id = "", .body = body, .n = sizeof body - 1};
    struct string_buffer text;
    string_buffer_init(&text);
    batch_result_write(&text, r->o->job->name, c->line.line, c->request.custom_id, &reply);
    const enum mr_status status = keep(r, c, BATCH_LINE_FAILED, &text, err);
    free_call(c);
    return status;
}

/* Takes the call over. */
static enum mr_status start(struct run *r, struct call *c, struct mr_error *err)
{
    const json_t *stream = json_object_get(c->request.body, "stream");
    if (stream != NULL && !json_is_null(stream) && !json_is_false(stream))
        return refuse_stream(r, c, err);
    c->is_done = false;
    c->n_try++;
    c->exchange = local_exchange_start(r->o->server, c->request.url, c->body, strlen(c->body), r->o->key, done, c);
    if (c->exchange == NULL) {
        free_call(c);
        return mr_fail(err, MR_NO_MEMORY, "no memory for a request");
    }
    c->next = r->under_way;
    r->under_way = c;
    r->n_under_way++;
    return MR_OK;
}

/* Whether lines are left that were not read, and somebody else is to have the time for them. */
static bool gives_way(const struct run *r)
{
    const struct batch_counts *c = &r->progress.counts;
    return r->last_line > 0 && c->n_ok + c->n_failed + r->n_result + r->n_under_way < c->n_line && r->o->give_way != NULL &&
           r->o->give_way(r->o->context);
}

static enum mr_status start_some(struct run *r, struct mr_error *err)
{
    const int wanted = r->o->room(r->o->context), room = wanted < UNDER_WAY_MAX ? wanted : UNDER_WAY_MAX;
    const int64_t now = clock_us();
    int i = 0;
    r->gives_way = r->gives_way || (r->n_waiting == 0 && !r->is_all_read && gives_way(r));
    if (r->n_waiting == 0 && !r->is_all_read && !r->gives_way)
        MR_TRY(read_ahead(r, err));
    while (i < r->n_waiting && r->n_under_way < room && r->n_result < WINDOW - UNDER_WAY_MAX) {
        struct call *c = r->waiting[i];
        if (c->not_before_us > now) {
            i++;
            continue;
        }
        r->n_waiting--;
        memmove(&r->waiting[i], &r->waiting[i + 1], (size_t)(r->n_waiting - i) * sizeof *r->waiting);
        MR_TRY(start(r, c, err));
    }
    return MR_OK;
}

/* Whether the reply says that there was no room at the time. */
static bool is_for_later(const struct call *c, int http) { return http == 429 || (http == 503 && c->n_try < UNAVAILABLE_MAX); }

static void put_back(struct run *r, struct call *c, int64_t after_ms)
{
    const int64_t wait_ms = after_ms < RETRY_MS ? RETRY_MS : after_ms > RETRY_MS_MAX ? RETRY_MS_MAX : after_ms;
    local_exchange_end(c->exchange);
    c->exchange = NULL;
    c->not_before_us = clock_us() + wait_ms * 1000;
    r->waiting[r->n_waiting++] = c;
}

/* Takes the call over. */
static enum mr_status take_reply(struct run *r, struct call *c, struct mr_error *err)
{
    struct local_reply reply;
    struct string_buffer text;
    local_exchange_reply(c->exchange, &reply);
    if (is_for_later(c, reply.http)) {
        put_back(r, c, reply.retry_after_ms);
        return MR_OK;
    }
    string_buffer_init(&text);
    batch_result_write(&text, r->o->job->name, c->line.line, c->request.custom_id, &reply);
    r->added.n_generated += reply.n_generated;
    r->added.n_prompt += reply.n_prompt;
    const enum mr_status status = keep(r, c, reply.http == 200 ? BATCH_LINE_OK : BATCH_LINE_FAILED, &text, err);
    free_call(c);
    return status;
}

/* The calls that are done, as a list. */
static struct call *take_done(struct run *r)
{
    struct call *found = NULL, **at = &r->under_way;
    pthread_mutex_lock(&r->lock);
    while (*at != NULL) {
        struct call *c = *at;
        if (!c->is_done) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        c->next = found;
        found = c;
        r->n_under_way--;
        r->n_done--;
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

static enum mr_status take_replies(struct run *r, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    for (struct call *c = take_done(r), *next; c != NULL; c = next) {
        next = c->next;
        if (status == MR_OK)
            status = take_reply(r, c, err);
        else
            free_call(c);
    }
    return status;
}

static void forget_results(struct run *r)
{
    for (int i = 0; i < r->n_result; i++)
        free((char *)(uintptr_t)r->result[i].result);
    r->n_result = 0;
}

static enum mr_status record(struct run *r, struct mr_error *err)
{
    if (r->n_result == 0)
        return MR_OK;
    MR_TRY(batch_store_record(r->o->store, r->o->job->id, r->result, r->n_result, err));
    for (int i = 0; i < r->n_result; i++)
        *(r->result[i].state == BATCH_LINE_OK ? &r->progress.counts.n_ok : &r->progress.counts.n_failed) += 1;
    r->progress.n_recorded += r->n_result;
    r->progress.n_generated += r->added.n_generated;
    r->progress.n_prompt += r->added.n_prompt;
    r->added = (struct batch_progress){0};
    forget_results(r);
    return MR_OK;
}

static void wait_a_little(struct run *r)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&r->lock);
    while (r->n_done == 0 && pthread_cond_timedwait(&r->wake, &r->lock, &until) != ETIMEDOUT)
        continue;
    pthread_mutex_unlock(&r->lock);
}

static enum mr_status run_lines(struct run *r, struct mr_error *err)
{
    do {
        if (!r->o->go_on(r->o->context))
            return mr_fail(err, MR_CANCELLED, "stopped");
        MR_TRY(start_some(r, err));
        if (r->n_under_way > 0 || r->n_waiting > 0)
            wait_a_little(r);
        MR_TRY(take_replies(r, err));
        MR_TRY(record(r, err));
        if (r->o->progress != NULL)
            r->o->progress(r->o->context, &r->progress);
    } while (r->n_under_way > 0 || r->n_waiting > 0 || (!r->is_all_read && !r->gives_way));
    return r->is_all_read ? MR_OK : mr_fail(err, MR_BUSY, "others have their turn");
}

static void release(struct run *r)
{
    while (r->under_way != NULL) {
        struct call *c = r->under_way;
        r->under_way = c->next;
        free_call(c);
    }
    for (int i = 0; i < r->n_waiting; i++)
        free_call(r->waiting[i]);
    forget_results(r);
    batch_reader_close(&r->reader);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

enum mr_status batch_run(const struct batch_run_options *options, struct mr_error *err)
{
    struct run *r = mem_zero_array(1, sizeof *r);
    pthread_condattr_t monotonic;
    if (r == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the batch");
    r->o = options;
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&r->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    enum mr_status status = batch_reader_open(&r->reader, options->input, err);
    if (status == MR_OK)
        status = batch_store_count(options->store, options->job->id, &r->progress.counts, err);
    if (status == MR_OK && options->progress != NULL)
        options->progress(options->context, &r->progress);
    if (status == MR_OK)
        status = run_lines(r, err);
    release(r);
    return status;
}
