/* jinja_eval.c: the value of an expression. */
#include "text/jinja_eval.h"

#include <string.h>

static struct value find_variable(struct jinja *j, const struct text *name)
{
    const struct value *v = dict_get_text(j, j->context, name);
    if (v != NULL)
        return *v;
    const struct builtin *b = builtin_global(name);
    if (b == NULL)
        return NO_VALUE;
    struct function *f = jinja_alloc(j, sizeof *f);
    *f = (struct function){.builtin = b};
    return (struct value){.type = VALUE_FUNCTION, .function = f};
}

static struct scope *outer(struct scope *s, int hops)
{
    while (hops-- > 0)
        s = s->parent;
    return s;
}

struct scope *scope_enter(struct jinja *j, const struct frame *f, struct scope *parent)
{
    struct scope *s = jinja_alloc(j, sizeof *s + f->n * sizeof *s->slot);
    s->parent = parent;
    jinja_work(j, f->n);
    for (size_t i = 0; i < f->n; i++) {
        const struct slot *slot = &f->slot[i];
        s->slot[i] = NO_VALUE;
        if (slot->source == SLOT_CONTEXT)
            s->slot[i] = find_variable(j, slot->name);
        else if (slot->source == SLOT_OUTER)
            s->slot[i] = outer(s, slot->outer_hops)->slot[slot->outer_slot];
    }
    return s;
}

static struct value eval_name(const struct node *n, struct scope *s)
{
    const struct value v = outer(s, n->hops)->slot[n->slot];
    return v.type == VALUE_MISSING ? value_undefined(UNDEFINED_NAME, n->name) : v;
}

static struct value eval_items(struct jinja *j, const struct node *n, struct scope *s)
{
    struct list *l = list_make(j, n->list.n);
    for (size_t i = 0; i < n->list.n; i++)
        list_add(j, l, jinja_eval(j, n->list.item[i], s));
    return value_list(n->kind == NODE_TUPLE ? VALUE_TUPLE : VALUE_LIST, l);
}

static struct value eval_dict(struct jinja *j, const struct node *n, struct scope *s)
{
    struct dict *d = dict_make(j);
    for (size_t i = 0; i < n->list.n; i += 2) {
        const struct value key = jinja_eval(j, n->list.item[i], s);
        dict_set(j, d, key, jinja_eval(j, n->list.item[i + 1], s));
    }
    return value_dict(d);
}

static struct value eval_condition(struct jinja *j, const struct node *n, struct scope *s)
{
    if (value_is_true(jinja_eval(j, n->a, s)))
        return jinja_eval(j, n->b, s);
    if (n->c != NULL)
        return jinja_eval(j, n->c, s);
    return value_undefined(UNDEFINED_ELEMENT, text_literal(j, "value: the inline if has no else"));
}

static struct value eval_compare(struct jinja *j, const struct node *n, struct scope *s)
{
    struct value left = jinja_eval(j, n->a, s);
    for (size_t i = 0; i < n->list.n; i++) {
        const struct value right = jinja_eval(j, n->list.item[i]->a, s);
        if (!jinja_compare(j, n->list.item[i]->op, left, right))
            return value_bool(false);
        left = right;
    }
    return value_bool(true);
}

static struct value eval_concat(struct jinja *j, const struct node *n, struct scope *s)
{
    const struct text *t = text_literal(j, "");
    for (size_t i = 0; i < n->list.n; i++)
        t = text_concat(j, t, value_str(j, jinja_eval(j, n->list.item[i], s)));
    return value_text(t);
}

static struct value eval_slice(struct jinja *j, const struct node *n, struct scope *s)
{
    const struct node *part[] = {n->a, n->b, n->c};
    struct list *l = list_make(j, 3);
    for (size_t i = 0; i < 3; i++)
        list_add(j, l, part[i] != NULL ? jinja_eval(j, part[i], s) : value_none());
    return value_list(VALUE_SLICE, l);
}

static void add_keyword(struct jinja *j, struct arguments *out, const struct text *name, struct value v)
{
    for (size_t i = 0; i < out->n_keyword; i++) {
        if (text_equal(out->keyword[i].name, name))
            jinja_fail(j, "a call has two arguments named '%.*s'", (int)(name->n < 80 ? name->n : 80), name->s);
    }
    jinja_work(j, out->n_keyword + 1);
    struct keyword *keyword = jinja_alloc_array(j, out->n_keyword + 1, sizeof *keyword);
    if (out->n_keyword > 0)
        memcpy(keyword, out->keyword, out->n_keyword * sizeof *keyword);
    keyword[out->n_keyword] = (struct keyword){name, v};
    out->keyword = keyword;
    out->n_keyword++;
}

static void add_keywords(struct jinja *j, struct arguments *out, struct value v)
{
    if (v.type != VALUE_DICT)
        jinja_fail(j, "'**' needs a dict, not a %s", value_type_name(v));
    for (size_t i = 0; i < v.dict->n; i++) {
        if (v.dict->pair[i].key.type != VALUE_TEXT)
            jinja_fail(j, "the name of an argument must be a string");
        add_keyword(j, out, v.dict->pair[i].key.text, v.dict->pair[i].value);
    }
}

