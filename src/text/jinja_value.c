/* jinja_value.c: lists, dicts, truth, equality and order. */
#include "text/jinja_value.h"

#include <math.h>
#include <string.h>

struct list *list_make(struct jinja *j, size_t capacity)
{
    struct list *l = jinja_alloc(j, sizeof *l);
    *l = (struct list){.item = jinja_alloc_array(j, capacity, sizeof *l->item), .capacity = capacity};
    return l;
}

void list_add(struct jinja *j, struct list *l, struct value v)
{
    if (l->n == l->capacity) {
        const size_t capacity = 2 * l->capacity + 4;
        struct value *item = jinja_alloc_array(j, capacity, sizeof *item);
        if (l->n > 0)
            memcpy(item, l->item, l->n * sizeof *item);
        l->item = item;
        l->capacity = capacity;
    }
    jinja_work(j, 1);
    l->item[l->n++] = v;
}

struct dict *dict_make(struct jinja *j)
{
    struct dict *d = jinja_alloc(j, sizeof *d);
    *d = (struct dict){0};
    return d;
}

bool value_is_hashable(struct value v)
{
    if (v.type == VALUE_TUPLE) {
        for (size_t i = 0; i < v.list->n; i++) {
            if (!value_is_hashable(v.list->item[i]))
                return false;
        }
    }
    return v.type != VALUE_LIST && v.type != VALUE_DICT && v.type != VALUE_SLICE && v.type != VALUE_VIEW;
}

static uint64_t mix_hash(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

/* Equal values have equal hashes: a whole float hashes as the integer. */
static uint64_t hash(struct jinja *j, struct value v)
{
    uint64_t h = v.type;
    if (v.type == VALUE_TEXT) {
        jinja_work(j, v.text->n / JINJA_WORK_BYTES);
        for (size_t i = 0; i < v.text->n; i++)
            h = (h ^ (unsigned char)v.text->s[i]) * 0x100000001b3u;
        return mix_hash(h, v.text->n);
    }
    if (value_is_number(v)) {
        const double d = value_real(v);
        uint64_t bits;
        memcpy(&bits, &d, sizeof bits);
        return mix_hash(VALUE_INT, d == 0 ? 0 : bits);
    }
    if (v.type == VALUE_TUPLE) {
        jinja_enter(j);
        for (size_t i = 0; i < v.list->n; i++)
            h = mix_hash(h, hash(j, v.list->item[i]));
        jinja_leave(j);
        jinja_work(j, v.list->n);
    }
    return h;
}

/* The slot of the key, or the empty slot where it would go. */
static uint32_t *find_slot(struct jinja *j, const struct dict *d, struct value key)
{
    size_t i = hash(j, key) & (d->n_slot - 1);
    while (d->slot[i] != 0 && !value_equal(j, d->pair[d->slot[i] - 1].key, key)) {
        jinja_work(j, 1);
        i = (i + 1) & (d->n_slot - 1);
    }
    return &d->slot[i];
}

static void index_pairs(struct jinja *j, struct dict *d)
{
    d->n_slot = 4 * d->capacity;
    d->slot = jinja_alloc_array(j, d->n_slot, sizeof *d->slot);
    memset(d->slot, 0, d->n_slot * sizeof *d->slot);
    for (size_t i = 0; i < d->n; i++)
        *find_slot(j, d, d->pair[i].key) = (uint32_t)i + 1;
}

const struct value *dict_get(struct jinja *j, const struct dict *d, struct value key)
{
    if (d->slot != NULL) {
        const uint32_t slot = *find_slot(j, d, key);
        return slot != 0 ? &d->pair[slot - 1].value : NULL;
    }
    for (size_t i = 0; i < d->n; i++) {
        if (value_equal(j, d->pair[i].key, key))
            return &d->pair[i].value;
    }
    return NULL;
}

const struct value *dict_get_text(struct jinja *j, const struct dict *d, const struct text *key)
{
    return dict_get(j, d, value_text(key));
}

void dict_set(struct jinja *j, struct dict *d, struct value key, struct value v)
{
    if (!value_is_hashable(key))
        jinja_fail(j, "a %s cannot be the key of a dict", value_type_name(key));
    struct value *old = (struct value *)dict_get(j, d, key);
    if (old != NULL) {
        *old = v;
        return;
    }
    jinja_work(j, 1);
    if (d->n == d->capacity) {
        d->capacity = d->capacity == 0 ? 8 : 2 * d->capacity;
        struct pair *pair = jinja_alloc_array(j, d->capacity, sizeof *pair);
        if (d->n > 0)
            memcpy(pair, d->pair, d->n * sizeof *pair);
        d->pair = pair;
        if (d->n > 0)
            index_pairs(j, d);
    }
    d->pair[d->n++] = (struct pair){key, v};
    if (d->slot != NULL)
        *find_slot(j, d, key) = (uint32_t)d->n;
}

static struct list *characters(struct jinja *j, const struct text *t)
{
    struct list *l = list_make(j, text_length(j, t));
    for (size_t at = 0, n; at < t->n; at += n) {
        text_code(t, at, &n);
        list_add(j, l, value_text(text_slice(j, t, at, at + n)));
    }
    return l;
}

static struct list *range_items(struct jinja *j, const struct range *r)
{
    struct list *l = list_make(j, r->n);
    for (size_t i = 0; i < r->n; i++)
        list_add(j, l, value_int(r->start + (int64_t)i * r->step));
    return l;
}

struct list *value_try_items(struct jinja *j, struct value v)
{
    struct list *l;
    switch (v.type) {
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_VIEW:
        return v.list;
    case VALUE_UNDEFINED:
        return list_make(j, 0);
    case VALUE_TEXT:
        return characters(j, v.text);
    case VALUE_RANGE:
        return range_items(j, v.range);
    case VALUE_ITERATOR:
        l = list_make(j, 0);
        *l = (struct list){.item = v.list->item + v.list->next, .n = v.list->n - v.list->next};
        v.list->next = v.list->n;
        return l;
    case VALUE_DICT:
        l = list_make(j, v.dict->n);
        for (size_t i = 0; i < v.dict->n; i++)
            list_add(j, l, v.dict->pair[i].key);
        return l;
    default:
        return NULL;
    }
}

struct list *value_items(struct jinja *j, struct value v)
{
    struct list *l = value_try_items(j, v);
    if (l == NULL)
        jinja_fail(j, "a %s cannot be iterated", value_type_name(v));
    return l;
}

int64_t value_length(struct jinja *j, struct value v)
{
    switch (v.type) {
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_VIEW:
        return (int64_t)v.list->n;
    case VALUE_DICT:
        return (int64_t)v.dict->n;
    case VALUE_TEXT:
        return (int64_t)text_length(j, v.text);
    case VALUE_RANGE:
        return (int64_t)v.range->n;
    case VALUE_UNDEFINED:
        return 0;
    default:
        return -1;
    }
}

bool value_is_true(struct value v)
{
    switch (v.type) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOL:
        return v.boolean;
    case VALUE_INT:
        return v.integer != 0;
    case VALUE_FLOAT:
        return v.real != 0;
    case VALUE_TEXT:
        return v.text->n > 0;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_VIEW:
        return v.list->n > 0;
    case VALUE_DICT:
        return v.dict->n > 0;
    case VALUE_RANGE:
        return v.range->n > 0;
    default:
        return true;
    }
}

