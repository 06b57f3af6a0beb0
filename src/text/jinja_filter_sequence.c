/* jinja_filter_sequence.c: filters of sequences as a whole. */
#include "text/jinja_filter.h"
#include "text/jinja_method.h"
#include "text/jinja_syntax.h"
#include "text/jinja_unicode.h"

struct value filter_iterator(struct list *l)
{
    l->next = 0;
    return value_list(VALUE_ITERATOR, l);
}

static bool is_number_text(const struct text *t)
{
    for (size_t i = 0; i < t->n; i++) {
        if (t->s[i] < '0' || t->s[i] > '9')
            return false;
    }
    return t->n > 0 && t->n < 10;
}

static int64_t number_of(const struct text *t)
{
    int64_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n = n * 10 + (t->s[i] - '0');
    return n;
}

struct value filter_attribute(struct jinja *j, struct value item, struct value attribute, struct value otherwise)
{
    if (attribute.type == VALUE_MISSING || attribute.type == VALUE_NONE)
        return item;
    if (attribute.type != VALUE_TEXT)
        return jinja_element(j, item, attribute);
    const struct text *path = attribute.text, *dot = text_literal(j, ".");
    for (size_t from = 0; from <= path->n;) {
        size_t to = text_find(j, path, from, path->n, dot);
        to = to == SIZE_MAX ? path->n : to;
        const struct text *name = text_slice(j, path, from, to);
        item = jinja_element(j, item, is_number_text(name) ? value_int(number_of(name)) : value_text(name));
        if (item.type == VALUE_UNDEFINED && otherwise.type != VALUE_MISSING && otherwise.type != VALUE_NONE)
            item = otherwise;
        from = to + 1;
    }
    return item;
}

struct value filter_key(struct jinja *j, struct value v, bool case_sensitive)
{
    return v.type == VALUE_TEXT && !case_sensitive ? value_text(text_change_case(j, v.text, CASE_LOWER)) : v;
}

static struct value filter_first(struct jinja *j, const struct call *c)
{
    if (c->self.type == VALUE_ITERATOR && c->self.list->next < c->self.list->n)
        return c->self.list->item[c->self.list->next++];
    const struct list *l = value_items(j, c->self);
    return l->n > 0 ? l->item[0] : value_undefined(UNDEFINED_ELEMENT, text_literal(j, "first item: the sequence is empty"));
}

static struct value filter_last(struct jinja *j, const struct call *c)
{
    if (c->self.type == VALUE_ITERATOR)
        jinja_fail(j, "last: a generator has no last item");
    const struct list *l = value_items(j, c->self);
    return l->n > 0 ? l->item[l->n - 1]
                    : value_undefined(UNDEFINED_ELEMENT, text_literal(j, "last item: the sequence is empty"));
}

static struct value filter_reverse(struct jinja *j, const struct call *c)
{
    const struct list *items = value_items(j, c->self);
    if (c->self.type == VALUE_TEXT) {
        struct text_buffer *b = text_begin(j);
        for (size_t i = items->n; i-- > 0;)
            text_add_text(j, b, items->item[i].text);
        return value_text(text_end(j, b));
    }
    struct list *l = list_make(j, items->n);
    for (size_t i = items->n; i-- > 0;)
        list_add(j, l, items->item[i]);
    return c->self.type == VALUE_ITERATOR || c->self.type == VALUE_UNDEFINED ? value_list(VALUE_LIST, l) : filter_iterator(l);
}

static struct list *attributes_of(struct jinja *j, const struct list *items, struct value attribute)
{
    struct list *l = list_make(j, items->n);
    for (size_t i = 0; i < items->n; i++)
        list_add(j, l, filter_attribute(j, items->item[i], attribute, NO_VALUE));
    return l;
}

static struct value filter_join(struct jinja *j, const struct call *c)
{
    const struct text *separator = c->arg[0].type == VALUE_MISSING ? text_literal(j, "") : value_str(j, c->arg[0]);
    return value_text(text_join(j, separator, attributes_of(j, value_items(j, c->self), c->arg[1])));
}

