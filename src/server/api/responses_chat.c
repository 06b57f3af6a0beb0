/* responses_chat.c: the input of a response in the form that chat templates take. */
#include <stdio.h>
#include <string.h>

#include "server/api/openai.h"
#include "server/api/responses.h"

static void append(struct job *j, json_t *list, json_t *value)
{
    if (json_array_append_new(list, value) != 0)
        api_error_at(&j->error, 503, "input", "no memory for the request");
}

/* A text, or parts of texts, joined. */
static json_t *joined_text(struct job *j, const struct json_fields *f, const char *name)
{
    static const char *const known[] = {"input_text", "output_text", "text", "reasoning_text", "summary_text", "refusal"};
    const json_t *v = json_fields_get(f, name);
    struct string_buffer text;
    string_buffer_init(&text);
    if (json_is_string(v))
        string_buffer_add(&text, json_string_value(v), json_string_length(v));
    else if (!json_is_array(v))
        json_fields_fail(f, name, "must be a string or a list of parts");
    for (size_t i = 0; i < json_array_size(v) && j->error.http == 0; i++) {
        const json_t *part = json_array_get(v, i), *s = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        bool is_known = false;
        for (size_t k = 0; type != NULL && k < sizeof known / sizeof *known; k++)
            is_known |= strcmp(type, known[k]) == 0;
        if (!is_known || !json_is_string(s))
            json_fields_fail(f, name, "[%zu] must be a part of type 'input_text' or 'output_text'", i);
        else
            string_buffer_add(&text, json_string_value(s), json_string_length(s));
    }
    json_t *value = json_stringn(text.n > 0 ? text.s : "", text.n);
    string_buffer_release(&text);
    return value;
}

static void add_message(struct job *j, json_t *messages, const struct json_fields *f)
{
    const char *role = NULL;
    if (!json_fields_string(f, "role", &role))
        json_fields_fail(f, "role", "is missing");
    json_t *content = joined_text(j, f, "content");
    append(j, messages, json_pack("{s:s, s:o}", "role", role != NULL ? role : "", "content", content));
}

/* Calls of one turn stand in one message. */
static void add_call(struct job *j, json_t *messages, const struct json_fields *f)
{
    const char *id = NULL, *name = NULL, *arguments = NULL;
    if (!json_fields_string(f, "call_id", &id) || !json_fields_string(f, "name", &name) ||
        !json_fields_string(f, "arguments", &arguments)) {
        json_fields_fail(f, "arguments", "must be a string, beside the strings call_id and name");
        return;
    }
    const size_t n = json_array_size(messages);
    json_t *last = n > 0 ? json_array_get(messages, n - 1) : NULL, *calls = json_object_get(last, "tool_calls");
    if (calls == NULL) {
        calls = json_array();
        append(j, messages, json_pack("{s:s, s:n, s:o}", "role", "assistant", "content", "tool_calls", calls));
    }
    if (j->error.http == 0)
        append(j, calls,
               json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function", "function", "name", name, "arguments",
                         arguments));
}

static void add_output(struct job *j, json_t *messages, const struct json_fields *f)
{
    const char *id = NULL;
    if (!json_fields_string(f, "call_id", &id))
        json_fields_fail(f, "call_id", "is missing");
    json_t *output = joined_text(j, f, "output");
    append(j, messages, json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id", id != NULL ? id : "", "content", output));
}

static void skip_item(struct job *j, json_t *messages, const struct json_fields *f)
{
    (void)j;
    (void)messages;
    (void)f;
}

static void add_item(struct job *j, json_t *messages, size_t i, const json_t *item)
{
    static const struct {
        const char *type;
        void (*add)(struct job *j, json_t *messages, const struct json_fields *f);
    } kinds[] = {
        {"message", add_message}, {"function_call", add_call}, {"function_call_output", add_output}, {"reasoning", skip_item}};
    char path[40];
    const char *type = "message";
    snprintf(path, sizeof path, "input[%zu]", i);
    const struct json_fields f = {.object = item, .path = path, .error = &j->error};
    if (!json_is_object(item))
        api_error_at(&j->error, 400, path, "must be an object");
    json_fields_string(&f, "type", &type);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && j->error.http == 0; k++) {
        if (strcmp(type, kinds[k].type) == 0) {
            kinds[k].add(j, messages, &f);
            return;
        }
    }
    json_fields_fail(&f, "type", "must be 'message', 'function_call', 'function_call_output' or 'reasoning'");
}

