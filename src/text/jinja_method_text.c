/* jinja_method_text.c: Python's str methods. */
#include <string.h>

#include "text/jinja_method.h"
#include "text/jinja_unicode.h"

static struct value part(struct jinja *j, const struct text *t, size_t from, size_t to)
{
    return value_text(text_slice(j, t, from, to));
}

static struct value strip_sides(struct jinja *j, const struct call *c, bool left, bool right)
{
    size_t from, to;
    text_strip(j, c->self.text, call_text_or_none(j, c->arg[0], "strip(): the argument"), left, right, &from, &to);
    return part(j, c->self.text, from, to);
}

static struct value method_strip(struct jinja *j, const struct call *c) { return strip_sides(j, c, true, true); }
static struct value method_lstrip(struct jinja *j, const struct call *c) { return strip_sides(j, c, true, false); }
static struct value method_rstrip(struct jinja *j, const struct call *c) { return strip_sides(j, c, false, true); }

static struct value change_case(struct jinja *j, const struct call *c, enum letter_case to)
{
    return value_text(text_change_case(j, c->self.text, to));
}

static struct value method_upper(struct jinja *j, const struct call *c) { return change_case(j, c, CASE_UPPER); }
static struct value method_lower(struct jinja *j, const struct call *c) { return change_case(j, c, CASE_LOWER); }
static struct value method_title(struct jinja *j, const struct call *c) { return change_case(j, c, CASE_TITLE); }
static struct value method_casefold(struct jinja *j, const struct call *c) { return change_case(j, c, CASE_FOLD); }
static struct value method_capitalize(struct jinja *j, const struct call *c)
{
    return value_text(text_capitalize(j, c->self.text));
}

static struct value method_swapcase(struct jinja *j, const struct call *c)
{
    const struct text *t = c->self.text;
    struct text_buffer *b = text_begin(j);
    jinja_work(j, t->n / 8);
    for (size_t at = 0, n; at < t->n; at += n) {
        uint32_t out[3];
        const uint32_t code = text_code(t, at, &n);
        const int n_out = unicode_is_cased(code)
                              ? unicode_change_case(out, code, unicode_is_upper(code) ? CASE_LOWER : CASE_UPPER)
                              : (out[0] = code, 1);
        for (int i = 0; i < n_out; i++)
            text_add_code(j, b, out[i], text_origin(t, at));
    }
    return value_text(text_end(j, b));
}

/* str.split without a separator: words between blanks. */
static void split_words(struct jinja *j, const struct text *t, int64_t limit, struct list *out)
{
    size_t at = 0, end, n;
    while (at < t->n) {
        while (at < t->n && unicode_is_space(text_code(t, at, &n)))
            at += n;
        if (at == t->n)
            return;
        if (limit >= 0 && (int64_t)out->n >= limit) {
            list_add(j, out, part(j, t, at, t->n));
            return;
        }
        for (end = at; end < t->n && !unicode_is_space(text_code(t, end, &n)); end += n)
            ;
        list_add(j, out, part(j, t, at, end));
        at = end;
    }
}

static void split_at(struct jinja *j, const struct text *t, const struct text *separator, int64_t limit, struct list *out)
{
    size_t from = 0;
    while (limit < 0 || (int64_t)out->n < limit) {
        const size_t at = text_find(j, t, from, t->n, separator);
        if (at == SIZE_MAX)
            break;
        list_add(j, out, part(j, t, from, at));
        from = at + separator->n;
    }
    list_add(j, out, part(j, t, from, t->n));
}

static void split_words_last(struct jinja *j, const struct text *t, int64_t limit, struct list *out)
{
    size_t from, to = t->n;
    for (;;) {
        const struct text *rest = text_slice(j, t, 0, to);
        text_strip(j, rest, NULL, false, true, &from, &to);
        if (to == 0)
            return;
        size_t start = to;
        if (limit >= 0 && (int64_t)out->n >= limit) {
            list_add(j, out, part(j, t, 0, to));
            return;
        }
        while (start > 0) {
            size_t before = start - 1, n;
            while (before > 0 && ((unsigned char)t->s[before] & 0xc0) == 0x80)
                before--;
            if (unicode_is_space(text_code(t, before, &n)))
                break;
            start = before;
        }
        list_add(j, out, part(j, t, start, to));
        to = start;
    }
}

