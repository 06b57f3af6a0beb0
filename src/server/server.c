/* server.c: the parts of the server put together, and taken apart in the opposite order. */
#include "server/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/cpu_limit.h"
#include "base/memory.h"
#include "measure/limits.h"
#include "server/access_log.h"
#include "server/adapter_names.h"
#include "server/api/embedding_cache.h"
#include "server/api/stored_responses.h"
#include "server/batch/batch_service.h"
#include "server/dispatch.h"
#include "server/engine_link.h"
#include "server/exchange_state.h"
#include "server/hosted_model.h"
#include "server/http.h"
#include "server/keys.h"
#include "server/metrics.h"
#include "server/model_store.h"
#include "server/settings.h"
#include "server/slot_board.h"
#include "server/trace_export.h"
#include "server/workers.h"

enum {
    STORED_BYTES = 64 << 20,    /* of responses by their id */
    EMBEDDING_BYTES = 64 << 20, /* of vectors by their texts */
    POLL_MS = 10,
    FLUSH_MS = 2000 /* for last replies to go out */
};

static enum mr_status start_parts(struct server *s, struct mr_error *err)
{
    const struct server_settings *settings = s->settings;
    if (settings->n_api_key > 0 || settings->api_keys_file != NULL)
        MR_TRY(key_ring_create(&s->keys, settings->api_key, settings->n_api_key, settings->api_keys_file, err));
    const struct metrics_options options = {.latency_target_ms = settings->engine.latency_target_ms,
                                            .latency_metric = settings->engine.latency_metric,
                                            .itl_target_ms = settings->engine.itl_target_ms,
                                            .threads = settings->engine.threads > 0 ? settings->engine.threads : cpu_limit(),
                                            .clock_us = settings->engine.clock_us,
                                            .clock_context = settings->engine.clock_context};
    MR_TRY(metrics_create(&s->metrics, &options, err));
    MR_TRY(metrics_start(s->metrics, err));
    s->responses = stored_responses_create(STORED_BYTES);
    s->embeddings = embedding_cache_create(EMBEDDING_BYTES);
    s->adapters = adapter_names_create();
    if (s->responses == NULL || s->embeddings == NULL || s->adapters == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the server");
    if (settings->otlp_endpoint != NULL)
        MR_TRY(trace_export_create(&s->traces, settings->otlp_endpoint, s->metrics, err));
    MR_TRY(access_log_open(&s->access_log, settings->access_log, err));
    MR_TRY(dispatch_create(&s->dispatch, err));
    if (settings->state_dir != NULL)
        MR_TRY(batch_service_open(&s->batches, s, settings->state_dir, err));
    MR_TRY(workers_create(&s->workers, err));
    MR_TRY(model_store_list(s, err));
    if (settings->n_models > 0) /* what --model is alone shows at once, when it is loaded */
        MR_TRY(model_store_check_drafts(s, err));
    for (int i = 0; i < s->n_model; i++) {
        struct hosted_model *m = &s->model[i];
        m->metrics = metrics_model(s->metrics, m->name);
        m->slots = slot_board_create(settings->engine.max_running, settings->slots_debug);
        if (m->metrics == NULL || m->slots == NULL)
            return mr_fail(err, MR_NO_MEMORY, "no memory for the metrics");
    }
    return model_store_create(&s->store, s, err);
}

static enum mr_status start(struct server **out, const struct server_settings *settings, bool listens, struct mr_error *err)
{
    *out = NULL;
    struct server *s = mem_zero_array(1, sizeof *s);
    if (s == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the server");
    s->settings = settings;
    s->start_us = clock_us();
    atomic_init(&s->phase, SERVER_LOADING);
    enum mr_status status = start_parts(s, err);
    if (status == MR_OK && listens)
        status = http_create(&s->http, s, err);
    if (status != MR_OK)
        server_free(s);
    else
        *out = s;
    return status;
}

enum mr_status server_start(struct server **out, const struct server_settings *settings, struct mr_error *err)
{
    return start(out, settings, true, err);
}

enum mr_status server_start_local(struct server **out, const struct server_settings *settings, struct mr_error *err)
{
    return start(out, settings, false, err);
}

/* For about a fifth of a second; where it cannot be measured MFU and MBU are not told. */
static enum mr_status measure_machine(struct server *s, int n_threads, struct mr_error *err)
{
    struct limits limits;
    unsigned features;
    MR_TRY(cpu_features(&features, s->settings->engine.cpu, err));
    if (limits_measure_quick(&limits, n_threads, features, NULL) == MR_OK)
        metrics_set_limits(s->metrics, &limits);
    return MR_OK;
}

enum mr_status server_load(struct server *s, bool (*progress)(void *context, size_t done, size_t total), void *context,
                           struct mr_error *err)
{
    MR_TRY(measure_machine(s, s->settings->engine.threads > 0 ? s->settings->engine.threads : cpu_limit(), err));
    if (s->settings->model != NULL)
        MR_TRY(model_store_load_first(s->store, progress, context, err));
    /* Pages are locked as they are first touched: the cache's memory is far larger than what is used of it. */
    if (s->settings->mlock && !hosted_model_has_pool(s->settings) && mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0)
        return mr_fail(err, MR_NO_SUPPORT, "mlock: %s; the limit is that of ulimit -l", strerror(errno));
    MR_TRY(adapter_names_load_all(s, err));
    atomic_store_explicit(&s->phase, SERVER_READY, memory_order_release);
    return s->batches != NULL ? batch_service_start(s->batches, err) : MR_OK;
}

int server_port(const struct server *s) { return http_port(s->http); }

struct hosted_model *server_find_model(struct server *s, const char *name)
{
    if (server_get_phase(s) == SERVER_LOADING)
        return NULL;
    if (name == NULL || *name == '\0')
        return s->n_model == 1 || (s->n_model > 1 && s->model->stays) ? s->model : NULL;
    for (int i = 0; i < s->n_model; i++)
        if (strcmp(s->model[i].name, name) == 0)
            return &s->model[i];
    return NULL;
}

bool server_take_model(struct server *s, struct hosted_model *m) { return model_store_take(s->store, m); }

bool server_peek_model(struct server *s, struct hosted_model *m) { return model_store_peek(s->store, m); }

void server_give_model(struct server *s, struct hosted_model *m) { model_store_give(s->store, m); }

void server_touch_model(struct server *s, struct hosted_model *m, int64_t keep_alive_us)
{
    model_store_touch(s->store, m, keep_alive_us);
}

static void wait_a_little(void) { nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000}, NULL); }

