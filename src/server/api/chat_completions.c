/* chat_completions.c: POST /v1/chat/completions. */
#include <string.h>

#include "engine/loaded_model.h"
#include "server/api/json_text.h"
#include "server/api/openai.h"
#include "server/api/scores_json.h"
#include "server/api/sse.h"
#include "server/api/usage_json.h"

/* Chunks */

static void open_chunk(const struct job *j, struct string_buffer *out)
{
    string_buffer_printf(out, "data: {\"id\":\"%s\",\"object\":\"chat.completion.chunk\",\"created\":%lld,\"model\":", j->id,
                         (long long)j->created);
    json_text_string(out, j->model_name, strlen(j->model_name));
    string_buffer_puts(out, ",\"system_fingerprint\":\"" SYSTEM_FINGERPRINT "\",\"choices\":[");
}

static void close_chunk(const struct job *j, struct string_buffer *out)
{
    string_buffer_puts(out, j->include_usage ? "],\"usage\":null}\n\n" : "]}\n\n");
}

static void open_delta(const struct job *j, const struct answer *a, struct string_buffer *out)
{
    open_chunk(j, out);
    string_buffer_printf(out, "{\"index\":%d,\"delta\":{", a->index);
}

/* The scores that wait go out with whatever comes next. */
static void write_scores(const struct job *j, struct answer *a, struct string_buffer *out)
{
    string_buffer_puts(out, ",\"logprobs\":");
    if (a->keeps_scores && a->scores.n > 0)
        scores_write_chat(&a->scores, j->model->model->tokenizer, out);
    else
        string_buffer_puts(out, "null");
    token_scores_clear(&a->scores);
}

static void close_delta(const struct job *j, struct answer *a, struct string_buffer *out)
{
    string_buffer_puts(out, "}");
    write_scores(j, a, out);
    string_buffer_puts(out, ",\"finish_reason\":null}");
    close_chunk(j, out);
}

static void begin(struct job *j, struct string_buffer *out)
{
    const bool may_call = j->calls != NULL && mr_calls_constraint(j->calls) != NULL;
    for (int i = 0; i < j->n_answer; i++) {
        open_delta(j, &j->answer[i], out);
        string_buffer_printf(out, "\"role\":\"assistant\",\"content\":%s", may_call ? "null" : "\"\"");
        close_delta(j, &j->answer[i], out);
    }
}

