/* trace_json.c: ExportTraceServiceRequest in protobuf's JSON mapping: ids in hexadecimal digits, 64-bit numbers as text. */
#include "server/trace_json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    KIND_INTERNAL = 1,
    KIND_SERVER = 2,
    STATUS_ERROR = 2
};

static json_t *number(int64_t n)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)n);
    return json_string(text);
}

static void add_text(json_t *attributes, const char *key, const char *value)
{
    json_array_append_new(attributes, json_pack("{s:s, s:{s:s}}", "key", key, "value", "stringValue", value));
}

static void add_number(json_t *attributes, const char *key, int64_t value)
{
    json_array_append_new(attributes, json_pack("{s:s, s:{s:o}}", "key", key, "value", "intValue", number(value)));
}

static json_t *new_span(const struct trace_span *s, const char *parent, const char *name, int kind, int64_t begin_us,
                        int64_t end_us)
{
    char id[17];
    snprintf(id, sizeof id, "%08x%08x", arc4random(), arc4random() | 1);
    json_t *span =
        json_pack("{s:s, s:s, s:s, s:i, s:o, s:o}", "traceId", s->context.trace_id, "spanId", id, "name", name, "kind", kind,
                  "startTimeUnixNano", number(begin_us * 1000), "endTimeUnixNano", number(end_us * 1000));
    if (span != NULL && parent[0] != '\0')
        json_object_set_new(span, "parentSpanId", json_string(parent));
    return span;
}

static void add_attributes(json_t *span, const struct trace_span *s)
{
    json_t *attributes = json_array();
    add_text(attributes, "http.request.method", s->method);
    add_text(attributes, "http.route", s->path);
    add_number(attributes, "http.response.status_code", s->http);
    add_text(attributes, "millrace.request_id", s->request_id);
    if (s->model[0] != '\0') {
        add_text(attributes, "gen_ai.request.model", s->model);
        add_number(attributes, "gen_ai.usage.input_tokens", s->n_prompt);
        add_number(attributes, "gen_ai.usage.output_tokens", s->n_generated);
    }
    json_object_set_new(span, "attributes", attributes);
    if (s->http >= 500)
        json_object_set_new(span, "status", json_pack("{s:i}", "code", STATUS_ERROR));
}

static void add_request(json_t *spans, const struct trace_span *s, int64_t offset_us)
{
    char name[128];
    snprintf(name, sizeof name, "%s %s", s->method, s->path);
    json_t *whole = new_span(s, s->context.parent_id, name, KIND_SERVER, s->begin_us + offset_us, s->end_us + offset_us);
    if (whole == NULL)
        return;
    const char *id = json_string_value(json_object_get(whole, "spanId"));
    int64_t at = s->begin_us + offset_us;
    add_attributes(whole, s);
    json_array_append_new(spans, whole);
    for (int i = 0; i < N_STAGES; i++) {
        if (s->stage_us[i] > 0)
            json_array_append_new(
                spans, new_span(s, id, request_stage_name((enum request_stage)i), KIND_INTERNAL, at, at + s->stage_us[i]));
        at += s->stage_us[i];
    }
}

char *trace_json(const struct trace_span *span, int n, int64_t offset_us, int *n_span)
{
    json_t *spans = json_array(), *attributes = json_array();
    for (int i = 0; i < n; i++)
        add_request(spans, &span[i], offset_us);
    *n_span = (int)json_array_size(spans);
    add_text(attributes, "service.name", "millrace");
    add_text(attributes, "service.version", MILLRACE_VERSION);
    json_t *root = json_pack("{s:[{s:{s:o}, s:[{s:{s:s}, s:o}]}]}", "resourceSpans", "resource", "attributes", attributes,
                             "scopeSpans", "scope", "name", "millrace", "spans", spans);
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}
