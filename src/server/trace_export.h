/* trace_export.h: spans of requests, sent to a collector by OTLP over HTTP in its JSON form (OpenTelemetry protocol 1.x). One
 * span for a request and one for each stage of it that took time. A thread of its own sends them; what the collector does not
 * take in time is dropped and counted, and no request ever waits. Threads: any. */
#ifndef SERVER_TRACE_EXPORT_H
#define SERVER_TRACE_EXPORT_H

#include "server/metrics.h"

struct trace_export;

/* Who asked, by W3C Trace Context (level 1): hexadecimal digits. */
struct trace_context {
    char trace_id[33], parent_id[17]; /* parent_id "": none */
    bool is_sampled;
};

/* Of a traceparent header; NULL, or one that is not right: a new trace, which is sampled. */
void trace_context_read(struct trace_context *out, const char *traceparent);

struct trace_span {
    struct trace_context context;
    const char *method, *path; /* of the endpoint table: strings that stay */
    char request_id[72], model[128];
    int http;
    int64_t begin_us, end_us; /* by clock_us */
    int64_t stage_us[N_STAGES];
    int64_t n_prompt, n_generated;
};

/* url: of the collector; "/v1/traces" is added where it does not end so. BAD_INPUT: it is none. metrics: borrowed; counts what
 * was sent and dropped. */
enum mr_status trace_export_create(struct trace_export **out, const char *url, struct metrics *metrics, struct mr_error *err);
/* Tries for two seconds to send what waits; takes NULL. */
void trace_export_free(struct trace_export *t);

/* A copy waits to be sent; spans that are not sampled are let be. */
void trace_export_add(struct trace_export *t, const struct trace_span *span);

#endif
