/* anthropic_chat.c: messages of Anthropic's API in the form that chat templates take. */
#include <stdlib.h>
#include <string.h>

#include "server/api/anthropic.h"

/* The one message of a turn that is being made of its blocks, and those of tools that go before it. */
struct turn {
    struct job *j;
    json_t *messages; /* array, as OpenAI has it */
    struct string_buffer text, thinking;
    json_t *calls;
    char path[64];
};

static void no_memory(struct job *j) { api_error_at(&j->error, 503, "messages", "no memory for the request"); }

static void append(struct job *j, json_t *list, json_t *value)
{
    if (json_array_append_new(list, value) != 0)
        no_memory(j);
}

/* content of a block: a text, or blocks of texts. */
static void add_texts(struct job *j, const char *path, const json_t *v, struct string_buffer *out)
{
    if (json_is_string(v)) {
        string_buffer_add(out, json_string_value(v), json_string_length(v));
        return;
    }
    if (v != NULL && !json_is_array(v))
        api_error_at(&j->error, 400, path, "must be a string or a list of blocks");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *block = json_array_get(v, i), *text = json_object_get(block, "text");
        const char *type = json_string_value(json_object_get(block, "type"));
        if (type == NULL || strcmp(type, "text") != 0 || !json_is_string(text))
            api_error_at(&j->error, 400, path, "[%zu] must be a block of type 'text'", i);
        else
            string_buffer_add(out, json_string_value(text), json_string_length(text));
    }
}

static void add_text(struct turn *t, const json_t *block, const struct json_fields *f)
{
    const json_t *text = json_object_get(block, "text");
    if (!json_is_string(text))
        json_fields_fail(f, "text", "must be a string");
    else
        string_buffer_add(&t->text, json_string_value(text), json_string_length(text));
}

static void add_thinking(struct turn *t, const json_t *block, const struct json_fields *f)
{
    const json_t *text = json_object_get(block, "thinking");
    if (!json_is_string(text))
        json_fields_fail(f, "thinking", "must be a string");
    else
        string_buffer_add(&t->thinking, json_string_value(text), json_string_length(text));
}

static void add_call(struct turn *t, const json_t *block, const struct json_fields *f)
{
    const char *id = NULL, *name = NULL;
    const json_t *input = json_object_get(block, "input");
    if (!json_fields_string(f, "id", &id) || !json_fields_string(f, "name", &name) || !json_is_object(input)) {
        json_fields_fail(f, "input", "must be an object, beside the strings id and name");
        return;
    }
    char *arguments = json_dumps(input, JSON_COMPACT);
    append(t->j, t->calls,
           json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function", "function", "name", name, "arguments",
                     arguments != NULL ? arguments : "{}"));
    free(arguments);
}

static void add_result(struct turn *t, const json_t *block, const struct json_fields *f)
{
    const char *id = NULL;
    struct string_buffer text;
    if (!json_fields_string(f, "tool_use_id", &id)) {
        json_fields_fail(f, "tool_use_id", "is missing");
        return;
    }
    string_buffer_init(&text);
    add_texts(t->j, t->path, json_fields_get(f, "content"), &text);
    append(t->j, t->messages,
           json_pack("{s:s, s:s, s:s%}", "role", "tool", "tool_call_id", id, "content", text.n > 0 ? text.s : "", text.n));
    string_buffer_release(&text);
    (void)block;
}

static void skip(struct turn *t, const json_t *block, const struct json_fields *f)
{
    (void)t;
    (void)block;
    (void)f;
}

static void add_block(struct turn *t, const json_t *block)
{
    static const struct {
        const char *type;
        void (*add)(struct turn *t, const json_t *block, const struct json_fields *f);
    } kinds[] = {{"text", add_text},
                 {"thinking", add_thinking},
                 {"redacted_thinking", skip},
                 {"tool_use", add_call},
                 {"tool_result", add_result}};
    const struct json_fields f = {.object = block, .path = t->path, .error = &t->j->error};
    const char *type = json_string_value(json_object_get(block, "type"));
    for (size_t i = 0; type != NULL && i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(type, kinds[i].type) == 0) {
            kinds[i].add(t, block, &f);
            return;
        }
    }
    json_fields_fail(&f, "type", "must be 'text', 'thinking', 'tool_use' or 'tool_result'");
}

/* The blocks' message, unless tool results were all. */
static void end_turn(struct turn *t, const char *role)
{
    const bool has_calls = json_array_size(t->calls) > 0;
    if (t->text.n == 0 && t->thinking.n == 0 && !has_calls)
        return;
    json_t *message = json_pack("{s:s, s:s%}", "role", role, "content", t->text.n > 0 ? t->text.s : "", t->text.n);
    if (t->thinking.n > 0)
        json_object_set_new(message, "reasoning_content", json_stringn(t->thinking.s, t->thinking.n));
    if (has_calls)
        json_object_set(message, "tool_calls", t->calls);
    append(t->j, t->messages, message);
}

