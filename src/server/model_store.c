/* model_store.c: one thread loads and unloads; whoever needs a model that is not there waits in a list. */
#include "server/model_store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread_start.h"
#include "server/dispatch.h"
#include "server/engine_link.h"
#include "server/exchange_state.h"
#include "server/hosted_model.h"
#include "server/settings.h"
#include "server/workers.h"

enum {
    FRESH_US = 10000000, /* what was loaded stays so long at least: who waited for it comes first */
    RETRY_MS = 2000
};

struct model_store {
    struct server *server;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* of what follows, and of the models' part behind struct model_use */
    pthread_cond_t changed;
    _Atomic bool stop;
};

static const struct api_error shuts_down = {.http = 503, .message = "the server shuts down"};

static int64_t default_keep_alive_us(const struct model_store *st)
{
    const int32_t s = st->server->settings->model_keep_alive_s;
    return s < 0 ? -1 : (int64_t)s * 1000000;
}

static void set_expiry(const struct model_store *st, struct hosted_model *m, int64_t keep_alive_us)
{
    const int64_t us = keep_alive_us == SERVER_KEEP_ALIVE ? default_keep_alive_us(st) : keep_alive_us;
    m->use.used_us = clock_us();
    m->use.expires_us = m->stays || us < 0 || us > INT64_MAX - m->use.used_us ? INT64_MAX : m->use.used_us + us;
}

/* ---- who waits ---- */

static void append(struct hosted_model *m, struct exchange *x)
{
    struct exchange **last = &m->use.waiting;
    while (*last != NULL)
        last = &(*last)->next_job;
    *last = x;
    x->next_job = NULL;
}

/* It fails, and its transport goes on. */
static void turn_away(struct exchange *x, const struct api_error *e)
{
    pthread_mutex_lock(&x->lock);
    x->is_working = false;
    exchange_fail_locked(x, e);
    exchange_wake(x); /* where its client has left */
    pthread_mutex_unlock(&x->lock);
    exchange_drop(x);
}

static void turn_all_away(struct exchange *list, const struct api_error *e)
{
    while (list != NULL) {
        struct exchange *next = list->next_job;
        turn_away(list, e);
        list = next;
    }
}

static void call_again(struct model_store *st, struct exchange *list)
{
    const int64_t now = clock_us();
    while (list != NULL) {
        struct exchange *next = list->next_job;
        list->loading_us += now - list->awaited_since_us;
        list->awaited = NULL;
        workers_add(st->server->workers, list);
        exchange_drop(list); /* the worker holds it */
        list = next;
    }
}

/* Those that have waited too long, or whose client has left. The lock is held. */
static struct exchange *take_late(struct model_store *st, struct hosted_model *m, int64_t now_us)
{
    const int64_t limit_us = (int64_t)st->server->settings->model_load_timeout_s * 1000000;
    struct exchange *late = NULL;
    for (struct exchange **at = &m->use.waiting; *at != NULL;) {
        struct exchange *x = *at;
        if (now_us - x->awaited_since_us < limit_us) {
            at = &x->next_job;
            continue;
        }
        *at = x->next_job;
        x->next_job = late;
        late = x;
    }
    return late;
}

static void end_late(struct model_store *st)
{
    const int64_t now = clock_us();
    for (int i = 0; i < st->server->n_model; i++) {
        struct hosted_model *m = &st->server->model[i];
        struct exchange *late = take_late(st, m, now);
        if (late == NULL)
            continue;
        struct api_error e;
        api_error_set(&e, 503, "the model '%s' could not be loaded in time", m->name);
        e.retry_after_ms = RETRY_MS;
        pthread_mutex_unlock(&st->lock);
        turn_all_away(late, &e);
        pthread_mutex_lock(&st->lock);
    }
}

/* ---- loading and unloading: the lock is held, but not while it takes time ---- */

static void unload(struct model_store *st, struct hosted_model *m)
{
    m->use.phase = MODEL_UNLOADING;
    pthread_mutex_unlock(&st->lock);
    dispatch_remove_link(st->server->dispatch, m->engine);
    if (!hosted_model_rest(m, st->server->settings))
        hosted_model_unload(m);
    pthread_mutex_lock(&st->lock);
    m->use.phase = MODEL_UNLOADED;
    m->use.is_leaving = false;
}

static enum mr_status open_model(struct model_store *st, struct hosted_model *m,
                                 bool (*progress)(void *context, size_t done, size_t total), void *context,
                                 struct mr_error *err)
{
    struct mr_engine_stats stats;
    enum mr_status status = hosted_model_load(m, st->server, progress, context, err);
    if (status == MR_OK)
        status = dispatch_add_link(st->server->dispatch, m->engine, err);
    if (status != MR_OK) {
        hosted_model_unload(m);
        return status;
    }
    engine_link_stats(m->engine, &stats);
    m->use.bytes = m->info.weight_bytes + stats.kv_bytes;
    return MR_OK;
}