/* The messages that an earlier response knew, its own among them. */
static json_t *earlier_messages(struct job *j)
{
    struct stored_responses *store = exchange_server(j->x)->responses;
    const char *id = NULL;
    struct string_buffer text;
    json_t *messages = NULL;
    if (!json_fields_string(&j->fields, "previous_response_id", &id))
        return json_array();
    string_buffer_init(&text);
    if (stored_responses_messages(store, id, responses_key(j->x), &text) && !text.failed)
        messages = json_loadb(text.s, text.n, JSON_ALLOW_NUL, NULL);
    if (messages == NULL) {
        api_error_at(&j->error, 404, "previous_response_id", "'%.80s' is not stored here", id);
        messages = json_array();
    }
    string_buffer_release(&text);
    return messages;
}

static void read_input(struct job *j, json_t *messages)
{
    const json_t *input = json_fields_get(&j->fields, "input");
    if (json_is_string(input))
        append(j, messages, json_pack("{s:s, s:O}", "role", "user", "content", input));
    else if (json_array_size(input) == 0)
        json_fields_fail(&j->fields, "input", "must be a string or a list with at least one item");
    for (size_t i = 0; i < json_array_size(input) && j->error.http == 0; i++)
        add_item(j, messages, i, json_array_get(input, i));
}

/* {"type": "function", "name", ...} as {"type": "function", "function": {"name", ...}}. */
static json_t *read_tools(struct job *j)
{
    const json_t *list = NULL;
    json_t *tools = json_array();
    json_fields_array(&j->fields, "tools", &list);
    for (size_t i = 0; i < json_array_size(list) && j->error.http == 0; i++) {
        json_t *tool = json_array_get(list, i);
        const char *type = json_string_value(json_object_get(tool, "type"));
        if (type == NULL || strcmp(type, "function") != 0) {
            char path[40];
            snprintf(path, sizeof path, "tools[%zu].type", i);
            api_error_at(&j->error, 400, path, "must be 'function'");
        } else {
            append(j, tools, json_pack("{s:s, s:O}", "type", "function", "function", tool));
        }
    }
    return tools;
}

void responses_read_chat(struct job *j, struct response_state *state)
{
    bool parallel = true;
    const char *instructions = NULL;
    const json_t *effort = json_object_get(json_object_get(j->body, "reasoning"), "effort");
    state->messages = earlier_messages(j);
    state->tools = read_tools(j);
    read_input(j, state->messages);
    json_fields_bool(&j->fields, "parallel_tool_calls", &parallel);
    json_t *seen = json_pack("{s:o}", "messages", json_copy(state->messages));
    if (json_fields_string(&j->fields, "instructions", &instructions))
        json_array_insert_new(json_object_get(seen, "messages"), 0,
                              json_pack("{s:s, s:s}", "role", "system", "content", instructions));
    json_object_set(seen, "tools", state->tools);
    json_object_set(seen, "chat_template_kwargs", json_object_get(j->body, "chat_template_kwargs"));
    if (json_is_string(effort))
        json_object_set_new(seen, "reasoning_effort", json_incref((json_t *)(uintptr_t)effort));
    json_t *request = j->error.http == 0 ? openai_known_roles(j, seen, "input") : NULL;
    job_render_chat(j, request);
    job_set_calls(j, state->tools, openai_tool_choice(j), parallel, false);
    json_decref(request);
    json_decref(seen);
}
