/* openai.c: fields and words that OpenAI's endpoints share. */
#include "server/api/openai.h"

#include <string.h>

#include "engine/loaded_model.h"
#include "server/api/lora.h"
#include "server/api/sampling_fields.h"
#include "server/api/speculation_fields.h"
#include "server/api/sse.h"

void openai_read_common(struct job *j)
{
    struct json_fields options;
    json_fields_bool(&j->fields, "stream", &j->stream);
    if (json_fields_object(&j->fields, "stream_options", "stream_options", &options))
        json_fields_bool(&options, "include_usage", &j->include_usage);
    sampling_fields_read(&j->fields, j->model->model->tokenizer, &j->arena, &j->base);
    lora_fields_read(j);
    speculation_fields_read(j);
    constraint_fields_read(&j->fields, &j->arena, &j->base, &j->constraint);
}

const char *openai_finish(const struct answer *a)
{
    if (answer_has_called(a))
        return "tool_calls";
    return a->finish == MR_FINISH_STOP ? "stop" : "length"; /* what else ends an answer is no answer */
}

const char *openai_service_tier(const struct job *j) { return json_string_value(json_object_get(j->body, "service_tier")); }

static const char *known_role(const char *role)
{
    static const struct {
        const char *name, *template_name;
    } roles[] = {{"system", "system"},       {"developer", "system"}, {"user", "user"},
                 {"assistant", "assistant"}, {"tool", "tool"},        {"function", "function"}};
    for (size_t i = 0; role != NULL && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(role, roles[i].name) == 0)
            return roles[i].template_name;
    return NULL;
}

/* A message with the role that templates know; the same one where it has it. */
static json_t *with_known_role(struct job *j, const char *name, size_t i, json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role")), *known = known_role(role);
    char path[64];
    snprintf(path, sizeof path, "%.20s[%zu]%s", name, i, json_is_object(message) ? ".role" : "");
    if (!json_is_object(message))
        api_error_at(&j->error, 400, path, "must be an object");
    else if (known == NULL)
        api_error_at(&j->error, 400, path, "must be 'system', 'developer', 'user', 'assistant' or 'tool'");
    if (j->error.http != 0)
        return NULL;
    if (strcmp(known, role) == 0)
        return json_incref(message);
    json_t *copy = json_copy(message);
    if (copy == NULL || json_object_set_new(copy, "role", json_string(known)) != 0) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

json_t *openai_known_roles(struct job *j, json_t *request, const char *name)
{
    const json_t *messages = json_object_get(request, "messages");
    json_t *copy = json_copy(request), *list = json_array();
    bool ok = copy != NULL && json_object_set_new(copy, "messages", list) == 0;
    for (size_t i = 0; ok && i < json_array_size(messages); i++) {
        json_t *message = with_known_role(j, name, i, json_array_get(messages, i));
        ok = message != NULL && json_array_append_new(list, message) == 0;
    }
    if (ok)
        return copy;
    api_error_at(&j->error, 503, name, "no memory for the request");
    json_decref(copy);
    return NULL;
}

json_t *openai_chat_request(struct job *j)
{
    const json_t *messages = NULL;
    if (!json_fields_array(&j->fields, "messages", &messages) || json_array_size(messages) == 0)
        json_fields_fail(&j->fields, "messages", "must be a list with at least one message");
    return j->error.http == 0 ? openai_known_roles(j, j->body, "messages") : NULL;
}

const char *openai_tool_choice(struct job *j)
{
    const json_t *choice = json_fields_get(&j->fields, "tool_choice");
    const char *type = json_string_value(json_object_get(choice, "type"));
    const char *name = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
    if (choice == NULL)
        return "auto";
    if (json_is_string(choice))
        name = json_string_value(choice);
    else if (type != NULL && strcmp(type, "function") == 0 && name == NULL)
        name = json_string_value(json_object_get(choice, "name")); /* as the responses API writes it */
    else if (type == NULL || strcmp(type, "function") != 0)
        name = NULL;
    if (name == NULL)
        json_fields_fail(&j->fields, "tool_choice",
                         "must be 'auto', 'none', 'required' or {\"type\": \"function\", \"function\": {\"name\": ...}}");
    else if (json_array_size(json_object_get(j->body, "tools")) == 0 && strcmp(name, "none") != 0 && strcmp(name, "auto") != 0)
        json_fields_fail(&j->fields, "tool_choice", "is '%.80s', but there are no tools", name);
    return name;
}

void openai_stream_fail(struct job *j, const struct api_error *e, struct string_buffer *out)
{
    (void)j;
    sse_write(out, NULL,
              json_pack("{s:{s:s, s:s, s:n, s:i}}", "error", "message", e->message, "type",
                        e->type != NULL ? e->type : "server_error", "param", "code", e->http));
}
