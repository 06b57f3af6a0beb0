/* metrics.c: observing. */
#include "server/metrics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread_start.h"
#include "base/utf8.h"
#include "server/metrics_state.h"

enum {
    TICK_US = 1000 * 1000,
    HTTP_CLIENT_LEFT = 499 /* before there was a reply; as nginx logs it */
};

int64_t metrics_now(const struct metrics *m)
{
    return m->options.clock_us != NULL ? m->options.clock_us(m->options.clock_context) : clock_us();
}

void metrics_set_targets(struct metrics *m, const struct mr_targets *targets)
{
    pthread_mutex_lock(&m->lock);
    m->options.latency_target_ms = targets->latency_target_ms;
    m->options.latency_metric = targets->latency_metric;
    m->options.itl_target_ms = targets->itl_target_ms;
    pthread_mutex_unlock(&m->lock);
}

enum mr_status metrics_create(struct metrics **out, const struct metrics_options *options, struct mr_error *err)
{
    struct metrics *m = *out = mem_zero_array(1, sizeof *m);
    if (m == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for metrics");
    m->options = *options;
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->source_lock, NULL);
    pthread_mutex_init(&m->thread_lock, NULL);
    pthread_cond_init(&m->wake, NULL);
    process_stats_read(&m->at_start, "");
    m->process = m->at_start;
    return MR_OK;
}

static void *look_every_second(void *context)
{
    struct metrics *m = context;
    struct timespec until;
    pthread_mutex_lock(&m->thread_lock);
    while (!m->stop) {
        pthread_mutex_unlock(&m->thread_lock);
        metrics_tick(m);
        pthread_mutex_lock(&m->thread_lock);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        while (!m->stop && pthread_cond_timedwait(&m->wake, &m->thread_lock, &until) != ETIMEDOUT)
            continue;
    }
    pthread_mutex_unlock(&m->thread_lock);
    return NULL;
}

enum mr_status metrics_start(struct metrics *m, struct mr_error *err)
{
    m->has_thread = thread_start(&m->thread, look_every_second, m);
    return m->has_thread ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no thread for metrics");
}

static void stop_thread(struct metrics *m)
{
    pthread_mutex_lock(&m->thread_lock);
    m->stop = true;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->thread_lock);
    if (m->has_thread)
        pthread_join(m->thread, NULL);
}

void metrics_free(struct metrics *m)
{
    if (m == NULL)
        return;
    stop_thread(m);
    for (int i = 0; i < m->n_model; i++)
        free(m->model[i]);
    pthread_cond_destroy(&m->wake);
    pthread_mutex_destroy(&m->thread_lock);
    pthread_mutex_destroy(&m->source_lock);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* At most METRICS_NAME_MAX - 1 bytes, whole characters; what is not UTF-8 becomes '?'. */
static void copy_name(char out[METRICS_NAME_MAX], const char *name)
{
    const size_t n = strlen(name);
    size_t used = 0;
    for (size_t at = 0; at < n;) {
        uint32_t code;
        const int length = utf8_decode(&code, name + at, n - at);
        const size_t step = (size_t)abs(length), room = METRICS_NAME_MAX - 1 - used;
        if (room < (length > 0 ? step : 1))
            break;
        memcpy(out + used, length > 0 ? name + at : "?", length > 0 ? step : 1);
        used += length > 0 ? step : 1;
        at += step;
    }
    out[used] = '\0';
}

struct model_metrics *metrics_model(struct metrics *m, const char *name)
{
    char clean[METRICS_NAME_MAX];
    struct model_metrics *found = NULL;
    copy_name(clean, name);
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < m->n_model && found == NULL; i++)
        if (strcmp(m->model[i]->name, clean) == 0)
            found = m->model[i];
    if (found == NULL && m->n_model < METRICS_MODELS_MAX && (found = mem_zero_array(1, sizeof *found)) != NULL) {
        found->owner = m;
        memcpy(found->name, clean, sizeof clean);
        m->model[m->n_model++] = found;
    }
    pthread_mutex_unlock(&m->lock);
    return found;
}

void metrics_set_source(struct model_metrics *mm, const struct metrics_source *source)
{
    struct metrics *m = mm->owner;
    struct mr_engine_stats stats = {0};
    pthread_mutex_lock(&m->source_lock);
    if (source != NULL)
        source->stats(source->context, &stats);
    pthread_mutex_lock(&m->lock);
    mm->source = source != NULL ? *source : (struct metrics_source){0};
    mm->source.info.family = mm->source.info.precision = NULL; /* borrowed from the model, and not needed */
    mm->stats = mm->stepped = stats;
    mm->n_sample = 0;
    pthread_mutex_unlock(&m->lock);
    pthread_mutex_unlock(&m->source_lock);
}

void metrics_set_limits(struct metrics *m, const struct limits *limits)
{
    pthread_mutex_lock(&m->lock);
    m->limits = *limits;
    pthread_mutex_unlock(&m->lock);
}

