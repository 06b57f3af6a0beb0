/* trace_export.c: a ring of spans, and the thread that empties it by libcurl. */
#include "server/trace_export.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread_start.h"
#include "server/trace_json.h"

enum {
    RING = 1024, /* spans that wait */
    AT_ONCE = 128,
    SEND_MS = 5000,
    LAST_SEND_MS = 2000
};

struct trace_export {
    char *url;
    struct metrics *metrics;
    CURL *curl; /* the thread's, as the next two */
    struct curl_slist *header;
    struct trace_span batch[AT_ONCE];
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;
    bool stop;
    struct trace_span ring[RING];
    int first, n;
};

/* n lower-case hexadecimal digits, not all of them 0. */
static bool is_id(const char *text, size_t n) { return strspn(text, "0123456789abcdef") >= n && strspn(text, "0") < n; }

void trace_context_read(struct trace_context *out, const char *traceparent)
{
    const char *t = traceparent;
    *out = (struct trace_context){.is_sampled = true};
    if (t != NULL && strlen(t) >= 55 && strncmp(t, "00-", 3) == 0 && is_id(t + 3, 32) && t[35] == '-' && is_id(t + 36, 16) &&
        t[52] == '-' && strspn(t + 53, "0123456789abcdef") == 2 && t[55] == '\0') {
        memcpy(out->trace_id, t + 3, 32);
        memcpy(out->parent_id, t + 36, 16);
        out->is_sampled = (strtol(t + 53, NULL, 16) & 1) != 0;
        return;
    }
    snprintf(out->trace_id, sizeof out->trace_id, "%08x%08x%08x%08x", arc4random(), arc4random(), arc4random(),
             arc4random() | 1);
}

static size_t forget(char *bytes, size_t size, size_t n, void *context)
{
    (void)bytes;
    (void)context;
    return size * n;
}

static int64_t epoch_offset_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - clock_us();
}

static void send_batch(struct trace_export *t, int n, long timeout_ms)
{
    int n_span = 0;
    long code = 0;
    char *body = trace_json(t->batch, n, epoch_offset_us(), &n_span);
    curl_easy_setopt(t->curl, CURLOPT_POSTFIELDS, body != NULL ? body : "");
    curl_easy_setopt(t->curl, CURLOPT_TIMEOUT_MS, timeout_ms);
    if (body != NULL && curl_easy_perform(t->curl) == CURLE_OK)
        curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    free(body);
    const bool is_taken = code >= 200 && code < 300;
    metrics_spans(t->metrics, is_taken ? n_span : 0, is_taken ? 0 : n);
}

/* The lock is held. */
static int take(struct trace_export *t)
{
    int n = 0;
    for (; n < AT_ONCE && t->n > 0; n++, t->n--) {
        t->batch[n] = t->ring[t->first];
        t->first = (t->first + 1) % RING;
    }
    return n;
}

static void *run(void *context)
{
    struct trace_export *t = context;
    pthread_mutex_lock(&t->lock);
    while (!t->stop || t->n > 0) {
        while (t->n == 0 && !t->stop)
            pthread_cond_wait(&t->wake, &t->lock);
        const int n = take(t);
        const bool is_last = t->stop;
        pthread_mutex_unlock(&t->lock);
        if (n > 0)
            send_batch(t, n, is_last ? LAST_SEND_MS : SEND_MS);
        pthread_mutex_lock(&t->lock);
        if (is_last)
            break;
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static enum mr_status set_up(struct trace_export *t, struct mr_error *err)
{
    t->curl = curl_easy_init();
    t->header = curl_slist_append(NULL, "Content-Type: application/json");
    if (t->curl == NULL || t->header == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for traces");
    curl_easy_setopt(t->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    if (curl_easy_setopt(t->curl, CURLOPT_URL, t->url) != CURLE_OK)
        return mr_fail(err, MR_NO_MEMORY, "no memory for traces");
    curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, t->header);
    curl_easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, forget);
    curl_easy_setopt(t->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(t->curl, CURLOPT_USERAGENT, "millrace/" MILLRACE_VERSION);
    t->has_thread = thread_start(&t->thread, run, t);
    return t->has_thread ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no thread for traces");
}

/* With the path of traces behind it. NULL: no memory. */
static char *full_url(const char *url)
{
    static const char path[] = "/v1/traces";
    const size_t n = strlen(url), n_path = sizeof path - 1;
    const bool has_path = n >= n_path && strcmp(url + n - n_path, path) == 0;
    const size_t base = has_path ? n - n_path : n > 0 && url[n - 1] == '/' ? n - 1 : n;
    char *full = mem_array(base + sizeof path, 1);
    if (full != NULL) {
        memcpy(full, url, base);
        memcpy(full + base, path, sizeof path);
    }
    return full;
}

enum mr_status trace_export_create(struct trace_export **out, const char *url, struct metrics *metrics, struct mr_error *err)
{
    *out = NULL;
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return mr_fail(err, MR_BAD_INPUT, "server.otlp_endpoint: '%s' does not begin with http:// or https://", url);
    struct trace_export *t = mem_zero_array(1, sizeof *t);
    if (t == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(t);
        return mr_fail(err, MR_NO_MEMORY, "no memory for traces");
    }
    t->metrics = metrics;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    t->url = full_url(url);
    const enum mr_status status = t->url != NULL ? set_up(t, err) : mr_fail(err, MR_NO_MEMORY, "no memory for traces");
    if (status == MR_OK)
        *out = t;
    else
        trace_export_free(t);
    return status;
}

void trace_export_free(struct trace_export *t)
{
    if (t == NULL)
        return;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    if (t->has_thread)
        pthread_join(t->thread, NULL);
    curl_easy_cleanup(t->curl);
    curl_slist_free_all(t->header);
    curl_global_cleanup();
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t->url);
    free(t);
}

void trace_export_add(struct trace_export *t, const struct trace_span *span)
{
    if (!span->context.is_sampled)
        return;
    pthread_mutex_lock(&t->lock);
    const bool fits = t->n < RING;
    if (fits) {
        t->ring[(t->first + t->n++) % RING] = *span;
        pthread_cond_signal(&t->wake);
    }
    pthread_mutex_unlock(&t->lock);
    if (!fits)
        metrics_spans(t->metrics, 0, 1);
}
