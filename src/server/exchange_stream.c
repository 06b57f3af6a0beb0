/* exchange_stream.c: requests to the engine, and its events to bytes of the reply. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/dispatch.h"
#include "server/engine_link.h"
#include "server/exchange_report.h"
#include "server/exchange_state.h"
#include "server/keys.h"
#include "server/server.h"
#include "server/settings.h"

static void cancel_all(struct exchange *x)
{
    for (int i = 0; i < x->n_request; i++)
        engine_link_cancel(x->model->engine, x->serial << DISPATCH_REQUEST_BITS | (unsigned)i);
}

/* Nothing comes from the engine any more. */
static void end(struct exchange *x)
{
    if (!x->is_generating)
        return;
    x->is_generating = false;
    x->is_ended = true;
    x->times.end_us = clock_us();
    if (x->has_entered)
        api_key_leave(x->key, x->usage.n_generated, x->times.end_us);
    x->has_entered = false;
    dispatch_remove(x->server->dispatch, x);
}

/* The reply begins. */
static void begin(struct exchange *x)
{
    if (x->http != 0)
        return;
    x->content_type = mem_string(x->responder.content_type, strlen(x->responder.content_type));
    x->is_stream = x->responder.is_stream;
    x->http = x->content_type != NULL ? 200 : 500;
}

/* End the reply with an error: by its status where nothing of it has gone out, else by the responder's own words. */
static void fail(struct exchange *x, const struct api_error *e)
{
    cancel_all(x);
    if (x->http == 0 && x->responder.refused != NULL)
        x->responder.refused(x->self, e);
    if (x->http == 0)
        exchange_fail_locked(x, e);
    else if (x->responder.fail != NULL)
        x->responder.fail(x->self, e, &x->out);
    end(x);
    exchange_wake(x);
}

static void fail_status(struct exchange *x, enum mr_status status, const char *message, int64_t retry_after_ms)
{
    struct api_error e;
    api_error_of_status(&e, status, message);
    e.retry_after_ms = retry_after_ms;
    x->status = status;
    fail(x, &e);
}

/* What a client wrote is named as it wrote it. */
static void fail_request(struct exchange *x, const struct mr_event *event, int64_t retry_after_ms)
{
    const char *field = x->responder.constraint;
    const bool is_its_fault = event->status == MR_BAD_INPUT || event->status == MR_NO_SUPPORT;
    struct api_error e;
    struct mr_error named;
    api_error_of_status(&e, event->status, event->error);
    e.retry_after_ms = retry_after_ms;
    if (is_its_fault && field != NULL) {
        mr_fail(&named, event->status, "%s: %s", field, e.message);
        memcpy(e.message, named.message, sizeof e.message);
        snprintf(e.param, sizeof e.param, "%s", field);
    }
    x->status = event->status;
    fail(x, &e);
}

static void add_usage(struct exchange *x, const struct mr_event *event)
{
    const struct mr_usage *u = &event->usage;
    if (event->sample == 0) { /* the answers to one prompt share it */
        x->usage.n_prompt += u->n_prompt;
        x->usage.n_cached += u->n_cached;
    }
    x->usage.n_generated += u->n_generated;
    x->usage.n_drafted += u->n_drafted;
    x->usage.n_accepted += u->n_accepted;
    x->usage.n_preempted += u->n_preempted;
    if (x->usage.first_token_us == 0 || (u->first_token_us > 0 && u->first_token_us < x->usage.first_token_us)) {
        x->usage.first_token_us = u->first_token_us;
        x->usage.queue_us = u->queue_us;
        x->usage.prompt_us = u->prompt_us;
    }
    x->usage.generate_us = u->generate_us > x->usage.generate_us ? u->generate_us : x->usage.generate_us;
    x->usage.is_bound |= u->is_bound;
    x->usage.from_store |= u->from_store;
    x->finish = event->finish;
}

/* Hand the event to the responder, and the end behind the last one. */
static enum mr_status respond(struct exchange *x, int i, const struct mr_event *event, struct mr_error *err)
{
    MR_TRY(x->responder.event(x->self, i, event, &x->out, err));
    if (event->finish != MR_FINISH_NONE) {
        add_usage(x, event);
        if (--x->n_open == 0 && x->responder.end != NULL)
            MR_TRY(x->responder.end(x->self, &x->out, err));
    }
    return x->out.failed ? mr_fail(err, MR_NO_MEMORY, "no memory for the reply") : MR_OK;
}

