/* chat_messages.c: messages in the OpenAI form for a template. */
#include "text/chat_messages.h"

#include <string.h>

/* Probing */

#define NEEDLE "needle7"

static const char text_probe[] = "{\"role\": \"user\", \"content\": \"" NEEDLE "\"}";
static const char parts_probe[] = "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"" NEEDLE "\"}]}";
static const char object_probe[] =
    "{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": "
    "\"call00001\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"" NEEDLE "\": 1}}}]}";
static const char arguments_probe[] =
    "{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": "
    "\"call00001\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{\\\"" NEEDLE "\\\": 1}\"}}]}";

/* Whether the template renders the messages into a text that holds `good` and, unless NULL, not `bad`. */
static bool renders(const struct chat_template *t, const char *messages, const char *good, const char *bad)
{
    json_t *variables =
        json_pack("{s:[], s:s, s:s, s:b}", "messages", "bos_token", "<s>", "eos_token", "</s>", "add_generation_prompt", 1);
    struct string_buffer array;
    string_buffer_init(&array);
    string_buffer_printf(&array, "[%s]", messages);
    json_t *list = array.failed ? NULL : json_loads(array.s, 0, NULL);
    struct rendered r = {0};
    bool holds = false;
    if (json_object_set_new(variables, "messages", list) == 0 && chat_template_render(t, variables, 0, &r, NULL) == MR_OK &&
        r.text.n > 0)
        holds = strstr(r.text.s, good) != NULL && (bad == NULL || strstr(r.text.s, bad) == NULL);
    rendered_release(&r);
    string_buffer_release(&array);
    json_decref(variables);
    return holds;
}

struct chat_traits chat_traits_probe(const struct chat_template *t)
{
    struct chat_traits traits = {0};
    /* A list that is printed shows its keys. */
    traits.takes_parts = renders(t, parts_probe, NEEDLE, "type") ||
                         (!renders(t, text_probe, NEEDLE, NULL) && renders(t, parts_probe, NEEDLE, NULL));
    traits.takes_text_arguments =
        renders(t, arguments_probe, "{\"" NEEDLE "\": 1}", NULL) || !renders(t, object_probe, NEEDLE, NULL);
    return traits;
}

/* Normalising */

struct place { /* in the request, for messages */
    struct chat_traits traits;
    size_t message;
    struct mr_error *err;
};

static enum mr_status no_memory(const struct place *p) { return mr_fail(p->err, MR_NO_MEMORY, "no memory for the messages"); }

/* Steals v. */
static enum mr_status set(const struct place *p, json_t *object, const char *key, json_t *v)
{
    return v != NULL && json_object_set_new(object, key, v) == 0 ? MR_OK : no_memory(p);
}

static enum mr_status check_part(const struct place *p, size_t i, const json_t *part)
{
    if (!json_is_object(part))
        return mr_fail(p->err, MR_BAD_INPUT, "messages[%zu].content[%zu]: expected an object", p->message, i);
    const char *type = json_string_value(json_object_get(part, "type"));
    if (type == NULL)
        return mr_fail(p->err, MR_BAD_INPUT, "messages[%zu].content[%zu].type: expected a string", p->message, i);
    if (strcmp(type, "text") != 0)
        return mr_fail(p->err, MR_BAD_INPUT, "messages[%zu].content[%zu].type: '%.60s' is not supported, only 'text' is",
                       p->message, i, type);
    if (!json_is_string(json_object_get(part, "text")))
        return mr_fail(p->err, MR_BAD_INPUT, "messages[%zu].content[%zu].text: expected a string", p->message, i);
    return MR_OK;
}

/* Parts stay, or become one string. */
static enum mr_status set_parts(const struct place *p, json_t *message, const json_t *parts)
{
    struct string_buffer joined;
    const size_t n = json_array_size(parts);
    if (n == 0)
        return mr_fail(p->err, MR_BAD_INPUT, "messages[%zu].content: expected a string or at least one part", p->message);
    string_buffer_init(&joined);
    for (size_t i = 0; i < n; i++) {
        const json_t *part = json_array_get(parts, i), *text = json_object_get(part, "text");
        const enum mr_status status = check_part(p, i, part);
        if (status != MR_OK) {
            string_buffer_release(&joined);
            return status;
        }
        string_buffer_add(&joined, json_string_value(text), json_string_length(text));
    }
    enum mr_status status = joined.failed ? no_memory(p) : MR_OK;
    if (status == MR_OK && !p->traits.takes_parts)
        status = set(p, message, "content", json_stringn(joined.n > 0 ? joined.s : "", joined.n));
    string_buffer_release(&joined);
    return status;
}

