/* responses_stream.c: the events of a response, and its end. */
#include <stdlib.h>
#include <string.h>

#include "server/api/json_text.h"
#include "server/api/responses.h"
#include "server/api/sse.h"

/* Takes the reference; numbers the event. */
static void write_event(struct job *j, struct string_buffer *out, const char *type, json_t *event)
{
    struct response_state *s = j->own;
    json_object_set_new(event, "type", json_string(type));
    json_object_set_new(event, "sequence_number", json_integer(s->sequence++));
    sse_write(out, type, event);
}

static const char *final_status(const struct answer *a) { return a->finish == MR_FINISH_STOP ? "completed" : "incomplete"; }

static void begin(struct job *j, struct string_buffer *out)
{
    write_event(j, out, "response.created",
                json_pack("{s:o}", "response", responses_json(j, "in_progress", json_array(), false)));
    write_event(j, out, "response.in_progress",
                json_pack("{s:o}", "response", responses_json(j, "in_progress", json_array(), false)));
}

static int index_of(const struct response_state *s) { return s->n_item - 1; }

/* The item that is open, as it stands. */
static json_t *open_item(const struct job *j, const struct answer *a, const char *status)
{
    json_t *items = responses_items(j, a, status), *item = json_array_get(items, (size_t)index_of(j->own));
    json_incref(item);
    json_decref(items);
    return item;
}

static json_t *item_id(const struct job *j)
{
    static const char *const prefix[] = {[MR_PIECE_CONTENT] = "msg", [MR_PIECE_REASONING] = "rs", [MR_PIECE_CALL] = "fc"};
    const struct response_state *s = j->own;
    char id[96];
    responses_item_id(j, prefix[s->open], index_of(s), id);
    return json_string(id);
}

/* {item_id, output_index, content_index} */
static json_t *place(const struct job *j)
{
    return json_pack("{s:o, s:i, s:i}", "item_id", item_id(j), "output_index", index_of(j->own), "content_index", 0);
}

static json_t *part(enum mr_piece_kind kind, const struct string_buffer *b)
{
    json_t *text = json_stringn_nocheck(b != NULL && b->n > 0 ? b->s : "", b != NULL ? b->n : 0);
    return kind == MR_PIECE_CONTENT
               ? json_pack("{s:s, s:o, s:[], s:[]}", "type", "output_text", "text", text, "annotations", "logprobs")
               : json_pack("{s:s, s:o}", "type", "reasoning_text", "text", text);
}

static void close_text(struct job *j, struct answer *a, struct string_buffer *out)
{
    const struct response_state *s = j->own;
    const bool is_content = s->open == MR_PIECE_CONTENT;
    const struct string_buffer *text = is_content ? &a->content : &a->reasoning;
    json_t *done = place(j), *ended = place(j);
    json_object_set_new(done, "text", json_stringn_nocheck(text->n > 0 ? text->s : "", text->n));
    if (is_content)
        json_object_set_new(done, "logprobs", json_array());
    write_event(j, out, is_content ? "response.output_text.done" : "response.reasoning_text.done", done);
    json_object_set_new(ended, "part", part(s->open, text));
    write_event(j, out, "response.content_part.done", ended);
}

static void close_item(struct job *j, struct answer *a, const char *status, struct string_buffer *out)
{
    struct response_state *s = j->own;
    if (!s->is_open)
        return;
    json_t *item = open_item(j, a, status);
    if (s->open == MR_PIECE_CALL)
        write_event(j, out, "response.function_call_arguments.done",
                    json_pack("{s:o, s:i, s:O, s:O}", "item_id", item_id(j), "output_index", index_of(s), "name",
                              json_object_get(item, "name"), "arguments", json_object_get(item, "arguments")));
    else
        close_text(j, a, out);
    write_event(j, out, "response.output_item.done", json_pack("{s:i, s:o}", "output_index", index_of(s), "item", item));
    s->is_open = false;
}

/* The item without what its pieces will bring. */
static json_t *empty_item(const struct job *j, const struct answer *a, const struct mr_piece *p)
{
    if (p->kind == MR_PIECE_CONTENT)
        return json_pack("{s:o, s:s, s:s, s:s, s:[]}", "id", item_id(j), "type", "message", "status", "in_progress", "role",
                         "assistant", "content");
    if (p->kind == MR_PIECE_REASONING)
        return json_pack("{s:o, s:s, s:s, s:[], s:[]}", "id", item_id(j), "type", "reasoning", "status", "in_progress",
                         "summary", "content");
    return json_pack("{s:o, s:s, s:s, s:s, s:s, s:s}", "id", item_id(j), "type", "function_call", "status", "in_progress",
                     "call_id", answer_call_id(a, p->call), "name", answer_call_name(a, p->call), "arguments", "");
}

static void open_new(struct job *j, struct answer *a, const struct mr_piece *p, struct string_buffer *out)
{
    struct response_state *s = j->own;
    s->n_item++;
    s->is_open = true;
    s->open = p->kind;
    write_event(j, out, "response.output_item.added",
                json_pack("{s:i, s:o}", "output_index", index_of(s), "item", empty_item(j, a, p)));
    if (p->kind == MR_PIECE_CALL)
        return;
    json_t *event = place(j);
    json_object_set_new(event, "part", part(p->kind, NULL));
    write_event(j, out, "response.content_part.added", event);
}

