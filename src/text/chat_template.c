/* chat_template.c: compiling and rendering chat templates; who wrote which byte of the result. */
#include "text/chat_template.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/jinja_eval.h"

struct chat_template {
    struct arena arena;
    struct program *program;
};

struct compilation {
    struct chat_template *t;
    const char *source;
    size_t n;
};

static void compile(struct jinja *j, void *context)
{
    const struct compilation *c = context;
    c->t->program = jinja_parse(j, c->source, c->n);
    jinja_resolve(j, c->t->program);
}

enum mr_status chat_template_create(struct chat_template **out, const char *source, size_t n, struct mr_error *err)
{
    struct jinja j = {.err = err, .work_left = JINJA_MAX_WORK, .line = 1};
    struct compilation c = {.source = source, .n = n};
    *out = NULL;
    c.t = malloc(sizeof *c.t);
    if (c.t == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the chat template");
    arena_init(&j.arena, JINJA_MAX_MEMORY);
    const bool done = jinja_guard(&j, compile, &c);
    c.t->arena = j.arena;
    if (!done) {
        chat_template_free(c.t);
        return j.status;
    }
    *out = c.t;
    return MR_OK;
}

void chat_template_free(struct chat_template *t)
{
    if (t == NULL)
        return;
    arena_release(&t->arena);
    free(t);
}

void rendered_release(struct rendered *r)
{
    string_buffer_release(&r->text);
    free(r->run);
    *r = (struct rendered){0};
}

static bool is_special_token(const char *name)
{
    static const char suffix[] = "_token";
    const size_t n = strlen(name);
    return n >= sizeof suffix - 1 && strcmp(name + n - (sizeof suffix - 1), suffix) == 0;
}

/* A role that the API knows is a word of the protocol, not of the caller: it can only pick one of these. */
static void adopt_role(struct jinja *j, struct value message)
{
    static const char *const roles[] = {"system",   "user",        "assistant", "tool",        "developer",
                                        "function", "environment", "ipython",   "observation", "model"};
    const struct text *key = text_literal(j, "role");
    const struct value *role = message.type == VALUE_DICT ? dict_get_text(j, message.dict, key) : NULL;
    if (role == NULL || role->type != VALUE_TEXT)
        return;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (text_is(role->text, roles[i]))
            dict_set(j, message.dict, value_text(key), value_literal(j, roles[i]));
    }
}

static struct dict *make_context(struct jinja *j, const json_t *variables)
{
    struct dict *context = dict_make(j);
    const char *name;
    json_t *json;
    /* The iterator takes no const object, and changes nothing. */
    json_object_foreach((json_t *)(uintptr_t)variables, name, json)
    {
        const struct value v = value_from_json(j, json, is_special_token(name) ? FROM_TEMPLATE : FROM_CALLER);
        if (strcmp(name, "messages") == 0 && v.type == VALUE_LIST) {
            for (size_t i = 0; i < v.list->n; i++)
                adopt_role(j, v.list->item[i]);
        }
        dict_set(j, context, value_literal(j, name), v);
    }
    return context;
}

struct rendering {
    const struct chat_template *t;
    const json_t *variables;
};

static void render(struct jinja *j, void *context)
{
    const struct rendering *r = context;
    j->context = make_context(j, r->variables);
    j->out = text_begin(j);
    jinja_run(j, r->t->program);
}

static bool add_run(struct rendered *out, size_t from, size_t to, enum origin origin)
{
    if (!mem_grow(&out->run, &out->run_capacity, out->n_run + 1, sizeof *out->run))
        return false;
    out->run[out->n_run++] = (struct text_run){out->text.s + from, to - from, origin == FROM_TEMPLATE};
    return true;
}

/* Copy the output, cut into runs of one origin. */
static bool copy_output(const struct text_buffer *b, struct rendered *out)
{
    const struct text t = {.s = b->s, .n = b->n, .origin = b->origin, .from = b->from};
    string_buffer_add(&out->text, t.s, t.n);
    if (out->text.failed)
        return false;
    for (size_t from = 0, to; from < t.n; from = to) {
        const enum origin origin = text_origin(&t, from);
        to = text_origin_end(&t, from);
        if (!add_run(out, from, to, origin))
            return false;
    }
    return true;
}

enum mr_status chat_template_render(const struct chat_template *t, const json_t *variables, int64_t now, struct rendered *out,
                                    struct mr_error *err)
{
    struct jinja j = {.err = err, .work_left = JINJA_MAX_WORK, .line = 1, .now = now};
    struct rendering r = {t, variables};
    *out = (struct rendered){0};
    arena_init(&j.arena, JINJA_MAX_MEMORY);
    enum mr_status status = jinja_guard(&j, render, &r) ? MR_OK : j.status;
    if (status == MR_OK && !copy_output(j.out, out)) {
        rendered_release(out);
        status = mr_fail(err, MR_NO_MEMORY, "no memory for the rendered chat");
    }
    arena_release(&j.arena);
    return status;
}
