/* jinja_macro.c: macros, and calls of whatever can be called. */
#include <string.h>

#include "text/jinja_eval.h"

struct macro {
    const struct node *node;
    struct scope *scope; /* where it was defined */
};

struct value macro_make(struct jinja *j, const struct node *n, struct scope *s)
{
    struct macro *m = jinja_alloc(j, sizeof *m);
    *m = (struct macro){n, s};
    return (struct value){.type = VALUE_MACRO, .macro = m};
}

const struct text *macro_name(struct jinja *j, const struct macro *m)
{
    (void)j;
    return m->node->name;
}

struct value macro_attribute(struct jinja *j, const struct macro *m, const struct text *name)
{
    const struct frame *f = m->node->frame;
    if (text_is(name, "name"))
        return value_text(m->node->name);
    if (text_is(name, "caller"))
        return value_bool(f->uses_caller);
    if (text_is(name, "catch_kwargs"))
        return value_bool(f->uses_kwargs);
    if (text_is(name, "catch_varargs"))
        return value_bool(f->uses_varargs);
    if (!text_is(name, "arguments"))
        return value_undefined(UNDEFINED_ATTRIBUTE, name);
    struct list *l = list_make(j, m->node->other.n);
    for (size_t i = 0; i < m->node->other.n; i++)
        list_add(j, l, value_text(m->node->other.item[i]->name));
    return value_list(VALUE_TUPLE, l);
}

/* The slot of parameter `name`, -1: there is none. Parameters come first in the frame. */
static int parameter_slot(const struct node *n, const struct text *name)
{
    for (size_t i = 0; i < n->other.n; i++) {
        if (text_equal(n->other.item[i]->name, name))
            return (int)i;
    }
    return -1;
}

/* A slot of the frame, NULL where a parameter has the name. */
static struct value *special_slot(const struct node *n, struct scope *s, const char *name)
{
    for (size_t i = n->other.n; i < n->frame->n; i++) {
        if (text_is(n->frame->slot[i].name, name))
            return &s->slot[i];
    }
    return NULL;
}

static void bind_positional(struct jinja *j, const struct node *n, struct scope *s, const struct arguments *a)
{
    struct list *rest = list_make(j, 0);
    for (size_t i = 0; i < a->n; i++) {
        if (i < n->other.n)
            s->slot[i] = a->positional[i];
        else
            list_add(j, rest, a->positional[i]);
    }
    if (rest->n > 0 && !n->frame->uses_varargs)
        jinja_fail(j, "the macro takes not more than %zu arguments", n->other.n);
    struct value *varargs = special_slot(n, s, "varargs");
    if (varargs != NULL)
        *varargs = value_list(VALUE_TUPLE, rest);
}

static void bind_keywords(struct jinja *j, const struct node *n, struct scope *s, const struct arguments *a)
{
    struct dict *rest = dict_make(j);
    struct value *caller = special_slot(n, s, "caller");
    for (size_t i = 0; i < a->n_keyword; i++) {
        const struct text *name = a->keyword[i].name;
        const int slot = parameter_slot(n, name);
        if (slot >= 0 && (size_t)slot < a->n)
            jinja_fail(j, "the macro got two values for '%.*s'", (int)(name->n < 80 ? name->n : 80), name->s);
        if (slot >= 0)
            s->slot[slot] = a->keyword[i].value;
        else if (caller != NULL && n->frame->uses_caller && text_is(name, "caller"))
            *caller = a->keyword[i].value;
        else if (n->frame->uses_kwargs)
            dict_set(j, rest, value_text(name), a->keyword[i].value);
        else
            jinja_fail(j, "the macro takes no keyword argument '%.*s'", (int)(name->n < 80 ? name->n : 80), name->s);
    }
    struct value *kwargs = special_slot(n, s, "kwargs");
    if (kwargs != NULL)
        *kwargs = value_dict(rest);
}

static void bind_defaults(struct jinja *j, const struct node *n, struct scope *s)
{
    for (size_t i = 0; i < n->other.n; i++) {
        const struct node *parameter = n->other.item[i];
        if (s->slot[i].type == VALUE_MISSING)
            s->slot[i] =
                parameter->a != NULL ? jinja_eval(j, parameter->a, s) : value_undefined(UNDEFINED_ARGUMENT, parameter->name);
    }
}

