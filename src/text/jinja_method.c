/* jinja_method.c: methods of lists, dicts and numbers. */
#include <math.h>
#include <string.h>

#include "text/jinja_method.h"

static struct value list_count(struct jinja *j, const struct call *c)
{
    int64_t n = 0;
    for (size_t i = 0; i < c->self.list->n; i++)
        n += value_equal(j, c->self.list->item[i], c->arg[0]);
    return value_int(n);
}

static struct value list_index(struct jinja *j, const struct call *c)
{
    const int64_t n = (int64_t)c->self.list->n;
    int64_t from = call_int(j, c->arg[1], "start", 0), to = call_int(j, c->arg[2], "stop", n);
    from = from < -n ? 0 : from < 0 ? from + n : from;
    to = to < -n ? 0 : to < 0 ? to + n : to > n ? n : to;
    for (int64_t i = from; i < to; i++) {
        if (value_equal(j, c->self.list->item[i], c->arg[0]))
            return value_int(i);
    }
    jinja_fail(j, "index(): the list does not hold the value");
}

static struct value list_copy(struct jinja *j, const struct call *c)
{
    struct list *l = list_make(j, c->self.list->n);
    for (size_t i = 0; i < c->self.list->n; i++)
        list_add(j, l, c->self.list->item[i]);
    return value_list(VALUE_LIST, l);
}

struct value dict_view(struct jinja *j, const struct dict *d, char kind)
{
    struct list *l = list_make(j, d->n);
    for (size_t i = 0; i < d->n; i++) {
        const struct pair *p = &d->pair[i];
        list_add(j, l, kind == 'k' ? p->key : kind == 'v' ? p->value : value_pair(j, p->key, p->value));
    }
    return (struct value){.type = VALUE_VIEW, .extra = (unsigned char)kind, .list = l};
}

static struct value dict_keys(struct jinja *j, const struct call *c) { return dict_view(j, c->self.dict, 'k'); }
static struct value dict_values(struct jinja *j, const struct call *c) { return dict_view(j, c->self.dict, 'v'); }
static struct value dict_items(struct jinja *j, const struct call *c) { return dict_view(j, c->self.dict, 'i'); }

static struct value dict_get_method(struct jinja *j, const struct call *c)
{
    if (!value_is_hashable(c->arg[0]))
        jinja_fail(j, "a %s cannot be the key of a dict", value_type_name(c->arg[0]));
    const struct value *found = dict_get(j, c->self.dict, c->arg[0]);
    if (found != NULL)
        return *found;
    return c->arg[1].type != VALUE_MISSING ? c->arg[1] : value_none();
}

static struct value dict_copy(struct jinja *j, const struct call *c)
{
    struct dict *d = dict_make(j);
    for (size_t i = 0; i < c->self.dict->n; i++)
        dict_set(j, d, c->self.dict->pair[i].key, c->self.dict->pair[i].value);
    return value_dict(d);
}

static struct value dict_fromkeys(struct jinja *j, const struct call *c)
{
    struct dict *d = dict_make(j);
    const struct list *keys = value_items(j, c->arg[0]);
    for (size_t i = 0; i < keys->n; i++)
        dict_set(j, d, keys->item[i], c->arg[1].type != VALUE_MISSING ? c->arg[1] : value_none());
    return value_dict(d);
}

static struct value number_bit_length(struct jinja *j, const struct call *c)
{
    (void)j;
    const int64_t i = value_integer(c->self);
    uint64_t magnitude = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    int n = 0;
    for (; magnitude > 0; magnitude >>= 1)
        n++;
    return value_int(n);
}

static struct value number_conjugate(struct jinja *j, const struct call *c) { return (void)j, c->self; }

static struct value number_is_integer(struct jinja *j, const struct call *c)
{
    (void)j;
    return value_bool(isfinite(c->self.real) && floor(c->self.real) == c->self.real);
}

static struct value cycler_next(struct jinja *j, const struct call *c)
{
    (void)j;
    struct cycler *cycler = c->self.cycler;
    const struct value v = cycler->items->item[cycler->at];
    cycler->at = (cycler->at + 1) % cycler->items->n;
    return v;
}

static struct value cycler_reset(struct jinja *j, const struct call *c)
{
    (void)j;
    c->self.cycler->at = 0;
    return value_none();
}

static const struct builtin list_methods[] = {
    {"count", list_count, "_"}, {"index", list_index, "_ _? _?"}, {"copy", list_copy, ""}, {NULL, NULL, NULL}};
static const struct builtin tuple_methods[] = {
    {"count", list_count, "_"}, {"index", list_index, "_ _? _?"}, {NULL, NULL, NULL}};
static const struct builtin dict_methods[] = {
    {"get", dict_get_method, "_ _?"}, {"items", dict_items, ""},           {"keys", dict_keys, ""}, {"values", dict_values, ""},
    {"copy", dict_copy, ""},          {"fromkeys", dict_fromkeys, "_ _?"}, {NULL, NULL, NULL}};
static const struct builtin int_methods[] = {
    {"bit_length", number_bit_length, ""}, {"conjugate", number_conjugate, ""}, {NULL, NULL, NULL}};
static const struct builtin float_methods[] = {
    {"is_integer", number_is_integer, ""}, {"conjugate", number_conjugate, ""}, {NULL, NULL, NULL}};
static const struct builtin cycler_methods[] = {{"next", cycler_next, ""}, {"reset", cycler_reset, ""}, {NULL, NULL, NULL}};
/* The function `dict` has one method. */
static const struct builtin function_methods[] = {{"fromkeys", dict_fromkeys, "_ _?"}, {NULL, NULL, NULL}};

const struct builtin *builtin_method(struct value self, const struct text *name)
{
    static const struct builtin *const tables[] = {
        [VALUE_TEXT] = text_methods, [VALUE_LIST] = list_methods,     [VALUE_TUPLE] = tuple_methods,
        [VALUE_DICT] = dict_methods, [VALUE_INT] = int_methods,       [VALUE_FLOAT] = float_methods,
        [VALUE_BOOL] = int_methods,  [VALUE_CYCLER] = cycler_methods, [VALUE_JOINER] = NULL};
    if (self.type == VALUE_FUNCTION)
        return strcmp(self.function->builtin->name, "dict") == 0 ? builtin_find(function_methods, name) : NULL;
    if (self.type == VALUE_TEXT && builtin_find(text_tests, name) != NULL)
        return builtin_find(text_tests, name);
    return tables[self.type] != NULL ? builtin_find(tables[self.type], name) : NULL;
}