static struct value filter_sum(struct jinja *j, const struct call *c)
{
    const struct list *l = attributes_of(j, value_items(j, c->self), c->arg[0]);
    struct value sum = c->arg[1].type == VALUE_MISSING ? value_int(0) : c->arg[1];
    if (sum.type == VALUE_TEXT)
        jinja_fail(j, "sum: strings are not summed, but joined");
    for (size_t i = 0; i < l->n; i++)
        sum = jinja_binary(j, OP_ADD, sum, l->item[i]);
    return sum;
}

/* What min, max, sort, unique and groupby compare by: a tuple for each item, (key, item). */
static struct list *keyed(struct jinja *j, struct value v, struct value attribute, struct value otherwise, bool case_sensitive)
{
    const struct list *items = value_items(j, v);
    struct list *l = list_make(j, items->n);
    for (size_t i = 0; i < items->n; i++) {
        const struct value key = filter_attribute(j, items->item[i], attribute, otherwise);
        list_add(j, l, value_pair(j, filter_key(j, key, case_sensitive), items->item[i]));
    }
    return l;
}

static struct value extreme(struct jinja *j, const struct call *c, int sign)
{
    const struct list *l = keyed(j, c->self, c->arg[1], NO_VALUE, value_is_true(c->arg[0]));
    if (l->n == 0)
        return value_undefined(UNDEFINED_ELEMENT, text_literal(j, "aggregated item: the sequence is empty"));
    size_t best = 0;
    for (size_t i = 1; i < l->n; i++) {
        if (sign * value_compare(j, l->item[i].list->item[0], l->item[best].list->item[0]) > 0)
            best = i;
    }
    return l->item[best].list->item[1];
}

static struct value filter_max(struct jinja *j, const struct call *c) { return extreme(j, c, 1); }
static struct value filter_min(struct jinja *j, const struct call *c) { return extreme(j, c, -1); }

static int by_key(struct jinja *j, const void *context, struct value a, struct value b)
{
    (void)context;
    return value_compare(j, a.list->item[0], b.list->item[0]);
}

/* attribute may name several with commas between; the key is then a list of theirs. */
static struct value sort_key(struct jinja *j, struct value item, struct value attribute, bool case_sensitive)
{
    struct list *keys = list_make(j, 1);
    const struct text *all = attribute.type == VALUE_TEXT ? attribute.text : NULL, *comma = text_literal(j, ",");
    for (size_t from = 0; all != NULL && from <= all->n;) {
        size_t to = text_find(j, all, from, all->n, comma);
        to = to == SIZE_MAX ? all->n : to;
        const struct value one = filter_attribute(j, item, value_text(text_slice(j, all, from, to)), NO_VALUE);
        list_add(j, keys, filter_key(j, one, case_sensitive));
        from = to + 1;
    }
    if (all == NULL)
        list_add(j, keys, filter_key(j, filter_attribute(j, item, attribute, NO_VALUE), case_sensitive));
    return value_list(VALUE_LIST, keys);
}

static struct value filter_sort(struct jinja *j, const struct call *c)
{
    const struct list *items = value_items(j, c->self);
    struct list *l = list_make(j, items->n), *sorted = list_make(j, items->n);
    for (size_t i = 0; i < items->n; i++)
        list_add(j, l, value_pair(j, sort_key(j, items->item[i], c->arg[2], value_is_true(c->arg[1])), items->item[i]));
    list_sort(j, l, by_key, NULL, value_is_true(c->arg[0]));
    for (size_t i = 0; i < l->n; i++)
        list_add(j, sorted, l->item[i].list->item[1]);
    return value_list(VALUE_LIST, sorted);
}