static void add_message(struct job *j, json_t *messages, size_t i, const json_t *message)
{
    char path[48];
    const char *role = NULL;
    snprintf(path, sizeof path, "messages[%zu]", i);
    const struct json_fields f = {.object = message, .path = path, .error = &j->error};
    const json_t *content = json_object_get(message, "content");
    if (!json_fields_string(&f, "role", &role) || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0))
        json_fields_fail(&f, "role", "must be 'user' or 'assistant'");
    else if (json_is_string(content))
        append(j, messages, json_pack("{s:s, s:O}", "role", role, "content", content));
    else if (json_array_size(content) == 0)
        json_fields_fail(&f, "content", "must be a string or a list of blocks");
    struct turn t = {.j = j, .messages = messages, .calls = json_array()};
    string_buffer_init(&t.text);
    string_buffer_init(&t.thinking);
    for (size_t k = 0; k < json_array_size(content) && j->error.http == 0; k++) {
        snprintf(t.path, sizeof t.path, "messages[%zu].content[%zu]", i, k);
        add_block(&t, json_array_get(content, k));
    }
    if (j->error.http == 0)
        end_turn(&t, role);
    string_buffer_release(&t.text);
    string_buffer_release(&t.thinking);
    json_decref(t.calls);
}

static json_t *read_messages(struct job *j)
{
    const json_t *list = NULL;
    json_t *messages = json_array();
    struct string_buffer system;
    string_buffer_init(&system);
    add_texts(j, "system", json_fields_get(&j->fields, "system"), &system);
    if (system.n > 0)
        append(j, messages, json_pack("{s:s, s:s%}", "role", "system", "content", system.s, system.n));
    string_buffer_release(&system);
    if (!json_fields_array(&j->fields, "messages", &list) || json_array_size(list) == 0)
        json_fields_fail(&j->fields, "messages", "must be a list with at least one message");
    for (size_t i = 0; i < json_array_size(list) && j->error.http == 0; i++)
        add_message(j, messages, i, json_array_get(list, i));
    return messages;
}

/* {name, description, input_schema} as {"type": "function", "function": {..., "parameters"}}. */
static json_t *read_tools(struct job *j)
{
    const json_t *list = NULL;
    json_t *tools = json_array();
    json_fields_array(&j->fields, "tools", &list);
    for (size_t i = 0; i < json_array_size(list) && j->error.http == 0; i++) {
        char path[32];
        const char *name = NULL, *description = "", *type = NULL;
        snprintf(path, sizeof path, "tools[%zu]", i);
        const struct json_fields f = {.object = json_array_get(list, i), .path = path, .error = &j->error};
        json_t *schema = json_object_get(f.object, "input_schema");
        if (json_fields_string(&f, "type", &type) && strcmp(type, "custom") != 0)
            json_fields_fail(&f, "type", "'%.40s' is not supported; tools have a name and an input_schema", type);
        json_fields_string(&f, "description", &description);
        if (!json_fields_string(&f, "name", &name) || !json_is_object(schema))
            json_fields_fail(&f, "input_schema", "must be a JSON schema, beside the string name");
        else
            append(j, tools,
                   json_pack("{s:s, s:{s:s, s:s, s:O}}", "type", "function", "function", "name", name, "description",
                             description, "parameters", schema));
    }
    return tools;
}

static const char *read_choice(struct job *j, bool *parallel)
{
    static const char *const names[][2] = {{"auto", "auto"}, {"any", "required"}, {"none", "none"}};
    struct json_fields f;
    const char *type = NULL, *name = NULL;
    bool alone = false;
    if (!json_fields_object(&j->fields, "tool_choice", "tool_choice", &f))
        return "auto";
    json_fields_bool(&f, "disable_parallel_tool_use", &alone);
    *parallel = !alone;
    json_fields_string(&f, "type", &type);
    for (size_t i = 0; type != NULL && i < sizeof names / sizeof *names; i++)
        if (strcmp(type, names[i][0]) == 0)
            return names[i][1];
    if (type == NULL || strcmp(type, "tool") != 0 || !json_fields_string(&f, "name", &name))
        json_fields_fail(&f, "type", "must be 'auto', 'any', 'none', or 'tool' with a name");
    return name;
}

/* "enabled" and "disabled" as the templates that know it spell it. */
static json_t *read_thinking(struct job *j)
{
    struct json_fields f;
    const char *type = NULL;
    if (!json_fields_object(&j->fields, "thinking", "thinking", &f) || !json_fields_string(&f, "type", &type))
        return NULL;
    return json_pack("{s:b}", "enable_thinking", strcmp(type, "disabled") != 0);
}

void anthropic_read_chat(struct job *j)
{
    bool parallel = true;
    json_t *tools = read_tools(j), *messages = read_messages(j);
    const char *choice = read_choice(j, &parallel);
    json_t *request =
        json_pack("{s:o, s:O, s:o*}", "messages", messages, "tools", tools, "chat_template_kwargs", read_thinking(j));
    if (request == NULL)
        no_memory(j);
    job_render_chat(j, request);
    job_set_calls(j, tools, choice, parallel, false);
    json_decref(request);
    json_decref(tools);
}