void exchange_take_event(struct exchange *x, int i, const struct mr_event *event, int64_t retry_after_ms)
{
    struct mr_error err = {{0}};
    if (!x->is_generating)
        return;
    const int64_t now = clock_us();
    if (x->times.first_event_us == 0)
        x->times.first_event_us = now;
    exchange_report_event(x, i, event);
    if (event->finish == MR_FINISH_ERROR) {
        fail_request(x, event, retry_after_ms);
        return;
    }
    const enum mr_status status = respond(x, i, event, &err);
    if (status != MR_OK) {
        fail_status(x, status, err.message, 0);
        return;
    }
    x->last_out_us = now;
    if (x->responder.is_stream || x->n_open == 0)
        begin(x);
    if (x->n_open == 0)
        end(x);
    if (x->http != 0)
        exchange_wake(x);
}

void exchange_tick(struct exchange *x, int64_t now_us)
{
    const int64_t silent_us = (int64_t)x->server->settings->keep_alive_s * 1000000;
    if (!x->is_generating || !x->responder.is_stream || x->responder.keep_alive == NULL || silent_us == 0 ||
        now_us - x->last_out_us < silent_us || x->out.n > x->out_at)
        return;
    begin(x);
    string_buffer_puts(&x->out, x->responder.keep_alive);
    x->last_out_us = now_us;
    exchange_wake(x);
}

void exchange_leave(struct exchange *x)
{
    if (x->is_gone)
        return;
    x->is_gone = true;
    if (x->is_generating) {
        x->finish = MR_FINISH_CANCELLED;
        cancel_all(x);
        end(x);
    }
    exchange_wake(x);
}

void exchange_shut(struct exchange *x)
{
    struct api_error e;
    api_error_set(&e, 503, "the server shuts down");
    if (x->is_generating)
        fail(x, &e);
    else
        exchange_leave(x);
}

/* How often the client says that it has tried before, as OpenAI's clients do. */
static int32_t count_retries(const struct exchange *x)
{
    const char *text = exchange_header(x, "x-stainless-retry-count");
    const long n = text != NULL ? strtol(text, NULL, 10) : 0;
    return n < 0 ? 0 : n > INT32_MAX ? INT32_MAX : (int32_t)n;
}

/* May this key ask this model now? BUSY: with *retry_after_ms. */
static enum mr_status enter(struct exchange *x, const struct mr_request *request, int n, int64_t *retry_after_ms,
                            struct mr_error *err)
{
    int64_t n_token = 0;
    if (x->key == NULL)
        return MR_OK;
    if (!api_key_allows(x->key, x->model->name))
        return mr_fail(err, MR_NOT_FOUND, "the model '%s' does not exist, or this key may not use it", x->model->name);
    if (x->is_background) /* a line of a batch has been let in with it */
        return MR_OK;
    for (int i = 0; i < n; i++)
        n_token += request[i].n_prompt;
    MR_TRY(api_key_enter(x->key, n_token, clock_us(), retry_after_ms, err));
    x->has_entered = true;
    return MR_OK;
}

static enum mr_status submit_all(struct exchange *x, const struct mr_request *request, int n, struct mr_error *err)
{
    const int32_t n_retry = count_retries(x);
    for (int i = 0; i < n; i++) {
        struct mr_request r = request[i];
        r.key = x->key != NULL ? x->key->id : 0;
        r.arrival_us = x->times.arrival_us;
        r.n_retry = n_retry;
        r.background = x->is_background;
        MR_TRY(engine_link_submit(x->model->engine, x->serial << DISPATCH_REQUEST_BITS | (unsigned)i, &r, err));
        exchange_report_begin(x, i, &r);
        x->n_request = i + 1;
        x->n_open += r.n;
    }
    return MR_OK;
}

/* The lock is held. */
static enum mr_status generate(struct exchange *x, const struct mr_request *request, int n, int64_t *retry_after_ms,
                               struct mr_error *err)
{
    if (n < 1 || n > EXCHANGE_REQUESTS_MAX)
        return mr_fail(err, MR_BAD_INPUT, "%d prompts, must be from 1 to %d", n, EXCHANGE_REQUESTS_MAX);
    MR_TRY(enter(x, request, n, retry_after_ms, err));
    MR_TRY(exchange_report_prepare(x, n));
    MR_TRY(dispatch_add(x->server->dispatch, x));
    return submit_all(x, request, n, err);
}

void exchange_generate(struct exchange *x, struct hosted_model *model, const struct mr_request *request, int n,
                       const struct responder *responder, void *self)
{
    struct mr_error err = {{0}};
    int64_t retry_after_ms = 0;
    pthread_mutex_lock(&x->lock);
    x->responder = *responder;
    x->self = self;
    x->model = model;
    x->is_generating = !x->is_gone;
    x->times.submit_us = x->last_out_us = clock_us();
    const enum mr_status status = x->is_gone ? MR_OK : generate(x, request, n, &retry_after_ms, &err);
    if (status != MR_OK) {
        exchange_report_refused(x, status);
        fail_status(x, status, err.message, retry_after_ms);
    }
    pthread_mutex_unlock(&x->lock);
}