static struct value filter_unique(struct jinja *j, const struct call *c)
{
    const struct list *l = keyed(j, c->self, c->arg[1], NO_VALUE, value_is_true(c->arg[0]));
    struct dict *seen = dict_make(j);
    struct list *unique = list_make(j, 0);
    for (size_t i = 0; i < l->n; i++) {
        const struct value key = l->item[i].list->item[0];
        if (!value_is_hashable(key))
            jinja_fail(j, "unique: a %s cannot be compared so", value_type_name(key));
        if (dict_get(j, seen, key) != NULL)
            continue;
        dict_set(j, seen, key, value_none());
        list_add(j, unique, l->item[i].list->item[1]);
    }
    return filter_iterator(unique);
}

static struct value filter_groupby(struct jinja *j, const struct call *c)
{
    const bool case_sensitive = value_is_true(c->arg[2]);
    struct list *l = keyed(j, c->self, c->arg[0], c->arg[1], case_sensitive);
    list_sort(j, l, by_key, NULL, false);
    struct list *groups = list_make(j, 0);
    for (size_t i = 0; i < l->n;) {
        const struct value key = l->item[i].list->item[0];
        struct list *members = list_make(j, 0);
        const struct value name = filter_attribute(j, l->item[i].list->item[1], c->arg[0], c->arg[1]);
        for (; i < l->n && value_equal(j, l->item[i].list->item[0], key); i++)
            list_add(j, members, l->item[i].list->item[1]);
        struct value group = value_pair(j, name, value_list(VALUE_LIST, members));
        group.extra = VALUE_GROUP;
        list_add(j, groups, group);
    }
    return value_list(VALUE_LIST, groups);
}

static struct value filter_batch(struct jinja *j, const struct call *c)
{
    const struct list *items = value_items(j, c->self);
    const int64_t n = call_int(j, c->arg[0], "batch: linecount", 0);
    struct list *batches = list_make(j, 0), *batch = list_make(j, 0);
    for (size_t i = 0; i < items->n; i++) {
        if ((int64_t)batch->n == n) {
            list_add(j, batches, value_list(VALUE_LIST, batch));
            batch = list_make(j, 0);
        }
        list_add(j, batch, items->item[i]);
    }
    if (batch->n > 0) {
        const bool fill = c->arg[1].type != VALUE_MISSING && c->arg[1].type != VALUE_NONE;
        while (fill && (int64_t)batch->n < n)
            list_add(j, batch, c->arg[1]);
        list_add(j, batches, value_list(VALUE_LIST, batch));
    }
    return filter_iterator(batches);
}

static struct value filter_slice(struct jinja *j, const struct call *c)
{
    const struct list *items = value_items(j, c->self);
    const int64_t n_slice = call_int(j, c->arg[0], "slice: slices", 0);
    if (n_slice <= 0)
        jinja_fail(j, "slice: needs a number above 0");
    const int64_t each = (int64_t)items->n / n_slice, longer = (int64_t)items->n % n_slice;
    struct list *slices = list_make(j, 0);
    for (int64_t i = 0, at = 0; i < n_slice; i++) {
        struct list *l = list_make(j, (size_t)each + 1);
        for (int64_t k = 0; k < each + (i < longer); k++)
            list_add(j, l, items->item[at++]);
        if (c->arg[1].type != VALUE_MISSING && c->arg[1].type != VALUE_NONE && i >= longer)
            list_add(j, l, c->arg[1]);
        list_add(j, slices, value_list(VALUE_LIST, l));
    }
    return filter_iterator(slices);
}

const struct builtin sequence_filters[] = {
    {"batch", filter_batch, "linecount fill_with?"},
    {"first", filter_first, ""},
    {"groupby", filter_groupby, "attribute default? case_sensitive?"},
    {"join", filter_join, "d? attribute?"},
    {"last", filter_last, ""},
    {"max", filter_max, "case_sensitive? attribute?"},
    {"min", filter_min, "case_sensitive? attribute?"},
    {"reverse", filter_reverse, ""},
    {"slice", filter_slice, "slices fill_with?"},
    {"sort", filter_sort, "reverse? case_sensitive? attribute?"},
    {"sum", filter_sum, "attribute? start?"},
    {"unique", filter_unique, "case_sensitive? attribute?"},
    {NULL, NULL, NULL},
};