static void write_piece(struct job *j, struct answer *a, const struct mr_piece *p, struct string_buffer *out)
{
    static const char *const delta[] = {[MR_PIECE_CONTENT] = "response.output_text.delta",
                                        [MR_PIECE_REASONING] = "response.reasoning_text.delta",
                                        [MR_PIECE_ARGUMENTS] = "response.function_call_arguments.delta"};
    const struct response_state *s = j->own;
    if (p->kind == MR_PIECE_CALL_END) {
        close_item(j, a, "completed", out);
        return;
    }
    if (s->is_open && p->kind != MR_PIECE_ARGUMENTS && (s->open != p->kind || p->kind == MR_PIECE_CALL))
        close_item(j, a, "completed", out);
    if (!s->is_open)
        open_new(j, a, p, out);
    if (p->kind == MR_PIECE_CALL)
        return;
    json_t *event = place(j);
    json_object_set_new(event, "delta", json_stringn_nocheck(p->text, p->n_text));
    if (p->kind == MR_PIECE_CONTENT)
        json_object_set_new(event, "logprobs", json_array());
    if (p->kind == MR_PIECE_ARGUMENTS)
        json_object_del(event, "content_index");
    write_event(j, out, delta[p->kind], event);
}

static void write_answer_end(struct job *j, struct answer *a, struct string_buffer *out)
{
    close_item(j, a, final_status(a), out);
}

/* What a later request goes on from: the input and the answer. */
static char *conversation(const struct job *j, const struct answer *a)
{
    const struct response_state *s = j->own;
    json_t *messages = json_copy(s->messages);
    json_t *turn = json_pack("{s:s, s:o}", "role", "assistant", "content",
                             json_stringn_nocheck(a->content.n > 0 ? a->content.s : "", a->content.n));
    if (json_array_size(a->calls) > 0)
        json_object_set(turn, "tool_calls", a->calls);
    json_array_append_new(messages, turn);
    char *text = messages != NULL ? json_dumps(messages, JSON_COMPACT) : NULL;
    json_decref(messages);
    return text;
}

/* The whole response, which is kept where it should be. Takes no reference. */
static json_t *finish(struct job *j)
{
    struct response_state *s = j->own;
    const struct answer *a = &j->answer[0];
    const char *status = final_status(a);
    json_t *response = responses_json(j, status, responses_items(j, a, status), true);
    if (s->stored == NULL)
        return response;
    char *text = response != NULL ? json_dumps(response, JSON_COMPACT) : NULL, *turns = conversation(j, a);
    if (text != NULL && turns != NULL)
        stored_responses_finish(exchange_server(j->x)->responses, s->stored, text, turns);
    free(text);
    free(turns);
    return response;
}

static void write_end(struct job *j, struct string_buffer *out)
{
    const bool is_complete = j->answer[0].finish == MR_FINISH_STOP;
    write_event(j, out, is_complete ? "response.completed" : "response.incomplete", json_pack("{s:o}", "response", finish(j)));
}

static void write_whole(struct job *j, struct string_buffer *out) { json_text_value(out, finish(j)); }

/* Of one in the background: its place in the queue has come. */
static void started(struct job *j)
{
    const struct response_state *s = j->own;
    char *text = s->is_background ? responses_text(j, "in_progress") : NULL;
    if (text != NULL)
        stored_responses_update(exchange_server(j->x)->responses, s->stored, text, false);
    free(text);
}

/* One in the background tells whoever asks for it. */
static void refused(struct job *j, const struct api_error *e)
{
    const struct response_state *s = j->own;
    json_t *response = s->is_background ? responses_json(j, "failed", json_array(), false) : NULL;
    if (response == NULL)
        return;
    json_object_set_new(
        response, "error",
        json_pack("{s:s, s:s}", "code", e->http == 429 ? "rate_limit_exceeded" : "server_error", "message", e->message));
    char *text = json_dumps(response, JSON_COMPACT);
    if (text != NULL)
        stored_responses_update(exchange_server(j->x)->responses, s->stored, text, true);
    free(text);
    json_decref(response);
}

static void fail(struct job *j, const struct api_error *e, struct string_buffer *out)
{
    const bool is_cancelled = stored_response_is_cancelled(((const struct response_state *)j->own)->stored);
    json_t *response = responses_json(j, is_cancelled ? "cancelled" : "failed", json_array(), false);
    json_object_set_new(response, "error", json_pack("{s:s, s:s}", "code", "server_error", "message", e->message));
    write_event(j, out, "response.failed", json_pack("{s:o}", "response", response));
}

static bool is_cancelled(const struct job *j)
{
    return stored_response_is_cancelled(((const struct response_state *)j->own)->stored);
}

static void release(struct job *j)
{
    struct response_state *s = j->own;
    if (s == NULL)
        return;
    stored_response_drop(exchange_server(j->x)->responses, s->stored);
    json_decref(s->messages);
    json_decref(s->tools);
}

const struct dialect responses_dialect = {.stream_type = SSE_TYPE,
                                          .keep_alive = SSE_KEEP_ALIVE,
                                          .keeps_text = true,
                                          .begin = begin,
                                          .piece = write_piece,
                                          .answer_end = write_answer_end,
                                          .end = write_end,
                                          .whole = write_whole,
                                          .started = started,
                                          .refused = refused,
                                          .fail = fail,
                                          .is_cancelled = is_cancelled,
                                          .release = release};