void server_drain(struct server *s, bool (*go_on)(void *context), void *context)
{
    const int64_t until_us = clock_us() + (int64_t)s->settings->drain_s * 1000000;
    batch_service_stop(s->batches); /* what they have not done waits for the next start */
    atomic_store_explicit(&s->phase, SERVER_DRAINING, memory_order_release);
    while (dispatch_n_exchanges(s->dispatch) > 0 && clock_us() < until_us && go_on(context))
        wait_a_little();
}

struct settings_version {
    struct server_settings values;
    struct settings_version *before;
};

/* Models that load later have the targets from the settings. */
static enum mr_status tell_targets(struct server *s, struct mr_targets *targets, struct mr_error *err)
{
    struct engine_order order = {.kind = ENGINE_ORDER_TARGETS, .targets = *targets};
    enum mr_status status = MR_OK;
    for (int i = 0; status == MR_OK && i < s->n_model; i++) {
        if (!server_peek_model(s, &s->model[i]))
            continue;
        status = engine_link_order(s->model[i].engine, &order, err);
        server_give_model(s, &s->model[i]);
    }
    metrics_set_targets(s->metrics, targets);
    return status;
}

/* Models that load later are opened with the new settings. */
static enum mr_status renew_engines(struct server *s, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    for (int i = 0; status == MR_OK && i < s->n_model; i++) {
        if (!server_peek_model(s, &s->model[i]))
            continue;
        status = hosted_model_renew(&s->model[i], s->settings, err);
        server_give_model(s, &s->model[i]);
    }
    return status;
}

enum mr_status server_reload(struct server *s, const struct server_settings *fresh, struct string_buffer *changed,
                             struct string_buffer *kept, struct mr_error *err)
{
    struct settings_version *v = mem_zero_array(1, sizeof *v);
    struct mr_targets before, after;
    if (v == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the settings");
    v->values = *s->settings;
    mr_targets_of(&before, &v->values.engine);
    const bool renews = hosted_model_has_pool(s->settings) && s->settings->warm_standby > 0;
    const bool of_engines = settings_merge(&v->values, fresh, renews, changed, kept);
    mr_targets_of(&after, &v->values.engine);
    if (changed->n == 0) {
        free(v);
        return MR_OK;
    }
    v->before = s->versions;
    s->versions = v;
    s->settings = &v->values;
    if (memcmp(&before, &after, sizeof before) != 0)
        MR_TRY(tell_targets(s, &after, err));
    return of_engines ? renew_engines(s, err) : MR_OK;
}

static void forget_versions(struct server *s)
{
    while (s->versions != NULL) {
        struct settings_version *v = s->versions;
        s->versions = v->before;
        free(v);
    }
}

/* Every reply ends, and nothing is suspended any more. */
static void end_exchanges(struct server *s)
{
    const int64_t until_us = clock_us() + FLUSH_MS * 1000;
    atomic_store_explicit(&s->phase, SERVER_DRAINING, memory_order_release);
    dispatch_close(s->dispatch);
    while (dispatch_n_exchanges(s->dispatch) > 0) {
        dispatch_each(s->dispatch, exchange_shut);
        wait_a_little();
    }
    while (s->http != NULL && http_n_open(s->http) > 0 && clock_us() < until_us)
        wait_a_little();
}

void server_free(struct server *s)
{
    if (s == NULL)
        return;
    batch_service_stop(s->batches);
    model_store_stop(s->store);
    if (s->dispatch != NULL)
        end_exchanges(s);
    workers_free(s->workers);
    http_free(s->http);
    batch_service_free(s->batches);
    dispatch_free(s->dispatch);
    for (int i = 0; i < s->n_model; i++)
        hosted_model_release(&s->model[i]);
    model_store_free(s->store);
    free(s->model);
    access_log_close(s->access_log);
    trace_export_free(s->traces);
    metrics_free(s->metrics);
    key_ring_free(s->keys);
    stored_responses_free(s->responses);
    embedding_cache_free(s->embeddings);
    adapter_names_free(s->adapters);
    forget_versions(s);
    free(s);
}
