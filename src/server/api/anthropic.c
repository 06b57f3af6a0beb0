/* anthropic.c: Anthropic's messages: the reply. */
#include "server/api/anthropic.h"

#include <string.h>

#include "engine/loaded_model.h"
#include "server/api/json_text.h"
#include "server/api/sampling_fields.h"
#include "server/api/sse.h"
#include "server/api/usage_json.h"

/* The content block of a stream that is open. */
struct own {
    int n_block;
    enum mr_piece_kind open; /* of its pieces */
    bool is_open;
};

static const char *stop_reason(const struct job *j, const struct answer *a)
{
    if (answer_has_called(a))
        return "tool_use";
    if (a->finish != MR_FINISH_STOP)
        return "max_tokens";
    return answer_stop_word(a, j->base.stop, j->base.n_stop) != NULL ? "stop_sequence" : "end_turn";
}

static json_t *usage(const struct job *j)
{
    const struct usage_sum s = usage_sum(j);
    return json_pack("{s:I, s:i, s:I, s:I}", "input_tokens", s.n_prompt - s.n_cached, "cache_creation_input_tokens", 0,
                     "cache_read_input_tokens", s.n_cached, "output_tokens", s.n_generated);
}

static json_t *message_json(const struct job *j, json_t *content, json_t *used)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:n, s:n, s:o}", "id", j->id, "type", "message", "role", "assistant", "model",
                     j->model_name, "content", content, "stop_reason", "stop_sequence", "usage", used);
}

static void begin(struct job *j, struct string_buffer *out)
{
    json_t *used = json_pack("{s:I, s:i, s:i, s:i}", "input_tokens", (json_int_t)j->prompt[0].n, "cache_creation_input_tokens",
                             0, "cache_read_input_tokens", 0, "output_tokens", 0);
    sse_write(out, "message_start",
              json_pack("{s:s, s:o}", "type", "message_start", "message", message_json(j, json_array(), used)));
}

static void close_block(struct own *own, struct string_buffer *out)
{
    if (!own->is_open)
        return;
    sse_write(out, "content_block_stop", json_pack("{s:s, s:i}", "type", "content_block_stop", "index", own->n_block - 1));
    own->is_open = false;
}

static json_t *new_block(const struct answer *a, const struct mr_piece *p)
{
    if (p->kind == MR_PIECE_CONTENT)
        return json_pack("{s:s, s:s}", "type", "text", "text", "");
    if (p->kind == MR_PIECE_REASONING)
        return json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", "");
    return json_pack("{s:s, s:s, s:s, s:{}}", "type", "tool_use", "id", answer_call_id(a, p->call), "name",
                     answer_call_name(a, p->call), "input");
}

static void write_piece(struct job *j, struct answer *a, const struct mr_piece *p, struct string_buffer *out)
{
    static const char *const delta[][2] = {[MR_PIECE_CONTENT] = {"text_delta", "text"},
                                           [MR_PIECE_REASONING] = {"thinking_delta", "thinking"},
                                           [MR_PIECE_ARGUMENTS] = {"input_json_delta", "partial_json"}};
    struct own *own = j->own;
    const bool goes_on = own->is_open && own->open == (p->kind == MR_PIECE_ARGUMENTS ? MR_PIECE_CALL : p->kind);
    if (p->kind == MR_PIECE_CALL_END || p->kind == MR_PIECE_CALL || !goes_on)
        close_block(own, out);
    if (p->kind == MR_PIECE_CALL_END)
        return;
    if (!own->is_open) {
        sse_write(out, "content_block_start",
                  json_pack("{s:s, s:i, s:o}", "type", "content_block_start", "index", own->n_block++, "content_block",
                            new_block(a, p)));
        own->is_open = true;
        own->open = p->kind;
    }
    if (p->kind == MR_PIECE_CALL)
        return;
    sse_write(out, "content_block_delta",
              json_pack("{s:s, s:i, s:{s:s, s:s%}}", "type", "content_block_delta", "index", own->n_block - 1, "delta", "type",
                        delta[p->kind][0], delta[p->kind][1], p->text, p->n_text));
}

static void write_answer_end(struct job *j, struct answer *a, struct string_buffer *out)
{
    close_block(j->own, out);
    sse_write(out, "message_delta",
              json_pack("{s:s, s:{s:s, s:s?}, s:o}", "type", "message_delta", "delta", "stop_reason", stop_reason(j, a),
                        "stop_sequence", answer_stop_word(a, j->base.stop, j->base.n_stop), "usage", usage(j)));
}