static void split_at_last(struct jinja *j, const struct text *t, const struct text *separator, int64_t limit, struct list *out)
{
    size_t to = t->n;
    while (limit < 0 || (int64_t)out->n < limit) {
        const size_t at = text_find_last(j, t, 0, to, separator);
        if (at == SIZE_MAX)
            break;
        list_add(j, out, part(j, t, at + separator->n, to));
        to = at;
    }
    list_add(j, out, part(j, t, 0, to));
}

static const struct text *separator_of(struct jinja *j, const struct call *c)
{
    const struct text *separator = call_text_or_none(j, c->arg[0], "split(): the separator");
    if (separator != NULL && separator->n == 0)
        jinja_fail(j, "split(): the separator is empty");
    return separator;
}

static struct value method_split(struct jinja *j, const struct call *c)
{
    struct list *out = list_make(j, 0);
    const struct text *separator = separator_of(j, c);
    const int64_t limit = call_int(j, c->arg[1], "split(): maxsplit", -1);
    if (separator == NULL)
        split_words(j, c->self.text, limit, out);
    else
        split_at(j, c->self.text, separator, limit, out);
    return value_list(VALUE_LIST, out);
}

static struct value method_rsplit(struct jinja *j, const struct call *c)
{
    struct list *out = list_make(j, 0);
    const struct text *separator = separator_of(j, c);
    const int64_t limit = call_int(j, c->arg[1], "rsplit(): maxsplit", -1);
    if (separator == NULL)
        split_words_last(j, c->self.text, limit, out);
    else
        split_at_last(j, c->self.text, separator, limit, out);
    for (size_t i = 0; i < out->n / 2; i++) {
        const struct value swapped = out->item[i];
        out->item[i] = out->item[out->n - 1 - i];
        out->item[out->n - 1 - i] = swapped;
    }
    return value_list(VALUE_LIST, out);
}

static bool is_line_end(uint32_t code)
{
    return (code >= 0x0a && code <= 0x0d) || (code >= 0x1c && code <= 0x1e) || code == 0x85 || code == 0x2028 || code == 0x2029;
}

struct list *text_lines(struct jinja *j, const struct text *t, bool keep)
{
    struct list *out = list_make(j, 0);
    size_t from = 0;
    for (size_t at = 0, n; at < t->n;) {
        const uint32_t code = text_code(t, at, &n);
        const size_t end = at;
        at += n;
        if (!is_line_end(code))
            continue;
        at += code == '\r' && at < t->n && t->s[at] == '\n';
        list_add(j, out, part(j, t, from, keep ? at : end));
        from = at;
    }
    if (from < t->n)
        list_add(j, out, part(j, t, from, t->n));
    return out;
}

static struct value method_splitlines(struct jinja *j, const struct call *c)
{
    return value_list(VALUE_LIST, text_lines(j, c->self.text, value_is_true(c->arg[0])));
}

static struct value partition(struct jinja *j, const struct call *c, bool last)
{
    const struct text *t = c->self.text, *separator = call_text(j, c->arg[0], "partition(): the separator");
    if (separator->n == 0)
        jinja_fail(j, "partition(): the separator is empty");
    const size_t at = last ? text_find_last(j, t, 0, t->n, separator) : text_find(j, t, 0, t->n, separator);
    struct list *l = list_make(j, 3);
    const struct value empty = value_literal(j, "");
    list_add(j, l, at == SIZE_MAX ? (last ? empty : value_text(t)) : part(j, t, 0, at));
    list_add(j, l, at == SIZE_MAX ? empty : part(j, t, at, at + separator->n));
    list_add(j, l, at == SIZE_MAX ? (last ? value_text(t) : empty) : part(j, t, at + separator->n, t->n));
    return value_list(VALUE_TUPLE, l);
}