static bool go_on(void *context, size_t done, size_t total)
{
    const struct model_store *st = context;
    (void)done;
    (void)total;
    return !st->stop;
}

static void load(struct model_store *st, struct hosted_model *m)
{
    struct mr_error err = {{0}};
    m->use.phase = MODEL_LOADING;
    pthread_mutex_unlock(&st->lock);
    const enum mr_status status = open_model(st, m, go_on, st, &err);
    pthread_mutex_lock(&st->lock);
    struct exchange *list = m->use.waiting;
    m->use.waiting = NULL;
    m->use.phase = status == MR_OK ? MODEL_LOADED : MODEL_UNLOADED;
    set_expiry(st, m, SERVER_KEEP_ALIVE);
    if (m->use.expires_us < m->use.used_us + FRESH_US)
        m->use.expires_us = m->use.used_us + FRESH_US;
    pthread_mutex_unlock(&st->lock);
    if (status == MR_OK) {
        call_again(st, list);
    } else {
        struct api_error e;
        api_error_set(&e, status == MR_NO_MEMORY ? 503 : 500, "the model '%.80s' cannot be loaded: %s", m->name, err.message);
        turn_all_away(list, &e);
    }
    pthread_mutex_lock(&st->lock);
}

/* The least recently used that may go; idle: and that nobody uses. NULL: none. */
static struct hosted_model *oldest(const struct model_store *st, bool idle)
{
    struct hosted_model *found = NULL;
    for (int i = 0; i < st->server->n_model; i++) {
        struct hosted_model *m = &st->server->model[i];
        if (m->stays || m->use.phase != MODEL_LOADED || (idle && m->use.n_user > 0))
            continue;
        if (found == NULL || m->use.used_us < found->use.used_us)
            found = m;
    }
    return found;
}

static size_t bytes_of(const struct hosted_model *m)
{
    return m->use.bytes > 0 ? m->use.bytes : (size_t)m->file_bytes; /* not known before it has been loaded once */
}

/* Whether the loaded ones and this one are within the limits. */
static bool has_room(const struct model_store *st, const struct hosted_model *wanted)
{
    const struct server_settings *settings = st->server->settings;
    size_t bytes = bytes_of(wanted);
    int n = 1;
    for (int i = 0; i < st->server->n_model; i++) {
        const struct hosted_model *m = &st->server->model[i];
        if (m == wanted || m->use.phase == MODEL_UNLOADED)
            continue;
        bytes += bytes_of(m);
        n++;
    }
    return (settings->models_max == 0 || n <= settings->models_max) &&
           (settings->models_bytes == 0 || bytes <= settings->models_bytes);
}

/* The one for which somebody has waited longest. */
static struct hosted_model *most_wanted(const struct model_store *st)
{
    struct hosted_model *found = NULL;
    for (int i = 0; i < st->server->n_model; i++) {
        struct hosted_model *m = &st->server->model[i];
        if (m->use.phase == MODEL_UNLOADED && m->use.waiting != NULL &&
            (found == NULL || m->use.waiting->awaited_since_us < found->use.waiting->awaited_since_us))
            found = m;
    }
    return found;
}

static void refuse(struct model_store *st, struct hosted_model *m)
{
    struct exchange *list = m->use.waiting;
    struct api_error e;
    m->use.waiting = NULL;
    api_error_set(&e, 503, "the model '%.80s' needs %zu MB; the models may have %zu MB", m->name, bytes_of(m) >> 20,
                  st->server->settings->models_bytes >> 20);
    pthread_mutex_unlock(&st->lock);
    turn_all_away(list, &e);
    pthread_mutex_lock(&st->lock);
}

/* Whether something was done, so that it is worth looking again. */
static bool serve_wanted(struct model_store *st)
{
    struct hosted_model *m = most_wanted(st), *victim;
    if (m == NULL)
        return false;
    if (has_room(st, m))
        load(st, m);
    else if ((victim = oldest(st, true)) != NULL)
        unload(st, victim);
    else if ((victim = oldest(st, false)) == NULL)
        refuse(st, m);
    else {
        victim->use.is_leaving = true;
        return false;
    }
    return true;
}

static bool unload_expired(struct model_store *st, int64_t *next_us)
{
    const int64_t now = clock_us();
    *next_us = INT64_MAX;
    for (int i = 0; i < st->server->n_model; i++) {
        struct hosted_model *m = &st->server->model[i];
        if (m->use.phase != MODEL_LOADED || m->use.n_user > 0 || m->stays)
            continue;
        if (m->use.expires_us <= now || m->use.is_leaving) {
            unload(st, m);
            return true;
        }
        *next_us = m->use.expires_us < *next_us ? m->use.expires_us : *next_us;
    }
    return false;
}