bool value_is_number(struct value v) { return v.type == VALUE_BOOL || v.type == VALUE_INT || v.type == VALUE_FLOAT; }

bool value_is_integral(struct value v) { return v.type == VALUE_BOOL || v.type == VALUE_INT; }

int64_t value_integer(struct value v) { return v.type == VALUE_BOOL ? v.boolean : v.integer; }

double value_real(struct value v) { return v.type == VALUE_FLOAT ? v.real : (double)value_integer(v); }

const char *value_type_name(struct value v)
{
    static const char *const name[] = {
        [VALUE_MISSING] = "missing value",
        [VALUE_UNDEFINED] = "undefined value",
        [VALUE_NONE] = "None",
        [VALUE_BOOL] = "bool",
        [VALUE_INT] = "int",
        [VALUE_FLOAT] = "float",
        [VALUE_TEXT] = "str",
        [VALUE_LIST] = "list",
        [VALUE_TUPLE] = "tuple",
        [VALUE_DICT] = "dict",
        [VALUE_VIEW] = "dict view",
        [VALUE_ITERATOR] = "generator",
        [VALUE_RANGE] = "range",
        [VALUE_NAMESPACE] = "namespace",
        [VALUE_SLICE] = "slice",
        [VALUE_LOOP] = "loop",
        [VALUE_MACRO] = "macro",
        [VALUE_FUNCTION] = "function",
        [VALUE_CYCLER] = "cycler",
        [VALUE_JOINER] = "joiner",
    };
    return name[v.type];
}