static const json_t *reasoning_of(const json_t *message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *v = json_object_get(message, names[i]);
        if (v != NULL && !json_is_null(v))
            return v;
    }
    return NULL;
}

static enum mr_status set_content(const struct place *p, json_t *message, const char *role)
{
    const json_t *content = json_object_get(message, "content");
    if (json_is_string(content))
        return MR_OK;
    if (json_is_array(content))
        return set_parts(p, message, content);
    if (content != NULL)
        return mr_fail(p->err, MR_BAD_INPUT, "messages[%zu].content: expected a string or a list of parts", p->message);
    const bool said_otherwise = json_array_size(json_object_get(message, "tool_calls")) > 0 || reasoning_of(message) != NULL;
    if (strcmp(role, "assistant") != 0 || !said_otherwise)
        return mr_fail(p->err, MR_BAD_INPUT, "messages[%zu].content: missing; only an assistant's tool calls may come without",
                       p->message);
    return set(p, message, "content", json_string(""));
}

/* arguments: the text of a JSON object, or the object. */
static enum mr_status set_arguments(const struct place *p, size_t i, json_t *function)
{
    json_t *arguments = json_object_get(function, "arguments");
    if (arguments == NULL || json_is_object(arguments) || (json_is_string(arguments) && p->traits.takes_text_arguments))
        return MR_OK;
    json_t *object = json_loadb(json_string_value(arguments), json_string_length(arguments), JSON_ALLOW_NUL, NULL);
    if (!json_is_object(object)) {
        json_decref(object);
        return mr_fail(p->err, MR_BAD_INPUT, "messages[%zu].tool_calls[%zu].function.arguments: expected a JSON object",
                       p->message, i);
    }
    return set(p, function, "arguments", object);
}

static enum mr_status set_tool_calls(const struct place *p, json_t *message)
{
    json_t *calls = json_object_get(message, "tool_calls");
    if (calls != NULL && !json_is_array(calls))
        return mr_fail(p->err, MR_BAD_INPUT, "messages[%zu].tool_calls: expected a list", p->message);
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *call = json_array_get(calls, i), *function = json_object_get(call, "function");
        if (!json_is_object(call))
            return mr_fail(p->err, MR_BAD_INPUT, "messages[%zu].tool_calls[%zu]: expected an object", p->message, i);
        if (!json_is_string(json_object_get(function, "name")))
            return mr_fail(p->err, MR_BAD_INPUT, "messages[%zu].tool_calls[%zu].function.name: expected a string", p->message,
                           i);
        MR_TRY(set_arguments(p, i, function));
    }
    return MR_OK;
}

/* A deep copy without null members; where there is reasoning, `thinking` before the rest and `reasoning_content` in it. */
static enum mr_status copy_message(const struct place *p, const json_t *message, json_t *copy)
{
    const char *key;
    json_t *v;
    const json_t *reasoning = reasoning_of(message);
    if (reasoning != NULL)
        MR_TRY(set(p, copy, "thinking", json_deep_copy(reasoning)));
    json_object_foreach((json_t *)(uintptr_t)message, key, v)
    {
        if (!json_is_null(v))
            MR_TRY(set(p, copy, key, json_deep_copy(v)));
    }
    return reasoning != NULL ? set(p, copy, "reasoning_content", json_deep_copy(reasoning)) : MR_OK;
}

static enum mr_status normalise(const struct place *p, const json_t *message, json_t *copy)
{
    if (!json_is_object(message))
        return mr_fail(p->err, MR_BAD_INPUT, "messages[%zu]: expected an object", p->message);
    const char *role = json_string_value(json_object_get(message, "role"));
    if (role == NULL || *role == '\0')
        return mr_fail(p->err, MR_BAD_INPUT, "messages[%zu].role: expected a string that is not empty", p->message);
    MR_TRY(copy_message(p, message, copy));
    MR_TRY(set_tool_calls(p, copy));
    return set_content(p, copy, role);
}

enum mr_status chat_messages_normalise(json_t **out, const json_t *messages, struct chat_traits traits, struct mr_error *err)
{
    struct place p = {.traits = traits, .err = err};
    *out = NULL;
    if (json_array_size(messages) == 0)
        return mr_fail(err, MR_BAD_INPUT, "messages: expected a list with at least one message");
    json_t *list = json_array();
    enum mr_status status = list != NULL ? MR_OK : no_memory(&p);
    for (; status == MR_OK && p.message < json_array_size(messages); p.message++) {
        json_t *copy = json_object();
        status =
            json_array_append_new(list, copy) == 0 ? normalise(&p, json_array_get(messages, p.message), copy) : no_memory(&p);
    }
    if (status != MR_OK) {
        json_decref(list);
        return status;
    }
    *out = list;
    return MR_OK;
}