static void write_call(const struct answer *a, const struct mr_piece *p, struct string_buffer *out)
{
    string_buffer_printf(out, "\"tool_calls\":[{\"index\":%d,", p->call);
    if (p->kind == MR_PIECE_CALL) {
        string_buffer_printf(out, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", answer_call_id(a, p->call));
        json_text_string(out, p->text, p->n_text);
        string_buffer_puts(out, ",\"arguments\":\"\"}}]");
    } else {
        string_buffer_puts(out, "\"function\":{\"arguments\":");
        json_text_string(out, p->text, p->n_text);
        string_buffer_puts(out, "}}]");
    }
}

static void write_piece(struct job *j, struct answer *a, const struct mr_piece *p, struct string_buffer *out)
{
    if (p->kind == MR_PIECE_CALL_END)
        return;
    open_delta(j, a, out);
    switch (p->kind) {
    case MR_PIECE_CONTENT:
        string_buffer_puts(out, "\"content\":");
        json_text_string(out, p->text, p->n_text);
        break;
    case MR_PIECE_REASONING:
        string_buffer_puts(out, "\"reasoning_content\":");
        json_text_string(out, p->text, p->n_text);
        string_buffer_puts(out, ",\"reasoning\":");
        json_text_string(out, p->text, p->n_text);
        break;
    default:
        write_call(a, p, out);
    }
    close_delta(j, a, out);
}

static void write_answer_end(struct job *j, struct answer *a, struct string_buffer *out)
{
    open_delta(j, a, out);
    string_buffer_puts(out, "}");
    write_scores(j, a, out);
    string_buffer_printf(out, ",\"finish_reason\":\"%s\"}],\"timings\":", openai_finish(a));
    json_text_value(out, timings_json(j, a));
    string_buffer_puts(out, j->include_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

static void write_end(struct job *j, struct string_buffer *out)
{
    if (j->include_usage) {
        open_chunk(j, out);
        string_buffer_puts(out, "],\"usage\":");
        json_text_value(out, usage_json(j));
        string_buffer_puts(out, "}\n\n");
    }
    string_buffer_puts(out, "data: [DONE]\n\n");
}

/* Whole */

static json_t *text(const struct string_buffer *b) { return json_stringn_nocheck(b->n > 0 ? b->s : "", b->n); }

static json_t *message_json(const struct answer *a)
{
    const bool has_calls = json_array_size(a->calls) > 0;
    json_t *message = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
                                has_calls && a->content.n == 0 ? json_null() : text(&a->content), "refusal");
    if (a->reasoning.n > 0) {
        json_object_set_new(message, "reasoning_content", text(&a->reasoning));
        json_object_set_new(message, "reasoning", text(&a->reasoning));
    }
    if (has_calls)
        json_object_set(message, "tool_calls", a->calls);
    return message;
}

static void write_choice(struct job *j, struct answer *a, struct string_buffer *out)
{
    string_buffer_printf(out, "{\"index\":%d,\"message\":", a->index);
    json_text_value(out, message_json(a));
    string_buffer_puts(out, ",\"logprobs\":");
    if (a->keeps_scores)
        scores_write_chat(&a->scores, j->model->model->tokenizer, out);
    else
        string_buffer_puts(out, "null");
    string_buffer_printf(out, ",\"finish_reason\":\"%s\"}", openai_finish(a));
}

static void write_whole(struct job *j, struct string_buffer *out)
{
    string_buffer_printf(out, "{\"id\":\"%s\",\"object\":\"chat.completion\",\"created\":%lld,\"model\":", j->id,
                         (long long)j->created);
    json_text_string(out, j->model_name, strlen(j->model_name));
    string_buffer_puts(out, ",\"system_fingerprint\":\"" SYSTEM_FINGERPRINT "\",\"choices\":[");
    for (int i = 0; i < j->n_answer; i++) {
        string_buffer_puts(out, i > 0 ? "," : "");
        write_choice(j, &j->answer[i], out);
    }
    string_buffer_puts(out, "],\"usage\":");
    json_text_value(out, usage_json(j));
    if (openai_service_tier(j) != NULL)
        string_buffer_printf(out, ",\"service_tier\":\"%s\"", openai_service_tier(j));
    string_buffer_puts(out, ",\"timings\":");
    json_text_value(out, timings_json(j, &j->answer[0]));
    string_buffer_puts(out, "}");
}

/* Reading */

static void read_logprobs(struct job *j)
{
    int32_t n_top = 0;
    const bool has_top = json_fields_int32(&j->fields, "top_logprobs", 0, MR_TOP_LOGPROBS_MAX, &n_top);
    json_fields_bool(&j->fields, "logprobs", &j->keeps_scores);
    if (has_top && n_top > 0 && !j->keeps_scores)
        json_fields_fail(&j->fields, "top_logprobs", "needs logprobs to be true");
    j->base.sampling.n_logprobs = j->keeps_scores ? n_top : -1;
}

static void read_reasoning_format(struct job *j, bool *keep)
{
    const char *format;
    if (!json_fields_string(&j->fields, "reasoning_format", &format))
        return;
    *keep = strcmp(format, "none") == 0;
    if (!*keep && strcmp(format, "auto") != 0 && strcmp(format, "deepseek") != 0)
        json_fields_fail(&j->fields, "reasoning_format", "must be 'auto', 'deepseek' or 'none'");
}

static void read_chat(struct job *j)
{
    const json_t *tools = NULL;
    bool parallel = true, keep_reasoning = false;
    openai_read_common(j);
    read_logprobs(j);
    read_reasoning_format(j, &keep_reasoning);
    json_fields_array(&j->fields, "tools", &tools);
    json_fields_bool(&j->fields, "parallel_tool_calls", &parallel);
    const char *choice = openai_tool_choice(j);
    json_t *request = openai_chat_request(j);
    job_render_chat(j, request);
    json_decref(request);
    job_set_calls(j, tools, choice, parallel, keep_reasoning);
}

static const struct dialect dialect = {.stream_type = SSE_TYPE,
                                       .keep_alive = SSE_KEEP_ALIVE,
                                       .begin = begin,
                                       .piece = write_piece,
                                       .answer_end = write_answer_end,
                                       .end = write_end,
                                       .whole = write_whole,
                                       .fail = openai_stream_fail};

void openai_chat_completions(struct exchange *x)
{
    struct job *j = job_open(x, &dialect, "chatcmpl-");
    if (j == NULL)
        return;
    read_chat(j);
    job_start(j);
}