struct value macro_call(struct jinja *j, const struct macro *m, const struct arguments *arguments)
{
    jinja_enter(j);
    struct scope *s = scope_enter(j, m->node->frame, m->scope);
    bind_positional(j, m->node, s, arguments);
    bind_keywords(j, m->node, s, arguments);
    bind_defaults(j, m->node, s);
    const struct text *t = jinja_capture(j, &m->node->list, s);
    jinja_leave(j);
    return value_text(t);
}

static struct value joiner_call(struct jinja *j, struct cycler *joiner)
{
    if (joiner->at++ == 0)
        return value_literal(j, "");
    return joiner->items->item[0];
}

struct value jinja_call(struct jinja *j, struct value callee, const struct arguments *arguments)
{
    switch (callee.type) {
    case VALUE_FUNCTION:
        return builtin_call(j, callee.function->builtin, callee.function->self, arguments);
    case VALUE_MACRO:
        return macro_call(j, callee.macro, arguments);
    case VALUE_LOOP:
        return loop_call(j, callee.loop, arguments);
    case VALUE_JOINER:
        return joiner_call(j, callee.cycler);
    case VALUE_UNDEFINED:
        value_fail_undefined(j, callee);
    default:
        jinja_fail(j, "a %s cannot be called", value_type_name(callee));
    }
}

/* The length of the name that begins at *params, behind which *params then stands; 0: the end. */
static size_t next_parameter(const char **params, const char **name, bool *optional)
{
    *name = *params;
    const size_t all = strcspn(*params, " ");
    *params += all + ((*params)[all] == ' ');
    *optional = all > 0 && (*name)[all - 1] == '?';
    return all - *optional;
}

static void bind(struct jinja *j, const struct builtin *b, const struct arguments *a, struct value arg[])
{
    const char *params = b->params, *name;
    size_t n_parameter = 0, n_used = 0;
    bool optional;
    for (size_t n; (n = next_parameter(&params, &name, &optional)) > 0; n_parameter++) {
        if (n_parameter < a->n)
            arg[n_parameter] = a->positional[n_parameter];
        for (size_t i = 0; i < a->n_keyword; i++) {
            const struct text *keyword = a->keyword[i].name;
            if (*name == '_' || keyword->n != n || memcmp(keyword->s, name, n) != 0)
                continue;
            if (arg[n_parameter].type != VALUE_MISSING)
                jinja_fail(j, "%s() got two values for '%.*s'", b->name, (int)n, name);
            arg[n_parameter] = a->keyword[i].value;
            n_used++;
        }
        if (arg[n_parameter].type == VALUE_MISSING && !optional)
            jinja_fail(j, "%s() needs the argument '%.*s'", b->name, (int)n, name);
    }
    if (a->n > n_parameter)
        jinja_fail(j, "%s() takes at most %zu arguments, got %zu", b->name, n_parameter, a->n);
    if (n_used < a->n_keyword)
        jinja_fail(j, "%s() got an unknown keyword argument", b->name);
}

struct value builtin_call(struct jinja *j, const struct builtin *b, struct value self, const struct arguments *arguments)
{
    struct call c = {.self = self, .arguments = arguments};
    for (int i = 0; i < MAX_PARAMETERS; i++)
        c.arg[i] = NO_VALUE;
    if (b->params != NULL)
        bind(j, b, arguments, c.arg);
    jinja_enter(j);
    const struct value v = b->run(j, &c);
    jinja_leave(j);
    return v;
}

const struct builtin *builtin_find(const struct builtin *table, const struct text *name)
{
    for (; table->name != NULL; table++) {
        if (text_is(name, table->name))
            return table;
    }
    return NULL;
}

int64_t call_int(struct jinja *j, struct value v, const char *what, int64_t otherwise)
{
    if (v.type == VALUE_MISSING)
        return otherwise;
    if (!value_is_integral(v))
        jinja_fail(j, "%s must be an integer, not a %s", what, value_type_name(v));
    return value_integer(v);
}

const struct text *call_text(struct jinja *j, struct value v, const char *what)
{
    if (v.type != VALUE_TEXT)
        jinja_fail(j, "%s must be a string, not a %s", what, value_type_name(v));
    return v.text;
}

const struct text *call_text_or_none(struct jinja *j, struct value v, const char *what)
{
    return v.type == VALUE_MISSING || v.type == VALUE_NONE ? NULL : call_text(j, v, what);
}
