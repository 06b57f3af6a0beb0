/* responses.c: POST /v1/responses, and what is asked of one by its id. */
#include "server/api/responses.h"

#include <stdlib.h>
#include <string.h>

#include "engine/loaded_model.h"
#include "server/api/sampling_fields.h"
#include "server/api_error.h"
#include "server/exchange_detach.h"
#include "server/keys.h"

uint64_t responses_key(const struct exchange *x)
{
    const struct api_key *key = exchange_key(x);
    return key != NULL ? key->id : 0;
}

/* text.format: as response_format, without its wrapper. */
static void read_format(struct job *j)
{
    struct json_fields text, format;
    const char *type = NULL;
    if (!json_fields_object(&j->fields, "text", "text", &text) || !json_fields_object(&text, "format", "text.format", &format))
        return;
    json_fields_string(&format, "type", &type);
    if (type != NULL && strcmp(type, "json_schema") == 0)
        constraint_set_schema(&format, "schema", json_object_get(format.object, "schema"), &j->arena, &j->base);
    else if (type != NULL && strcmp(type, "json_object") == 0)
        j->base.constraint = MR_CONSTRAINT_JSON_OBJECT;
    else if (type == NULL || strcmp(type, "text") != 0)
        json_fields_fail(&format, "type", "must be 'text', 'json_object' or 'json_schema'");
    if (j->base.constraint != MR_CONSTRAINT_NONE)
        j->constraint = "text.format";
}

/* background: it is kept, and asked for by its id. */
static void read_background(struct job *j, struct response_state *state)
{
    bool store = true;
    json_fields_bool(&j->fields, "store", &store);
    json_fields_bool(&j->fields, "background", &state->is_background);
    if (state->is_background && j->stream)
        json_fields_fail(&j->fields, "stream", "and background exclude each other here: ask for the response by its id");
    if (state->is_background && !store)
        json_fields_fail(&j->fields, "store", "must be true with background: else nobody could ask for the response");
}

static void read_fields(struct job *j, struct response_state *state)
{
    const char *truncation = NULL;
    sampling_fields_read(&j->fields, j->model->model->tokenizer, &j->arena, &j->base);
    json_fields_int32(&j->fields, "max_output_tokens", 1, INT32_MAX, &j->base.max_tokens);
    json_fields_bool(&j->fields, "stream", &j->stream);
    read_background(j, state);
    if (json_fields_string(&j->fields, "truncation", &truncation) && strcmp(truncation, "disabled") != 0)
        json_fields_fail(&j->fields, "truncation", "must be 'disabled': nothing is cut in silence");
    if (j->base.n != 1 || j->base.best_of > 1)
        json_fields_fail(&j->fields, "n", "must be 1");
    j->base.prompt_logprobs = -1;
    read_format(j);
}

/* Unless the client wants none: others can ask for it while it runs. */
static void store(struct job *j, struct response_state *state)
{
    bool wanted = true;
    json_fields_bool(&j->fields, "store", &wanted);
    if (!wanted || j->error.http != 0)
        return;
    char *text = responses_text(j, state->is_background ? "queued" : "in_progress");
    if (text != NULL)
        state->stored = stored_responses_begin(exchange_server(j->x)->responses, j->id, responses_key(j->x), text);
    if (state->stored == NULL)
        api_error_at(&j->error, 503, "", "no memory for the response");
    free(text);
}

/* Reply at once; the answer comes to where it is kept. */
static void start_background(struct job *j)
{
    struct exchange *x = j->x;
    struct stored_responses *stored = exchange_server(x)->responses;
    json_t *reply = responses_json(j, "queued", json_array(), false);
    struct exchange *detached = reply != NULL ? exchange_detach(x) : NULL;
    char id[sizeof j->id];
    memcpy(id, j->id, sizeof id);
    if (detached == NULL) {
        api_error_at(&j->error, 503, "", "no memory for the response");
        job_fail(j);
        json_decref(reply);
        return;
    }
    j->x = detached;
    job_start(j);
    const uint64_t ticket = exchange_detach_end(detached, x);
    if (ticket != 0) {
        stored_responses_set_ticket(stored, id, responses_key(x), ticket);
        exchange_reply_json(x, 200, reply);
    } else {
        uint64_t none;
        stored_responses_delete(stored, id, responses_key(x), &none);
        json_decref(reply);
    }
}

void responses_create(struct exchange *x)
{
    struct job *j = job_open(x, &responses_dialect, "resp_");
    if (j == NULL)
        return;
    struct response_state *state = job_alloc(j, sizeof *state);
    j->own = state;
    if (state != NULL) {
        read_fields(j, state);
        responses_read_chat(j, state);
        job_check_context(j);
        store(j, state);
    }
    if (j->error.http == 0 && state->is_background)
        start_background(j);
    else
        job_start(j);
}

static void fail_missing(struct exchange *x, const char *id)
{
    struct api_error e;
    api_error_set(&e, 404, "the response '%.80s' is not stored here", id);
    exchange_fail(x, &e);
}

void responses_get(struct exchange *x)
{
    const char *id = exchange_parameter(x, "id");
    struct string_buffer text;
    string_buffer_init(&text);
    if (stored_responses_get(exchange_server(x)->responses, id, responses_key(x), &text))
        exchange_reply(x, 200, "application/json", text.s, text.n);
    else
        fail_missing(x, id);
    string_buffer_release(&text);
}

/* The text of the response with status "cancelled"; NULL: no memory. */
static char *cancelled_text(const struct string_buffer *text)
{
    json_error_t why;
    json_t *response = json_loadb(text->s, text->n, JSON_ALLOW_NUL, &why);
    json_object_set_new(response, "status", json_string("cancelled"));
    char *cancelled = json_dumps(response, JSON_COMPACT);
    json_decref(response);
    return cancelled;
}

/* One that runs ends before its next token; one that has ended stays as it is. */
void responses_cancel(struct exchange *x)
{
    const char *id = exchange_parameter(x, "id");
    struct stored_responses *s = exchange_server(x)->responses;
    struct string_buffer text;
    char *cancelled = NULL;
    bool was_running = false;
    uint64_t ticket = 0;
    string_buffer_init(&text);
    if (!stored_responses_get(s, id, responses_key(x), &text))
        fail_missing(x, id);
    else if ((cancelled = cancelled_text(&text)) == NULL)
        exchange_fail_status(x, MR_NO_MEMORY, NULL);
    else if (!stored_responses_cancel(s, id, responses_key(x), cancelled, &was_running, &ticket))
        fail_missing(x, id);
    else
        exchange_reply(x, 200, "application/json", was_running ? cancelled : text.s, was_running ? strlen(cancelled) : text.n);
    exchange_detach_cancel(exchange_server(x), ticket);
    string_buffer_release(&text);
    free(cancelled);
}

void responses_delete(struct exchange *x)
{
    const char *id = exchange_parameter(x, "id");
    uint64_t ticket = 0;
    if (stored_responses_delete(exchange_server(x)->responses, id, responses_key(x), &ticket))
        exchange_reply_json(x, 200, json_pack("{s:s, s:s, s:b}", "id", id, "object", "response", "deleted", 1));
    else
        fail_missing(x, id);
    exchange_detach_cancel(exchange_server(x), ticket);
}
