/* chat_renderer.c: requests in the OpenAI form through a chat template. */
#include "text/chat_renderer.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct chat_renderer {
    struct chat_template *t;
    struct chat_traits traits;
    json_t *tokens; /* bos_token, eos_token */
};

/* A token's text as JSON; "" where there is none or it is not UTF-8. */
static json_t *spelling(const struct tokenizer *t, int32_t id)
{
    if (t == NULL || id < 0)
        return json_string("");
    const struct gguf_string s = tokenizer_spelling(t, id);
    json_t *text = json_stringn(s.s, s.n);
    return text != NULL ? text : json_string("");
}

enum mr_status chat_renderer_create(struct chat_renderer **out, const char *source, size_t n, const struct tokenizer *t,
                                    struct mr_error *err)
{
    struct chat_renderer *p = mem_zero_array(1, sizeof *p);
    *out = NULL;
    if (p == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the chat template");
    enum mr_status status = chat_template_create(&p->t, source, n, err);
    if (status == MR_OK) {
        p->traits = chat_traits_probe(p->t);
        p->tokens = json_pack("{s:o, s:o}", "bos_token", spelling(t, t != NULL ? tokenizer_bos(t) : -1), "eos_token",
                              spelling(t, t != NULL ? tokenizer_eos(t) : -1));
        if (p->tokens == NULL)
            status = mr_fail(err, MR_NO_MEMORY, "no memory for the chat template");
    }
    if (status != MR_OK) {
        chat_renderer_free(p);
        return status;
    }
    *out = p;
    return MR_OK;
}

void chat_renderer_free(struct chat_renderer *p)
{
    if (p == NULL)
        return;
    chat_template_free(p->t);
    json_decref(p->tokens);
    free(p);
}

/* Variables that a request sets in ways of their own, and those that count as the template's. */
static bool is_reserved(const char *name)
{
    static const char *const reserved[] = {"messages", "tools", "documents"};
    static const char suffix[] = "_token";
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        if (strcmp(name, reserved[i]) == 0)
            return true;
    }
    return n >= sizeof suffix - 1 && strcmp(name + n - (sizeof suffix - 1), suffix) == 0;
}

static enum mr_status no_memory(struct mr_error *err) { return mr_fail(err, MR_NO_MEMORY, "no memory for the chat"); }

/* An array of objects, or null; an empty array is null, too. */
static enum mr_status set_objects(json_t *variables, const json_t *request, const char *name, struct mr_error *err)
{
    json_t *list = json_object_get(request, name);
    if (list != NULL && !json_is_null(list) && !json_is_array(list))
        return mr_fail(err, MR_BAD_INPUT, "%s: expected a list", name);
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!json_is_object(json_array_get(list, i)))
            return mr_fail(err, MR_BAD_INPUT, "%s[%zu]: expected an object", name, i);
    }
    const bool set = json_array_size(list) > 0 ? json_object_set(variables, name, list) == 0
                                               : json_object_set_new(variables, name, json_null()) == 0;
    return set ? MR_OK : no_memory(err);
}

static enum mr_status set_more(json_t *variables, const json_t *request, struct mr_error *err)
{
    json_t *more = json_object_get(request, "chat_template_kwargs"), *v;
    const char *name;
    if (more != NULL && !json_is_null(more) && !json_is_object(more))
        return mr_fail(err, MR_BAD_INPUT, "chat_template_kwargs: expected an object");
    json_object_foreach(more, name, v)
    {
        if (is_reserved(name))
            return mr_fail(err, MR_BAD_INPUT, "chat_template_kwargs.%.60s: cannot be set this way", name);
        if (json_object_set(variables, name, v) != 0)
            return no_memory(err);
    }
    return MR_OK;
}

static enum mr_status set_plain(json_t *variables, const json_t *request, struct mr_error *err)
{
    json_t *effort = json_object_get(request, "reasoning_effort"), *prompt = json_object_get(request, "add_generation_prompt");
    if (prompt != NULL && !json_is_boolean(prompt))
        return mr_fail(err, MR_BAD_INPUT, "add_generation_prompt: expected true or false");
    if (json_object_set_new(variables, "add_generation_prompt", json_boolean(prompt == NULL || json_is_true(prompt))) != 0)
        return no_memory(err);
    if (effort == NULL || json_is_null(effort))
        return MR_OK;
    return json_object_set(variables, "reasoning_effort", effort) == 0 ? MR_OK : no_memory(err);
}

static enum mr_status set_variables(const struct chat_renderer *p, json_t *variables, const json_t *request,
                                    struct mr_error *err)
{
    json_t *messages;
    MR_TRY(set_plain(variables, request, err));
    MR_TRY(set_more(variables, request, err));
    MR_TRY(set_objects(variables, request, "tools", err));
    MR_TRY(set_objects(variables, request, "documents", err));
    MR_TRY(chat_messages_normalise(&messages, json_object_get(request, "messages"), p->traits, err));
    if (json_object_set_new(variables, "messages", messages) != 0 || json_object_update(variables, p->tokens) != 0)
        return no_memory(err);
    return MR_OK;
}

enum mr_status chat_renderer_render(const struct chat_renderer *p, const json_t *request, int64_t now, struct rendered *out,
                                    struct mr_error *err)
{
    json_t *variables = json_object();
    *out = (struct rendered){0};
    enum mr_status status = variables != NULL ? set_variables(p, variables, request, err) : no_memory(err);
    if (status == MR_OK)
        status = chat_template_render(p->t, variables, now, out, err);
    json_decref(variables);
    return status;
}