void metrics_refresh(struct metrics *m)
{
    struct process_stats process;
    process_stats_read(&process, "");
    pthread_mutex_lock(&m->source_lock);
    pthread_mutex_lock(&m->lock);
    const int n_model = m->n_model;
    m->process = process;
    pthread_mutex_unlock(&m->lock);
    for (int i = 0; i < n_model; i++) {
        struct model_metrics *mm = m->model[i]; /* models are only added */
        struct mr_engine_stats stats;
        if (mm->source.stats == NULL)
            continue;
        struct metrics_processes processes = {0};
        mm->source.stats(mm->source.context, &stats);
        if (mm->source.processes != NULL)
            mm->source.processes(mm->source.context, &processes);
        pthread_mutex_lock(&m->lock);
        mm->stats = stats;
        mm->processes = processes;
        pthread_mutex_unlock(&m->lock);
    }
    pthread_mutex_unlock(&m->source_lock);
}

void metrics_tick(struct metrics *m)
{
    metrics_refresh(m);
    const int64_t now = metrics_now(m);
    pthread_mutex_lock(&m->lock);
    if (!m->has_sample || now - m->sampled_us >= TICK_US * 9 / 10) {
        m->has_sample = true;
        m->sampled_us = now;
        for (int i = 0; i < m->n_model; i++)
            model_take_sample(m->model[i], now);
    }
    pthread_mutex_unlock(&m->lock);
}

/* The method as a string that stays. */
static const char *known_method(const char *method)
{
    static const char *const methods[] = {"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(method, methods[i]) == 0)
            return methods[i];
    return "other";
}

/* Place in the table; NULL: it is full. Both strings stay, and are the same pointers each time. */
static struct http_count *http_slot(struct metrics *m, const char *method, const char *path, int code)
{
    size_t at = ((uintptr_t)path / 8 + (uintptr_t)method + (size_t)code * 31) % HTTP_SLOTS;
    for (int i = 0; i < HTTP_SLOTS; i++, at = (at + 1) % HTTP_SLOTS) {
        struct http_count *c = &m->http[at];
        if (c->path == NULL)
            *c = (struct http_count){method, path, code, 0};
        if (c->code == code && c->path == path && c->method == method)
            return c;
    }
    return NULL;
}

void metrics_http(struct metrics *m, const char *method, const char *path, int code, size_t bytes_in, size_t bytes_out)
{
    static const char other[] = "other";
    pthread_mutex_lock(&m->lock);
    struct http_count *c =
        http_slot(m, known_method(method), *path != '\0' ? path : other, code != 0 ? code : HTTP_CLIENT_LEFT);
    *(c != NULL ? &c->n : &m->n_http_other) += 1;
    m->bytes_in += (int64_t)bytes_in;
    m->bytes_out += (int64_t)bytes_out;
    pthread_mutex_unlock(&m->lock);
}

void metrics_set_connections(struct metrics *m, int n)
{
    pthread_mutex_lock(&m->lock);
    m->n_connections = n;
    pthread_mutex_unlock(&m->lock);
}

void metrics_spans(struct metrics *m, int n_sent, int n_dropped)
{
    pthread_mutex_lock(&m->lock);
    m->n_spans += n_sent;
    m->n_spans_dropped += n_dropped;
    pthread_mutex_unlock(&m->lock);
}

void metrics_set_batches(struct metrics *m, const struct metrics_batches *now)
{
    pthread_mutex_lock(&m->lock);
    m->batches = *now;
    m->batches_us = metrics_now(m);
    pthread_mutex_unlock(&m->lock);
}

void metrics_set_lines_pending(struct metrics *m, int64_t n)
{
    pthread_mutex_lock(&m->lock);
    m->batches.n_pending = n;
    pthread_mutex_unlock(&m->lock);
}

void metrics_batch_lines(struct metrics *m, enum batch_line_end end, int64_t n)
{
    pthread_mutex_lock(&m->lock);
    m->n_batch_lines[end] += n;
    pthread_mutex_unlock(&m->lock);
}

static double rows_of(const struct mr_engine_stats *s)
{
    return (double)(s->n_decode_rows + s->n_prompt_rows + s->n_draft_rows);
}

void metrics_step(struct model_metrics *mm, const struct mr_engine_stats *stats)
{
    pthread_mutex_lock(&mm->owner->lock);
    if (stats->n_steps > mm->stepped.n_steps) {
        const double rows = rows_of(stats) - rows_of(&mm->stepped);
        const double seconds = (double)(stats->step_us - mm->stepped.step_us) * 1e-6;
        histogram_observe(&mm->histogram[HISTOGRAM_STEP_ROWS], HISTOGRAM_STEP_ROWS, rows);
        histogram_observe(&mm->histogram[HISTOGRAM_STEP], HISTOGRAM_STEP, seconds);
    }
    mm->stepped = *stats;
    pthread_mutex_unlock(&mm->owner->lock);
}
