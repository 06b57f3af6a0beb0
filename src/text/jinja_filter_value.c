/* jinja_filter_value.c: filters that take any value; the list of all filters. */
#include "text/jinja_filter.h"
#include "text/jinja_method.h"

static struct value filter_default(struct jinja *j, const struct call *c)
{
    const bool replace = c->self.type == VALUE_UNDEFINED || (value_is_true(c->arg[1]) && !value_is_true(c->self));
    if (!replace)
        return c->self;
    return c->arg[0].type == VALUE_MISSING ? value_literal(j, "") : c->arg[0];
}

static struct value filter_attr(struct jinja *j, const struct call *c)
{
    const struct text *name = value_str(j, c->arg[0]);
    if (c->self.type == VALUE_DICT) /* attributes only, no keys */
        return jinja_attribute(j, value_dict(dict_make(j)), name);
    return jinja_attribute(j, c->self, name);
}

static struct value filter_string(struct jinja *j, const struct call *c) { return value_text(value_str(j, c->self)); }

static struct value filter_length(struct jinja *j, const struct call *c)
{
    const int64_t n = value_length(j, c->self);
    if (n < 0)
        jinja_fail(j, "a %s has no length", value_type_name(c->self));
    return value_int(n);
}

static struct value filter_list(struct jinja *j, const struct call *c)
{
    const struct list *items = value_items(j, c->self);
    struct list *l = list_make(j, items->n);
    for (size_t i = 0; i < items->n; i++)
        list_add(j, l, items->item[i]);
    return value_list(VALUE_LIST, l);
}

static struct value filter_items(struct jinja *j, const struct call *c)
{
    if (c->self.type == VALUE_UNDEFINED)
        return filter_iterator(list_make(j, 0));
    if (c->self.type != VALUE_DICT)
        jinja_fail(j, "items: a %s has no pairs", value_type_name(c->self));
    return filter_iterator(dict_view(j, c->self.dict, 'i').list);
}

/* Sorting pairs by their first or second member. */
struct pair_order {
    int member;
    bool case_sensitive;
};

static int by_member(struct jinja *j, const void *context, struct value a, struct value b)
{
    const struct pair_order *o = context;
    return value_compare(j, filter_key(j, a.list->item[o->member], o->case_sensitive),
                         filter_key(j, b.list->item[o->member], o->case_sensitive));
}

static struct value filter_dictsort(struct jinja *j, const struct call *c)
{
    struct pair_order order = {.case_sensitive = value_is_true(c->arg[0])};
    if (c->arg[1].type != VALUE_MISSING) {
        const struct text *by = call_text(j, c->arg[1], "dictsort: by");
        if (!text_is(by, "key") && !text_is(by, "value"))
            jinja_fail(j, "dictsort: by must be 'key' or 'value'");
        order.member = text_is(by, "value");
    }
    if (c->self.type == VALUE_UNDEFINED)
        value_fail_undefined(j, c->self);
    if (c->self.type != VALUE_DICT)
        jinja_fail(j, "dictsort: a %s is no dict", value_type_name(c->self));
    struct list *l = dict_view(j, c->self.dict, 'i').list;
    list_sort(j, l, by_member, &order, value_is_true(c->arg[2]));
    return value_list(VALUE_LIST, l);
}

static const struct text *json_indent(struct jinja *j, struct value v)
{
    if (v.type == VALUE_MISSING || v.type == VALUE_NONE)
        return NULL;
    if (v.type == VALUE_TEXT)
        return v.text;
    const int64_t n = call_int(j, v, "tojson: indent", 0);
    struct text_buffer *b = text_begin(j);
    text_add_repeated(j, b, text_literal(j, " "), n > 0 ? (size_t)n : 0);
    return text_end(j, b);
}

static struct value filter_tojson(struct jinja *j, const struct call *c)
{
    struct json_style style = {.ascii = value_is_true(c->arg[0]), .sort_keys = value_is_true(c->arg[3])};
    style.indent = json_indent(j, c->arg[1]);
    style.item_separator = text_literal(j, style.indent == NULL ? ", " : ",");
    style.key_separator = text_literal(j, ": ");
    if (c->arg[2].type != VALUE_MISSING && c->arg[2].type != VALUE_NONE) {
        const struct list *separators = value_items(j, c->arg[2]);
        if (separators->n != 2)
            jinja_fail(j, "tojson: separators must be two strings");
        style.item_separator = call_text(j, separators->item[0], "tojson: a separator");
        style.key_separator = call_text(j, separators->item[1], "tojson: a separator");
    }
    return value_text(value_to_json(j, c->self, &style));
}

const struct builtin value_filters[] = {
    {"attr", filter_attr, "name"},
    {"count", filter_length, ""},
    {"d", filter_default, "default_value? boolean?"},
    {"default", filter_default, "default_value? boolean?"},
    {"dictsort", filter_dictsort, "case_sensitive? by? reverse?"},
    {"items", filter_items, ""},
    {"length", filter_length, ""},
    {"list", filter_list, ""},
    {"string", filter_string, ""},
    {"tojson", filter_tojson, "ensure_ascii? indent? separators? sort_keys?"},
    {NULL, NULL, NULL},
};

const struct builtin *builtin_filter(const struct text *name)
{
    const struct builtin *const tables[] = {value_filters, text_filters, number_filters, sequence_filters, select_filters};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const struct builtin *b = builtin_find(tables[i], name);
        if (b != NULL)
            return b;
    }
    return NULL;
}