void jinja_eval_arguments(struct jinja *j, const struct node_list *list, struct scope *s, struct arguments *out)
{
    struct list *positional = list_make(j, list->n);
    *out = (struct arguments){0};
    for (size_t i = 0; i < list->n; i++) {
        const struct node *n = list->item[i];
        const struct value v = jinja_eval(j, n->a, s);
        if (n->op == '*') {
            const struct list *more = value_items(j, v);
            for (size_t k = 0; k < more->n; k++)
                list_add(j, positional, more->item[k]);
        } else if (n->op == 'x') {
            add_keywords(j, out, v);
        } else if (n->name != NULL) {
            add_keyword(j, out, n->name, v);
        } else {
            list_add(j, positional, v);
        }
    }
    out->positional = positional->item;
    out->n = positional->n;
}

static struct value eval_call(struct jinja *j, const struct node *n, struct scope *s)
{
    struct arguments arguments;
    const struct value callee = jinja_eval(j, n->a, s);
    jinja_eval_arguments(j, &n->list, s, &arguments);
    j->line = n->line;
    return jinja_call(j, callee, &arguments);
}

static struct value apply_builtin(struct jinja *j, const struct node *n, struct value v, struct scope *s)
{
    struct arguments arguments;
    if (n->builtin == NULL)
        jinja_fail(j, "no %s named '%.*s'", n->kind == NODE_FILTER ? "filter" : "test",
                   (int)(n->name->n < 80 ? n->name->n : 80), n->name->s);
    jinja_eval_arguments(j, &n->list, s, &arguments);
    j->line = n->line;
    return builtin_call(j, n->builtin, v, &arguments);
}

struct value jinja_eval_filters(struct jinja *j, const struct node *n, struct value held, struct scope *s)
{
    if (n == NULL)
        return held;
    jinja_enter(j);
    const struct value v = apply_builtin(j, n, jinja_eval_filters(j, n->a, held, s), s);
    jinja_leave(j);
    return v;
}

static struct value eval_sign(struct jinja *j, const struct node *n, struct scope *s)
{
    const struct value v = jinja_eval(j, n->a, s);
    if (v.type == VALUE_UNDEFINED)
        value_fail_undefined(j, v);
    if (!value_is_number(v))
        jinja_fail(j, "a %s has no sign", value_type_name(v));
    if (n->kind == NODE_MINUS)
        return jinja_negate(j, v);
    return v.type == VALUE_BOOL ? value_int(v.boolean) : v;
}

static struct value eval_node(struct jinja *j, const struct node *n, struct scope *s)
{
    struct value v;
    switch (n->kind) {
    case NODE_CONSTANT:
        return n->value;
    case NODE_NAME:
        return eval_name(n, s);
    case NODE_TUPLE:
    case NODE_LIST:
        return eval_items(j, n, s);
    case NODE_DICT:
        return eval_dict(j, n, s);
    case NODE_CONDITION:
        return eval_condition(j, n, s);
    case NODE_AND:
        v = jinja_eval(j, n->a, s);
        return value_is_true(v) ? jinja_eval(j, n->b, s) : v;
    case NODE_OR:
        v = jinja_eval(j, n->a, s);
        return value_is_true(v) ? v : jinja_eval(j, n->b, s);
    case NODE_NOT:
        return value_bool(!value_is_true(jinja_eval(j, n->a, s)));
    case NODE_COMPARE:
        return eval_compare(j, n, s);
    case NODE_BINARY:
        v = jinja_eval(j, n->a, s);
        return jinja_binary(j, n->op, v, jinja_eval(j, n->b, s));
    case NODE_MINUS:
    case NODE_PLUS:
        return eval_sign(j, n, s);
    case NODE_CONCAT:
        return eval_concat(j, n, s);
    case NODE_ATTRIBUTE:
        v = jinja_eval(j, n->a, s);
        return jinja_attribute(j, v, n->name);
    case NODE_ELEMENT:
        v = jinja_eval(j, n->a, s);
        return jinja_element(j, v, jinja_eval(j, n->b, s));
    case NODE_SLICE:
        return eval_slice(j, n, s);
    case NODE_CALL:
        return eval_call(j, n, s);
    default: /* NODE_FILTER, NODE_TEST */
        v = jinja_eval(j, n->a, s);
        return apply_builtin(j, n, v, s);
    }
}

struct value jinja_eval(struct jinja *j, const struct node *n, struct scope *s)
{
    jinja_enter(j);
    jinja_work(j, 1);
    j->line = n->line;
    const struct value v = eval_node(j, n, s);
    jinja_leave(j);
    return v;
}

void jinja_assign(struct jinja *j, const struct node *target, struct value v, struct scope *s)
{
    if (target->kind == NODE_NAME) {
        s->slot[target->slot] = v;
        return;
    }
    if (target->kind == NODE_MEMBER) {
        const struct value space = eval_name(target->a, s);
        if (space.type != VALUE_NAMESPACE)
            jinja_fail(j, "cannot assign an attribute of a %s: it is no namespace", value_type_name(space));
        if (target->name->s[0] == '_')
            jinja_fail(j, "the attributes of a namespace cannot begin with '_'");
        dict_set(j, space.dict, value_text(target->name), v);
        return;
    }
    const struct list *items = value_items(j, v);
    if (items->n != target->list.n)
        jinja_fail(j, "cannot unpack %zu values into %zu names", items->n, target->list.n);
    for (size_t i = 0; i < items->n; i++)
        jinja_assign(j, target->list.item[i], items->item[i], s);
}
