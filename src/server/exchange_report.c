/* exchange_report.c: what an exchange tells the metrics and the board of slots. */
#include "server/exchange_report.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/metrics.h"
#include "server/server.h"
#include "server/settings.h"
#include "server/slot_board.h"
#include "server/trace_export.h"

enum mr_status exchange_report_prepare(struct exchange *x, int n)
{
    x->life = mem_zero_array((size_t)n, sizeof *x->life);
    x->slot = mem_zero_array((size_t)n, sizeof(struct slot_task *));
    return x->life != NULL && x->slot != NULL ? MR_OK : MR_NO_MEMORY;
}

static bool is_speculative(const struct exchange *x, const struct mr_request *r)
{
    const int32_t wanted =
        r->speculation != MR_SPECULATION_AUTO ? (int32_t)r->speculation : x->server->settings->engine.speculation;
    return wanted != MR_SPECULATION_OFF && wanted != MR_SPECULATION_NONE;
}

void exchange_report_begin(struct exchange *x, int i, const struct mr_request *request)
{
    x->life[i] = (struct request_life){.begin_us = x->times.begin_us,
                                       .arrival_us = x->times.arrival_us,
                                       .submit_us = clock_us(),
                                       .loading_us = x->loading_us,
                                       .n_answers = request->n};
    metrics_request_begin(x->model->metrics, &x->life[i]);
    if (!x->is_background)
        x->slot[i] = slot_task_begin(x->model->slots, request, x->responder.is_stream, is_speculative(x, request));
}

void exchange_report_event(struct exchange *x, int i, const struct mr_event *event)
{
    metrics_event(x->model->metrics, &x->life[i], event);
    slot_task_event(x->slot[i], event);
}

void exchange_report_refused(struct exchange *x, enum mr_status status)
{
    if (status == MR_BUSY || status == MR_FULL)
        metrics_turned_away(x->model->metrics, OUTCOME_REFUSED);
    else
        metrics_turned_away(x->model->metrics, status == MR_NO_MEMORY ? OUTCOME_OUT_OF_MEMORY : OUTCOME_REJECTED);
}

void exchange_report_first_byte(struct exchange *x)
{
    if (x->times.first_byte_us != 0)
        return;
    x->times.first_byte_us = clock_us();
    for (int i = 0; i < x->n_request; i++)
        metrics_first_byte(x->model->metrics, &x->life[i]);
}

static void trace(struct exchange *x, const struct endpoint *e)
{
    struct trace_span span = {.method = e->method,
                              .path = e->path,
                              .http = x->http,
                              .begin_us = x->times.begin_us,
                              .end_us = clock_us(),
                              .n_prompt = x->usage.n_prompt,
                              .n_generated = x->usage.n_generated};
    trace_context_read(&span.context, x->traceparent);
    snprintf(span.request_id, sizeof span.request_id, "%s", x->id);
    if (x->model != NULL)
        snprintf(span.model, sizeof span.model, "%.120s", x->model->name);
    if (x->n_request > 0)
        request_life_stages(&x->life[0], span.end_us, span.stage_us);
    trace_export_add(x->server->traces, &span);
}

bool exchange_stages(const struct exchange *x, int i, int64_t stage_us[N_STAGES])
{
    if (i < 0 || i >= x->n_request)
        return false;
    request_life_stages(&x->life[i], clock_us(), stage_us);
    return true;
}

void exchange_report_answers(struct exchange *x)
{
    for (int i = 0; i < x->n_request; i++) {
        metrics_request_end(x->model->metrics, &x->life[i]);
        slot_task_end(x->slot[i]);
        x->slot[i] = NULL;
    }
}

void exchange_report_done(struct exchange *x)
{
    static const struct endpoint none = {.method = "", .path = ""};
    const struct endpoint *e = x->route.endpoint != NULL ? x->route.endpoint : &none; /* its texts are kept */
    exchange_report_answers(x);
    if (x->server->traces != NULL && strcmp(e->method, "POST") == 0)
        trace(x, e);
    metrics_http(x->server->metrics, e->method, e->path, x->http, x->body.n + x->n_uploaded + x->n_discarded,
                 (size_t)x->n_sent);
}