static void write_end(struct job *j, struct string_buffer *out)
{
    (void)j;
    sse_write(out, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

static json_t *call_block(const json_t *call)
{
    const json_t *f = json_object_get(call, "function"), *arguments = json_object_get(f, "arguments");
    json_t *input = json_loadb(json_string_value(arguments), json_string_length(arguments), JSON_ALLOW_NUL, NULL);
    if (!json_is_object(input)) { /* it was cut */
        json_decref(input);
        return NULL;
    }
    return json_pack("{s:s, s:O, s:O, s:o}", "type", "tool_use", "id", json_object_get(call, "id"), "name",
                     json_object_get(f, "name"), "input", input);
}

static json_t *blocks_json(const struct answer *a)
{
    json_t *blocks = json_array();
    if (a->reasoning.n > 0)
        json_array_append_new(blocks, json_pack("{s:s, s:s%, s:s}", "type", "thinking", "thinking", a->reasoning.s,
                                                a->reasoning.n, "signature", ""));
    if (a->content.n > 0)
        json_array_append_new(blocks, json_pack("{s:s, s:s%}", "type", "text", "text", a->content.s, a->content.n));
    for (size_t i = 0; i < json_array_size(a->calls); i++) {
        json_t *block = call_block(json_array_get(a->calls, i));
        if (block != NULL)
            json_array_append_new(blocks, block);
    }
    return blocks;
}

static void write_whole(struct job *j, struct string_buffer *out)
{
    const struct answer *a = &j->answer[0];
    const char *word = answer_stop_word(a, j->base.stop, j->base.n_stop);
    json_t *message = message_json(j, blocks_json(a), usage(j));
    json_object_set_new(message, "stop_reason", json_string(stop_reason(j, a)));
    if (word != NULL)
        json_object_set_new(message, "stop_sequence", json_string(word));
    json_text_value(out, message);
}

static json_t *error_json(const struct api_error *e)
{
    static const struct {
        int http;
        const char *type;
    } known[] = {{401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
                 {413, "request_too_large"},    {429, "rate_limit_error"}, {503, "overloaded_error"}};
    const char *type = e->http >= 500 ? "api_error" : "invalid_request_error";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].http == e->http)
            type = known[i].type;
    return json_pack("{s:s, s:{s:s, s:s}}", "type", "error", "error", "type", type, "message", e->message);
}

void anthropic_write_error(const struct api_error *e, struct string_buffer *out) { json_text_value(out, error_json(e)); }

static void fail(struct job *j, const struct api_error *e, struct string_buffer *out)
{
    (void)j;
    sse_write(out, "error", error_json(e));
}

static void read_fields(struct job *j)
{
    const char *tier;
    json_fields_float(&j->fields, "temperature", 0, 100, &j->base.sampling.temperature);
    json_fields_float(&j->fields, "top_p", 0, 1, &j->base.sampling.top_p);
    json_fields_int32(&j->fields, "top_k", 0, INT32_MAX, &j->base.sampling.top_k);
    string_list_read(&j->fields, "stop_sequences", MR_STOP_MAX, MR_STOP_BYTES_MAX, &j->arena, &j->base.stop, &j->base.n_stop);
    json_fields_bool(&j->fields, "stream", &j->stream);
    json_fields_string(&j->fields, "service_tier", &tier);
    sampling_read_seed(&j->fields, &j->base);
    if (!json_fields_int32(&j->fields, "max_tokens", 1, INT32_MAX, &j->base.max_tokens))
        json_fields_fail(&j->fields, "max_tokens", "is missing");
    j->keeps_raw = true;
}

static const struct dialect dialect = {.stream_type = SSE_TYPE,
                                       .keep_alive = "event: ping\ndata: {\"type\": \"ping\"}\n\n",
                                       .begin = begin,
                                       .piece = write_piece,
                                       .answer_end = write_answer_end,
                                       .end = write_end,
                                       .whole = write_whole,
                                       .fail = fail};

void anthropic_messages(struct exchange *x)
{
    struct job *j = job_open(x, &dialect, "msg_");
    if (j == NULL)
        return;
    j->own = job_alloc(j, sizeof(struct own));
    read_fields(j);
    anthropic_read_chat(j);
    job_start(j);
}

void anthropic_count_tokens(struct exchange *x)
{
    struct job *j = job_open(x, &dialect, "msg_");
    if (j == NULL)
        return;
    anthropic_read_chat(j);
    if (j->error.http != 0) {
        job_fail(j);
        return;
    }
    exchange_reply_json(x, 200, json_pack("{s:I}", "input_tokens", (json_int_t)j->prompt[0].n));
    job_free(j);
}