static struct value method_partition(struct jinja *j, const struct call *c) { return partition(j, c, false); }
static struct value method_rpartition(struct jinja *j, const struct call *c) { return partition(j, c, true); }

/* The bytes that arguments `start` and `end` (code points, negative from the end) select. false: an empty place past
 * the end. */
static bool select_bytes(struct jinja *j, const struct text *t, struct value start, struct value end, size_t *from, size_t *to)
{
    *from = 0;
    *to = t->n;
    if ((start.type == VALUE_MISSING || start.type == VALUE_NONE) && (end.type == VALUE_MISSING || end.type == VALUE_NONE))
        return true;
    const int64_t n = (int64_t)text_length(j, t);
    int64_t a = start.type == VALUE_NONE ? 0 : call_int(j, start, "the start", 0);
    int64_t b = end.type == VALUE_NONE ? n : call_int(j, end, "the end", n);
    a = a < -n ? 0 : a < 0 ? a + n : a;
    b = b < -n ? 0 : b < 0 ? b + n : b > n ? n : b;
    if (a > n || a > b)
        return false;
    *from = text_at(j, t, (size_t)a);
    *to = text_at(j, t, (size_t)b);
    return true;
}

static bool has_affix(const struct text *t, size_t from, size_t to, const struct text *affix, bool at_end)
{
    return affix->n <= to - from && memcmp(t->s + (at_end ? to - affix->n : from), affix->s, affix->n) == 0;
}

static struct value find_affix(struct jinja *j, const struct call *c, bool at_end)
{
    size_t from, to;
    const bool inside = select_bytes(j, c->self.text, c->arg[1], c->arg[2], &from, &to);
    const struct value one = c->arg[0];
    const struct list single = {.item = (struct value *)&c->arg[0], .n = 1};
    const struct list *affixes = one.type == VALUE_TUPLE ? one.list : &single;
    for (size_t i = 0; i < affixes->n; i++) {
        const struct text *affix = call_text(j, affixes->item[i], "the prefix or suffix");
        jinja_work(j, affix->n / JINJA_WORK_BYTES + 1);
        if (inside && has_affix(c->self.text, from, to, affix, at_end))
            return value_bool(true);
    }
    return value_bool(false);
}

static struct value method_startswith(struct jinja *j, const struct call *c) { return find_affix(j, c, false); }
static struct value method_endswith(struct jinja *j, const struct call *c) { return find_affix(j, c, true); }

static struct value method_removeprefix(struct jinja *j, const struct call *c)
{
    const struct text *t = c->self.text, *affix = call_text(j, c->arg[0], "removeprefix(): the prefix");
    return part(j, t, has_affix(t, 0, t->n, affix, false) ? affix->n : 0, t->n);
}

static struct value method_removesuffix(struct jinja *j, const struct call *c)
{
    const struct text *t = c->self.text, *affix = call_text(j, c->arg[0], "removesuffix(): the suffix");
    return part(j, t, 0, has_affix(t, 0, t->n, affix, true) ? t->n - affix->n : t->n);
}

static int64_t find_index(struct jinja *j, const struct call *c, bool last)
{
    size_t from, to;
    const struct text *t = c->self.text, *what = call_text(j, c->arg[0], "find(): what to find");
    if (!select_bytes(j, t, c->arg[1], c->arg[2], &from, &to))
        return -1;
    const size_t at = last ? text_find_last(j, t, from, to, what) : text_find(j, t, from, to, what);
    return at == SIZE_MAX ? -1 : (int64_t)text_length(j, text_slice(j, t, 0, at));
}

static struct value method_find(struct jinja *j, const struct call *c) { return value_int(find_index(j, c, false)); }
static struct value method_rfind(struct jinja *j, const struct call *c) { return value_int(find_index(j, c, true)); }