void value_fail_undefined(struct jinja *j, struct value v)
{
    const char *s = v.text != NULL ? v.text->s : "";
    const int n = v.text != NULL ? (int)(v.text->n < 200 ? v.text->n : 200) : 0;
    switch (v.extra) {
    case UNDEFINED_NAME:
        jinja_fail(j, "'%.*s' is undefined", n, s);
    case UNDEFINED_UNSAFE:
        jinja_fail(j, "'%.*s' is an attribute that templates may not use", n, s);
    case UNDEFINED_ARGUMENT:
        jinja_fail(j, "parameter '%.*s' was not provided", n, s);
    case UNDEFINED_ELEMENT:
        jinja_fail(j, "there is no %.*s", n, s);
    default:
        jinja_fail(j, "there is no attribute or key '%.*s'", n, s);
    }
}

static bool lists_equal(struct jinja *j, const struct list *a, const struct list *b)
{
    if (a->n != b->n)
        return false;
    jinja_enter(j);
    size_t i = 0;
    while (i < a->n && value_equal(j, a->item[i], b->item[i]))
        i++;
    jinja_leave(j);
    return i == a->n;
}

static bool dicts_equal(struct jinja *j, const struct dict *a, const struct dict *b)
{
    if (a->n != b->n)
        return false;
    jinja_enter(j);
    size_t i = 0;
    for (; i < a->n; i++) {
        const struct value *other = dict_get(j, b, a->pair[i].key);
        if (other == NULL || !value_equal(j, a->pair[i].value, *other))
            break;
    }
    jinja_leave(j);
    return i == a->n;
}

static bool numbers_equal(struct value a, struct value b)
{
    if (a.type != VALUE_FLOAT && b.type != VALUE_FLOAT)
        return value_integer(a) == value_integer(b);
    return value_real(a) == value_real(b);
}

bool value_equal(struct jinja *j, struct value a, struct value b)
{
    jinja_work(j, 1);
    if (value_is_number(a) && value_is_number(b))
        return numbers_equal(a, b);
    if (a.type != b.type)
        return false;
    switch (a.type) {
    case VALUE_TEXT:
        if (a.text->n == b.text->n)
            jinja_work(j, a.text->n / JINJA_WORK_BYTES);
        return text_equal(a.text, b.text);
    case VALUE_LIST:
    case VALUE_TUPLE:
        return lists_equal(j, a.list, b.list);
    case VALUE_DICT:
        return dicts_equal(j, a.dict, b.dict);
    case VALUE_RANGE:
        return lists_equal(j, range_items(j, a.range), range_items(j, b.range));
    case VALUE_VIEW:
        return a.extra == b.extra && a.extra != 'v' && lists_equal(j, a.list, b.list);
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return true;
    default:
        return a.list == b.list; /* the same object */
    }
}

int value_compare(struct jinja *j, struct value a, struct value b)
{
    jinja_work(j, 1);
    if (a.type == VALUE_UNDEFINED)
        value_fail_undefined(j, a);
    if (b.type == VALUE_UNDEFINED)
        value_fail_undefined(j, b);
    if (value_is_integral(a) && value_is_integral(b)) {
        const int64_t x = value_integer(a), y = value_integer(b);
        return (x > y) - (x < y);
    }
    if (value_is_number(a) && value_is_number(b)) {
        const double x = value_real(a), y = value_real(b);
        return (x > y) - (x < y);
    }
    if (a.type == VALUE_TEXT && b.type == VALUE_TEXT) {
        jinja_work(j, (a.text->n < b.text->n ? a.text->n : b.text->n) / JINJA_WORK_BYTES);
        return text_compare(a.text, b.text);
    }
    if (a.type != b.type || (a.type != VALUE_LIST && a.type != VALUE_TUPLE))
        jinja_fail(j, "a %s and a %s have no order", value_type_name(a), value_type_name(b));
    jinja_enter(j);
    const size_t n = a.list->n < b.list->n ? a.list->n : b.list->n;
    size_t i = 0;
    while (i < n && value_equal(j, a.list->item[i], b.list->item[i]))
        i++;
    const int order =
        i < n ? value_compare(j, a.list->item[i], b.list->item[i]) : (a.list->n > b.list->n) - (a.list->n < b.list->n);
    jinja_leave(j);
    return order;
}

bool value_contains(struct jinja *j, struct value container, struct value v)
{
    if (container.type == VALUE_TEXT) {
        if (v.type != VALUE_TEXT)
            jinja_fail(j, "'in' a string needs a string, not a %s", value_type_name(v));
        return text_find(j, container.text, 0, container.text->n, v.text) != SIZE_MAX;
    }
    if (container.type == VALUE_DICT) {
        if (!value_is_hashable(v))
            jinja_fail(j, "a %s cannot be the key of a dict", value_type_name(v));
        return dict_get(j, container.dict, v) != NULL;
    }
    const struct list *l = value_items(j, container);
    for (size_t i = 0; i < l->n; i++) {
        if (value_equal(j, l->item[i], v))
            return true;
    }
    return false;
}
