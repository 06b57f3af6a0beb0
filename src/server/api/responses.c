/* responses.c: POST /v1/responses, and what is asked of one by its id. */
#include "server/api/responses.h"

#include <stdlib.h>
#include <string.h>

#include "engine/loaded_model.h"
#include "server/api/sampling_fields.h"
#include "server/api_error.h"
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

static void read_fields(struct job *j)
{
    bool background = false;
    const char *truncation = NULL;
    sampling_fields_read(&j->fields, j->model->model->tokenizer, &j->arena, &j->base);
    json_fields_int32(&j->fields, "max_output_tokens", 1, INT32_MAX, &j->base.max_tokens);
    json_fields_bool(&j->fields, "stream", &j->stream);
    if (json_fields_bool(&j->fields, "background", &background) && background)
        json_fields_fail(&j->fields, "background", "is not supported; responses are stored while they stream");
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
    json_t *response = responses_json(j, "in_progress", json_array(), false);
    char *text = response != NULL ? json_dumps(response, JSON_COMPACT) : NULL;
    if (text != NULL)
        state->stored = stored_responses_begin(exchange_server(j->x)->responses, j->id, responses_key(j->x), text);
    if (state->stored == NULL)
        api_error_at(&j->error, 503, "", "no memory for the response");
    free(text);
    json_decref(response);
}

void responses_create(struct exchange *x)
{
    struct job *j = job_open(x, &responses_dialect, "resp_");
    if (j == NULL)
        return;
    struct response_state *state = job_alloc(j, sizeof *state);
    j->own = state;
    if (state != NULL) {
        read_fields(j);
        responses_read_chat(j, state);
        store(j, state);
    }
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

/* One that runs ends before its next token; one that has ended stays as it is. */
void responses_cancel(struct exchange *x)
{
    const char *id = exchange_parameter(x, "id");
    struct stored_responses *s = exchange_server(x)->responses;
    struct string_buffer text;
    json_error_t why;
    bool was_running = false;
    string_buffer_init(&text);
    if (!stored_responses_get(s, id, responses_key(x), &text) ||
        !stored_responses_cancel(s, id, responses_key(x), &was_running)) {
        fail_missing(x, id);
    } else {
        json_t *response = json_loadb(text.s, text.n, JSON_ALLOW_NUL, &why);
        if (was_running)
            json_object_set_new(response, "status", json_string("cancelled"));
        exchange_reply_json(x, 200, response);
    }
    string_buffer_release(&text);
}

void responses_delete(struct exchange *x)
{
    const char *id = exchange_parameter(x, "id");
    if (stored_responses_delete(exchange_server(x)->responses, id, responses_key(x)))
        exchange_reply_json(x, 200, json_pack("{s:s, s:s, s:b}", "id", id, "object", "response", "deleted", 1));
    else
        fail_missing(x, id);
}