static void sleep_until(struct model_store *st, int64_t us)
{
    int64_t wait_us = us == INT64_MAX ? INT64_MAX : us - clock_us();
    for (int i = 0; i < st->server->n_model; i++)
        if (st->server->model[i].use.waiting != NULL && wait_us > 1000000)
            wait_us = 1000000;
    if (wait_us == INT64_MAX) {
        pthread_cond_wait(&st->changed, &st->lock);
        return;
    }
    struct timespec at;
    wait_us = wait_us > 0 ? wait_us : 0;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(wait_us / 1000000);
    at.tv_nsec += (long)(wait_us % 1000000) * 1000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&st->changed, &st->lock, &at);
}

static void *run(void *context)
{
    struct model_store *st = context;
    int64_t next_us;
    pthread_mutex_lock(&st->lock);
    while (!st->stop) {
        end_late(st);
        if (serve_wanted(st) || unload_expired(st, &next_us))
            continue;
        if (!st->stop)
            sleep_until(st, next_us);
    }
    pthread_mutex_unlock(&st->lock);
    return NULL;
}

/* ---- the store ---- */

enum mr_status model_store_create(struct model_store **out, struct server *s, struct mr_error *err)
{
    struct model_store *st = *out = mem_zero_array(1, sizeof *st);
    pthread_condattr_t monotonic;
    if (st == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the models");
    st->server = s;
    pthread_mutex_init(&st->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&st->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (s->settings->n_models == 0)
        return MR_OK;
    st->has_thread = thread_start(&st->thread, run, st);
    return st->has_thread ? MR_OK : mr_fail(err, MR_NO_MEMORY, "the thread that loads models could not be started");
}

void model_store_stop(struct model_store *st)
{
    if (st == NULL)
        return;
    pthread_mutex_lock(&st->lock);
    st->stop = true;
    pthread_cond_broadcast(&st->changed);
    pthread_mutex_unlock(&st->lock);
    if (st->has_thread)
        pthread_join(st->thread, NULL);
    st->has_thread = false;
    for (int i = 0; i < st->server->n_model; i++) {
        pthread_mutex_lock(&st->lock);
        struct exchange *list = st->server->model[i].use.waiting;
        st->server->model[i].use.waiting = NULL;
        pthread_mutex_unlock(&st->lock);
        turn_all_away(list, &shuts_down);
    }
}

void model_store_free(struct model_store *st)
{
    if (st == NULL)
        return;
    pthread_mutex_destroy(&st->lock);
    pthread_cond_destroy(&st->changed);
    free(st);
}

enum mr_status model_store_load_first(struct model_store *st, bool (*progress)(void *context, size_t done, size_t total),
                                      void *context, struct mr_error *err)
{
    struct hosted_model *m = st->server->model;
    MR_TRY(open_model(st, m, progress, context, err));
    pthread_mutex_lock(&st->lock);
    m->use.phase = MODEL_LOADED;
    set_expiry(st, m, SERVER_KEEP_ALIVE);
    pthread_mutex_unlock(&st->lock);
    return MR_OK;
}

static bool take(struct model_store *st, struct hosted_model *m, bool also_leaving)
{
    pthread_mutex_lock(&st->lock);
    const bool is_there = m->use.phase == MODEL_LOADED && (also_leaving || !m->use.is_leaving);
    m->use.n_user += is_there;
    pthread_mutex_unlock(&st->lock);
    return is_there;
}

bool model_store_take(struct model_store *st, struct hosted_model *m) { return take(st, m, false); }

bool model_store_peek(struct model_store *st, struct hosted_model *m) { return take(st, m, true); }

void model_store_give(struct model_store *st, struct hosted_model *m)
{
    pthread_mutex_lock(&st->lock);
    if (--m->use.n_user == 0)
        pthread_cond_broadcast(&st->changed);
    pthread_mutex_unlock(&st->lock);
}

void model_store_touch(struct model_store *st, struct hosted_model *m, int64_t keep_alive_us)
{
    pthread_mutex_lock(&st->lock);
    set_expiry(st, m, keep_alive_us);
    pthread_mutex_unlock(&st->lock);
}

int64_t model_store_expires_us(struct model_store *st, const struct hosted_model *m)
{
    pthread_mutex_lock(&st->lock);
    const int64_t us = m->use.expires_us;
    pthread_mutex_unlock(&st->lock);
    return us;
}

void model_store_wait(struct model_store *st, struct exchange *x)
{
    struct hosted_model *m = x->awaited;
    exchange_hold(x);
    x->awaited_since_us = clock_us();
    pthread_mutex_lock(&st->lock);
    if (st->stop) {
        pthread_mutex_unlock(&st->lock);
        turn_away(x, &shuts_down);
        return;
    }
    append(m, x);
    const bool is_there = m->use.phase == MODEL_LOADED && !m->use.is_leaving; /* it came meanwhile */
    struct exchange *list = is_there ? m->use.waiting : NULL;
    if (is_there)
        m->use.waiting = NULL;
    pthread_cond_broadcast(&st->changed);
    pthread_mutex_unlock(&st->lock);
    call_again(st, list);
}
