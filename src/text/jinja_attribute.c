/* jinja_attribute.c: attributes, elements and slices.
 * value.name asks for an attribute (a method) first, then for a key; value['name'] the other way round. What is not there
 * is undefined; only what is asked of an undefined value fails. */
#include "text/jinja_builtin.h"

/* Methods that change their object, which templates may not. */
static bool is_unsafe(struct value v, const struct text *name)
{
    static const char *const of_list[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort", NULL};
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    const char *const *unsafe = v.type == VALUE_LIST ? of_list : v.type == VALUE_DICT ? of_dict : NULL;
    for (; unsafe != NULL && *unsafe != NULL; unsafe++) {
        if (text_is(name, *unsafe))
            return true;
    }
    return name->n > 4 && name->s[0] == '_' && name->s[1] == '_' && name->s[name->n - 1] == '_' && name->s[name->n - 2] == '_';
}

/* Python's getattr; VALUE_MISSING: there is none. */
static struct value get_attribute(struct jinja *j, struct value v, const struct text *name)
{
    const struct value *member;
    struct value found;
    if (is_unsafe(v, name))
        return value_undefined(UNDEFINED_UNSAFE, name);
    switch (v.type) {
    case VALUE_LOOP:
        found = loop_attribute(j, v.loop, name);
        return found.type == VALUE_UNDEFINED && found.extra == UNDEFINED_ATTRIBUTE ? NO_VALUE : found;
    case VALUE_MACRO:
        found = macro_attribute(j, v.macro, name);
        return found.type == VALUE_UNDEFINED ? NO_VALUE : found;
    case VALUE_NAMESPACE:
        member = dict_get_text(j, v.dict, name);
        return member != NULL ? *member : NO_VALUE;
    case VALUE_TUPLE:
        if (v.extra == VALUE_GROUP && (text_is(name, "grouper") || text_is(name, "list")))
            return v.list->item[name->s[0] == 'l'];
        break;
    case VALUE_CYCLER:
        if (text_is(name, "current"))
            return v.cycler->items->item[v.cycler->at];
        break;
    default:
        break;
    }
    const struct builtin *b = builtin_method(v, name);
    if (b == NULL)
        return NO_VALUE;
    struct function *f = jinja_alloc(j, sizeof *f);
    *f = (struct function){.builtin = b, .self = v};
    return (struct value){.type = VALUE_FUNCTION, .function = f};
}

struct value jinja_attribute(struct jinja *j, struct value v, const struct text *name)
{
    if (v.type == VALUE_UNDEFINED)
        value_fail_undefined(j, v);
    const struct value attribute = get_attribute(j, v, name);
    if (attribute.type != VALUE_MISSING)
        return attribute;
    const struct value *found = v.type == VALUE_DICT ? dict_get_text(j, v.dict, name) : NULL;
    return found != NULL ? *found : value_undefined(UNDEFINED_ATTRIBUTE, name);
}

/* Where a slice of n elements begins, how many it has, and its step. */
struct span {
    int64_t start, n, step;
};

static int64_t clamp(int64_t i, int64_t low, int64_t high) { return i < low ? low : i > high ? high : i; }

static int64_t slice_bound(struct value v, int64_t n, int64_t step, int64_t otherwise)
{
    if (v.type == VALUE_NONE)
        return otherwise;
    int64_t i = value_integer(v);
    if (i < 0)
        i = i < -n ? -1 - n : i;
    i = i < 0 ? i + n : i;
    return step > 0 ? clamp(i, 0, n) : clamp(i, -1, n - 1);
}

static struct span get_span(struct jinja *j, const struct list *slice, int64_t n)
{
    struct span s;
    for (size_t i = 0; i < 3; i++) {
        if (!value_is_integral(slice->item[i]) && slice->item[i].type != VALUE_NONE)
            jinja_fail(j, "a slice needs integers, not a %s", value_type_name(slice->item[i]));
    }
    const int64_t step = slice->item[2].type == VALUE_NONE ? 1 : value_integer(slice->item[2]);
    if (step == 0)
        jinja_fail(j, "the step of a slice cannot be 0");
    const int64_t start = slice_bound(slice->item[0], n, step, step > 0 ? 0 : n - 1);
    const int64_t stop = slice_bound(slice->item[1], n, step, step > 0 ? n : -1);
    s.start = start;
    s.step = step;
    s.n = 0;
    if (step > 0 && stop > start)
        s.n = (stop - start - 1) / step + 1;
    if (step < 0 && stop < start)
        s.n = step < -n ? 1 : (start - stop - 1) / -step + 1;
    return s;
}

static struct value slice_list(struct jinja *j, struct value v, struct span span)
{
    struct list *l = list_make(j, (size_t)span.n);
    for (int64_t i = 0; i < span.n; i++)
        list_add(j, l, v.list->item[span.start + i * span.step]);
    return value_list(v.type, l);
}

static struct value slice_text(struct jinja *j, const struct text *t, struct span span)
{
    if (span.n == 0)
        return value_text(text_slice(j, t, 0, 0));
    if (span.step == 1) {
        const size_t from = text_at(j, t, (size_t)span.start);
        const struct text *rest = text_slice(j, t, from, t->n);
        return value_text(text_slice(j, rest, 0, text_at(j, rest, (size_t)span.n)));
    }
    const struct list *characters = value_items(j, value_text(t));
    struct text_buffer *b = text_begin(j);
    for (int64_t i = 0; i < span.n; i++)
        text_add_text(j, b, characters->item[span.start + i * span.step].text);
    return value_text(text_end(j, b));
}

static struct value slice_range(struct jinja *j, const struct range *r, struct span span)
{
    struct range *part = jinja_alloc(j, sizeof *part);
    part->start = r->start + span.start * r->step;
    part->step = span.n > 1 || r->n > 0 ? r->step * span.step : r->step;
    part->n = (size_t)span.n;
    part->stop = part->start + span.n * part->step;
    return (struct value){.type = VALUE_RANGE, .range = part};
}

static struct value get_slice(struct jinja *j, struct value v, const struct list *slice)
{
    if (v.type != VALUE_TEXT && v.type != VALUE_LIST && v.type != VALUE_TUPLE && v.type != VALUE_RANGE)
        jinja_fail(j, "a %s cannot be sliced", value_type_name(v));
    const struct span span = get_span(j, slice, value_length(j, v));
    if (v.type == VALUE_RANGE)
        return slice_range(j, v.range, span);
    return v.type == VALUE_TEXT ? slice_text(j, v.text, span) : slice_list(j, v, span);
}

static struct value get_indexed(struct jinja *j, struct value v, int64_t i)
{
    const int64_t n = value_length(j, v);
    if (i < -n || i >= n)
        return NO_VALUE;
    i = i < 0 ? i + n : i;
    if (v.type == VALUE_TEXT)
        return slice_text(j, v.text, (struct span){i, 1, 1});
    if (v.type == VALUE_RANGE)
        return value_int(v.range->start + i * v.range->step);
    return v.list->item[i];
}

/* Python's v[index]; VALUE_MISSING where that raises what jinja2 takes for undefined. */
static struct value get_item(struct jinja *j, struct value v, struct value index)
{
    if (index.type == VALUE_SLICE)
        return get_slice(j, v, index.list);
    if (v.type == VALUE_DICT) {
        const struct value *found = value_is_hashable(index) ? dict_get(j, v.dict, index) : NULL;
        return found != NULL ? *found : NO_VALUE;
    }
    const bool is_indexed = v.type == VALUE_TEXT || v.type == VALUE_LIST || v.type == VALUE_TUPLE || v.type == VALUE_RANGE;
    return is_indexed && value_is_integral(index) ? get_indexed(j, v, value_integer(index)) : NO_VALUE;
}

struct value jinja_element(struct jinja *j, struct value v, struct value index)
{
    if (v.type == VALUE_UNDEFINED)
        value_fail_undefined(j, v);
    struct value found = get_item(j, v, index);
    if (found.type == VALUE_MISSING && index.type == VALUE_TEXT)
        found = get_attribute(j, v, index.text);
    if (found.type != VALUE_MISSING)
        return found;
    return value_undefined(UNDEFINED_ATTRIBUTE, value_str(j, index));
}