static struct value must_find(struct jinja *j, const struct call *c, bool last)
{
    const int64_t i = find_index(j, c, last);
    if (i < 0)
        jinja_fail(j, "index(): the string does not hold the other");
    return value_int(i);
}

static struct value method_index(struct jinja *j, const struct call *c) { return must_find(j, c, false); }
static struct value method_rindex(struct jinja *j, const struct call *c) { return must_find(j, c, true); }

static struct value method_count(struct jinja *j, const struct call *c)
{
    size_t from, to;
    int64_t n = 0;
    const struct text *t = c->self.text, *what = call_text(j, c->arg[0], "count(): what to count");
    if (!select_bytes(j, t, c->arg[1], c->arg[2], &from, &to))
        return value_int(0);
    if (what->n == 0)
        return value_int((int64_t)text_length(j, text_slice(j, t, from, to)) + 1);
    while ((from = text_find(j, t, from, to, what)) != SIZE_MAX) {
        jinja_work(j, 1);
        from += what->n;
        n++;
    }
    return value_int(n);
}

static const struct text *replace_between(struct jinja *j, const struct text *t, const struct text *with, int64_t limit)
{
    struct text_buffer *b = text_begin(j);
    size_t at = 0;
    for (int64_t i = 0; limit < 0 || i < limit; i++) {
        size_t n;
        text_add_text(j, b, with);
        jinja_work(j, 1);
        if (at == t->n)
            return text_end(j, b);
        text_code(t, at, &n);
        text_add_text(j, b, text_slice(j, t, at, at + n));
        at += n;
    }
    text_add_text(j, b, text_slice(j, t, at, t->n));
    return text_end(j, b);
}

const struct text *text_replace(struct jinja *j, const struct text *t, const struct text *old, const struct text *with,
                                int64_t limit)
{
    if (old->n == 0)
        return replace_between(j, t, with, limit);
    size_t from = 0, at = text_find(j, t, 0, t->n, old);
    if (at == SIZE_MAX || limit == 0)
        return t;
    struct text_buffer *b = text_begin(j);
    for (int64_t i = 0; at != SIZE_MAX && (limit < 0 || i < limit); i++) {
        jinja_work(j, 1);
        text_add_text(j, b, text_slice(j, t, from, at));
        text_add_text(j, b, with);
        from = at + old->n;
        at = text_find(j, t, from, t->n, old);
    }
    text_add_text(j, b, text_slice(j, t, from, t->n));
    return text_end(j, b);
}

static struct value method_replace(struct jinja *j, const struct call *c)
{
    return value_text(text_replace(j, c->self.text, call_text(j, c->arg[0], "replace(): the old text"),
                                   call_text(j, c->arg[1], "replace(): the new text"),
                                   call_int(j, c->arg[2], "replace(): the count", -1)));
}

const struct text *text_join(struct jinja *j, const struct text *separator, const struct list *items)
{
    struct text_buffer *b = text_begin(j);
    for (size_t i = 0; i < items->n; i++) {
        jinja_work(j, 1);
        if (i > 0)
            text_add_text(j, b, separator);
        text_add_text(j, b, value_str(j, items->item[i]));
    }
    return text_end(j, b);
}

static struct value method_join(struct jinja *j, const struct call *c)
{
    const struct list *items = value_items(j, c->arg[0]);
    for (size_t i = 0; i < items->n; i++)
        call_text(j, items->item[i], "join(): an item");
    return value_text(text_join(j, c->self.text, items));
}

const struct text *text_pad(struct jinja *j, const struct text *t, int64_t width, const struct text *fill, char align)
{
    const int64_t n = (int64_t)text_length(j, t);
    if (width <= n)
        return t;
    const int64_t all = width - n;
    /* As Python does: of an odd number, the left side gets the larger half where the width is odd. */
    const int64_t left = align == '>' ? all : align == '<' ? 0 : align == '^' ? all / 2 : all / 2 + (all & width & 1);
    struct text_buffer *b = text_begin(j);
    text_add_repeated(j, b, fill, (size_t)left);
    text_add_text(j, b, t);
    text_add_repeated(j, b, fill, (size_t)(all - left));
    return text_end(j, b);
}

