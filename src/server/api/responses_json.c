/* responses_json.c: the response object and its items. */
#include <stdio.h>
#include <string.h>

#include "server/api/responses.h"
#include "base/number_text.h"
#include "server/api/usage_json.h"

void responses_item_id(const struct job *j, const char *prefix, int index, char out[96])
{
    snprintf(out, 96, "%s_%.40s%02d", prefix, j->id + strlen("resp_"), index);
}

static json_t *text(const struct string_buffer *b) { return json_stringn_nocheck(b->n > 0 ? b->s : "", b->n); }

static json_t *call_item(const struct job *j, const json_t *call, int index, const char *status)
{
    const json_t *f = json_object_get(call, "function");
    char id[96];
    responses_item_id(j, "fc", index, id);
    return json_pack("{s:s, s:s, s:s, s:O, s:O, s:O}", "id", id, "type", "function_call", "status", status, "call_id",
                     json_object_get(call, "id"), "name", json_object_get(f, "name"), "arguments",
                     json_object_get(f, "arguments"));
}

json_t *responses_items(const struct job *j, const struct answer *a, const char *status)
{
    json_t *items = json_array();
    const size_t n_call = json_array_size(a->calls);
    char id[96];
    if (a->reasoning.n > 0) {
        responses_item_id(j, "rs", (int)json_array_size(items), id);
        json_array_append_new(items, json_pack("{s:s, s:s, s:[], s:[{s:s, s:o}], s:s}", "id", id, "type", "reasoning",
                                               "summary", "content", "type", "reasoning_text", "text", text(&a->reasoning),
                                               "status", a->content.n > 0 || n_call > 0 ? "completed" : status));
    }
    if (a->content.n > 0) {
        responses_item_id(j, "msg", (int)json_array_size(items), id);
        json_array_append_new(items, json_pack("{s:s, s:s, s:s, s:s, s:[{s:s, s:o, s:[], s:[]}]}", "id", id, "type", "message",
                                               "status", n_call > 0 ? "completed" : status, "role", "assistant", "content",
                                               "type", "output_text", "text", text(&a->content), "annotations", "logprobs"));
    }
    for (size_t i = 0; i < n_call; i++)
        json_array_append_new(items, call_item(j, json_array_get(a->calls, i), (int)json_array_size(items),
                                               i + 1 < n_call ? "completed" : status));
    return items;
}

/* A member of the body, or null. */
static json_t *echo(const struct job *j, const char *name)
{
    json_t *v = json_object_get(j->body, name);
    return v != NULL ? json_incref(v) : json_null();
}

static json_t *usage(const struct job *j)
{
    const struct usage_sum s = usage_sum(j);
    return json_pack("{s:I, s:{s:I}, s:I, s:{s:I}, s:I}", "input_tokens", s.n_prompt, "input_tokens_details", "cached_tokens",
                     s.n_cached, "output_tokens", s.n_generated, "output_tokens_details", "reasoning_tokens", s.n_reasoning,
                     "total_tokens", s.n_prompt + s.n_generated);
}

static void set_echoes(const struct job *j, json_t *r)
{
    static const char *const names[] = {"instructions", "max_output_tokens", "previous_response_id", "user", "metadata"};
    const json_t *tools = json_object_get(j->body, "tools"), *choice = json_object_get(j->body, "tool_choice");
    const json_t *format = json_object_get(j->body, "text"), *store = json_object_get(j->body, "store");
    const json_t *parallel = json_object_get(j->body, "parallel_tool_calls");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        json_object_set_new(r, names[i], echo(j, names[i]));
    if (json_is_null(json_object_get(r, "metadata")))
        json_object_set_new(r, "metadata", json_object());
    json_object_set_new(r, "tools", json_is_array(tools) ? json_deep_copy(tools) : json_array());
    json_object_set_new(r, "tool_choice",
                        choice != NULL && !json_is_null(choice) ? json_deep_copy(choice) : json_string("auto"));
    json_object_set_new(r, "parallel_tool_calls", json_boolean(!json_is_false(parallel)));
    json_object_set_new(r, "store", json_boolean(!json_is_false(store)));
    json_object_set_new(r, "text",
                        json_is_object(json_object_get(format, "format")) ? json_deep_copy(format)
                                                                          : json_pack("{s:{s:s}}", "format", "type", "text"));
}

json_t *responses_json(const struct job *j, const char *status, json_t *output, bool with_usage)
{
    json_t *r = json_pack("{s:s, s:s, s:I, s:s, s:b, s:n, s:n, s:s, s:o, s:f, s:f, s:s}", "id", j->id, "object", "response",
                          "created_at", (json_int_t)j->created, "status", status, "background",
                          (int)((const struct response_state *)j->own)->is_background, "error", "incomplete_details", "model",
                          j->model_name, "output", output, "temperature", number_short(j->base.sampling.temperature), "top_p",
                          number_short(j->base.sampling.top_p), "truncation", "disabled");
    if (r == NULL)
        return NULL;
    set_echoes(j, r);
    json_object_set_new(
        r, "reasoning",
        json_pack("{s:O?, s:n}", "effort", json_object_get(json_object_get(j->body, "reasoning"), "effort"), "summary"));
    json_object_set_new(r, "usage", with_usage ? usage(j) : json_null());
    if (strcmp(status, "incomplete") == 0)
        json_object_set_new(r, "incomplete_details", json_pack("{s:s}", "reason", "max_output_tokens"));
    return r;
}

char *responses_text(const struct job *j, const char *status)
{
    json_t *r = responses_json(j, status, json_array(), false);
    char *text = r != NULL ? json_dumps(r, JSON_COMPACT) : NULL;
    json_decref(r);
    return text;
}
