/* jinja_filter_select.c: filters that apply a filter or a test to each item. */
#include "text/jinja_filter.h"

/* The arguments without the first n. */
static struct arguments rest_of(const struct arguments *a, size_t n)
{
    struct arguments rest = *a;
    n = n < a->n ? n : a->n;
    rest.positional = n < a->n ? a->positional + n : NULL;
    rest.n -= n;
    return rest;
}

static const struct value *keyword(const struct arguments *a, const char *name)
{
    for (size_t i = 0; i < a->n_keyword; i++) {
        if (text_is(a->keyword[i].name, name))
            return &a->keyword[i].value;
    }
    return NULL;
}

static const struct builtin *named(struct jinja *j, struct value name, const struct builtin *(*find)(const struct text *))
{
    const struct text *t = call_text(j, name, "the name of a filter or test");
    const struct builtin *b = find(t);
    if (b == NULL)
        jinja_fail(j, "no filter or test named '%.*s'", (int)(t->n < 80 ? t->n : 80), t->s);
    return b;
}

static struct value map_attribute(struct jinja *j, const struct list *items, const struct arguments *a)
{
    const struct value *attribute = keyword(a, "attribute"), *otherwise = keyword(a, "default");
    if (attribute == NULL || a->n_keyword > 1 + (size_t)(otherwise != NULL))
        jinja_fail(j, "map: needs a filter or an attribute");
    struct list *l = list_make(j, items->n);
    for (size_t i = 0; i < items->n; i++)
        list_add(j, l, filter_attribute(j, items->item[i], *attribute, otherwise != NULL ? *otherwise : NO_VALUE));
    return filter_iterator(l);
}

static struct value filter_map(struct jinja *j, const struct call *c)
{
    const struct arguments *a = c->arguments;
    struct list *l = list_make(j, 0);
    if (!value_is_true(c->self))
        return filter_iterator(l);
    const struct list *items = value_items(j, c->self);
    if (a->n == 0)
        return map_attribute(j, items, a);
    const struct builtin *b = named(j, a->positional[0], builtin_filter);
    const struct arguments rest = rest_of(a, 1);
    for (size_t i = 0; i < items->n; i++)
        list_add(j, l, builtin_call(j, b, items->item[i], &rest));
    return filter_iterator(l);
}

/* Keep the items whose test gives `want`; by_attribute: the first argument names the attribute to test. */
static struct value choose(struct jinja *j, const struct call *c, bool by_attribute, bool want)
{
    const struct arguments *a = c->arguments;
    struct list *l = list_make(j, 0);
    if (!value_is_true(c->self))
        return filter_iterator(l);
    if (by_attribute && a->n == 0)
        jinja_fail(j, "missing parameter for the name of the attribute");
    const size_t n_before = by_attribute;
    const struct list *items = value_items(j, c->self);
    const struct builtin *test = a->n > n_before ? named(j, a->positional[n_before], builtin_test) : NULL;
    const struct arguments rest = rest_of(a, n_before + 1);
    for (size_t i = 0; i < items->n; i++) {
        const struct value v = by_attribute ? filter_attribute(j, items->item[i], a->positional[0], NO_VALUE) : items->item[i];
        if (value_is_true(test != NULL ? builtin_call(j, test, v, &rest) : v) == want)
            list_add(j, l, items->item[i]);
    }
    return filter_iterator(l);
}

static struct value filter_select(struct jinja *j, const struct call *c) { return choose(j, c, false, true); }
static struct value filter_reject(struct jinja *j, const struct call *c) { return choose(j, c, false, false); }
static struct value filter_selectattr(struct jinja *j, const struct call *c) { return choose(j, c, true, true); }
static struct value filter_rejectattr(struct jinja *j, const struct call *c) { return choose(j, c, true, false); }

const struct builtin select_filters[] = {
    {"map", filter_map, NULL},       {"reject", filter_reject, NULL},         {"rejectattr", filter_rejectattr, NULL},
    {"select", filter_select, NULL}, {"selectattr", filter_selectattr, NULL}, {NULL, NULL, NULL},
};