static struct value pad(struct jinja *j, const struct call *c, char align)
{
    const struct text *fill = call_text_or_none(j, c->arg[1], "the fill character");
    fill = fill == NULL ? text_literal(j, " ") : fill;
    if (text_length(j, fill) != 1)
        jinja_fail(j, "the fill character must be one character");
    return value_text(text_pad(j, c->self.text, call_int(j, c->arg[0], "the width", 0), fill, align));
}

static struct value method_center(struct jinja *j, const struct call *c) { return pad(j, c, 'c'); }
static struct value method_ljust(struct jinja *j, const struct call *c) { return pad(j, c, '<'); }
static struct value method_rjust(struct jinja *j, const struct call *c) { return pad(j, c, '>'); }

static struct value method_zfill(struct jinja *j, const struct call *c)
{
    const struct text *t = c->self.text, *zero = text_literal(j, "0");
    const int64_t width = call_int(j, c->arg[0], "zfill(): the width", 0);
    if (t->n == 0 || (t->s[0] != '+' && t->s[0] != '-'))
        return value_text(text_pad(j, t, width, zero, '>'));
    const struct text *number = text_pad(j, text_slice(j, t, 1, t->n), width - (width > 0), zero, '>');
    return value_text(text_concat(j, text_slice(j, t, 0, 1), number));
}

static struct value method_expandtabs(struct jinja *j, const struct call *c)
{
    const int64_t size = call_int(j, c->arg[0], "expandtabs(): tabsize", 8);
    const struct text *t = c->self.text;
    struct text_buffer *b = text_begin(j);
    int64_t column = 0;
    for (size_t at = 0, n; at < t->n; at += n) {
        const uint32_t code = text_code(t, at, &n);
        if (code == '\t') {
            const int64_t blanks = size > 0 ? size - column % size : 0;
            text_add_repeated(j, b, text_make(j, " ", 1, text_origin(t, at)), (size_t)blanks);
            column += blanks;
        } else {
            text_add_text(j, b, text_slice(j, t, at, at + n));
            column = code == '\n' || code == '\r' ? 0 : column + 1;
        }
    }
    return value_text(text_end(j, b));
}

static struct value method_format(struct jinja *j, const struct call *c)
{
    return value_text(jinja_str_format(j, c->self.text, c->arguments));
}

const struct builtin text_methods[] = {
    {"capitalize", method_capitalize, ""},
    {"casefold", method_casefold, ""},
    {"center", method_center, "_ _?"},
    {"count", method_count, "_ _? _?"},
    {"endswith", method_endswith, "_ _? _?"},
    {"expandtabs", method_expandtabs, "tabsize?"},
    {"find", method_find, "_ _? _?"},
    {"format", method_format, NULL},
    {"index", method_index, "_ _? _?"},
    {"join", method_join, "_"},
    {"ljust", method_ljust, "_ _?"},
    {"lower", method_lower, ""},
    {"lstrip", method_lstrip, "_?"},
    {"partition", method_partition, "_"},
    {"removeprefix", method_removeprefix, "_"},
    {"removesuffix", method_removesuffix, "_"},
    {"replace", method_replace, "_ _ _?"},
    {"rfind", method_rfind, "_ _? _?"},
    {"rindex", method_rindex, "_ _? _?"},
    {"rjust", method_rjust, "_ _?"},
    {"rpartition", method_rpartition, "_"},
    {"rsplit", method_rsplit, "sep? maxsplit?"},
    {"rstrip", method_rstrip, "_?"},
    {"split", method_split, "sep? maxsplit?"},
    {"splitlines", method_splitlines, "keepends?"},
    {"startswith", method_startswith, "_ _? _?"},
    {"strip", method_strip, "_?"},
    {"swapcase", method_swapcase, ""},
    {"title", method_title, ""},
    {"upper", method_upper, ""},
    {"zfill", method_zfill, "_"},
    {NULL, NULL, NULL},
};
