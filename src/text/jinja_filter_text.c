/* jinja_filter_text.c: filters of strings. What is no string is printed first. */
#include <string.h>

#include "text/jinja_filter.h"
#include "text/jinja_method.h"
#include "text/jinja_unicode.h"

static struct value filter_upper(struct jinja *j, const struct call *c)
{
    return value_text(text_change_case(j, value_str(j, c->self), CASE_UPPER));
}

static struct value filter_lower(struct jinja *j, const struct call *c)
{
    return value_text(text_change_case(j, value_str(j, c->self), CASE_LOWER));
}

static struct value filter_capitalize(struct jinja *j, const struct call *c)
{
    return value_text(text_capitalize(j, value_str(j, c->self)));
}

/* Words begin behind blanks, hyphens and opening brackets. */
static struct value filter_title(struct jinja *j, const struct call *c)
{
    const struct text *t = value_str(j, c->self);
    struct text_buffer *b = text_begin(j);
    size_t from = 0, n;
    for (size_t at = 0; at < t->n; at += n) {
        const uint32_t code = text_code(t, at, &n);
        const bool border = unicode_is_space(code) || (code < 0x80 && strchr("-({[<", (int)code) != NULL && code != 0);
        if (!border && at + n < t->n)
            continue;
        const size_t end = border ? at : t->n;
        if (end > from) {
            text_code(t, from, &n);
            text_add_text(j, b, text_change_case(j, text_slice(j, t, from, from + n), CASE_UPPER));
            text_add_text(j, b, text_change_case(j, text_slice(j, t, from + n, end), CASE_LOWER));
        }
        text_code(t, at, &n);
        if (border)
            text_add_text(j, b, text_slice(j, t, at, at + n));
        from = at + n;
    }
    return value_text(text_end(j, b));
}

static struct value filter_trim(struct jinja *j, const struct call *c)
{
    size_t from, to;
    const struct text *t = value_str(j, c->self);
    text_strip(j, t, call_text_or_none(j, c->arg[0], "trim: chars"), true, true, &from, &to);
    return value_text(text_slice(j, t, from, to));
}

static struct value filter_replace(struct jinja *j, const struct call *c)
{
    const int64_t limit = c->arg[2].type == VALUE_NONE ? -1 : call_int(j, c->arg[2], "replace: count", -1);
    return value_text(text_replace(j, value_str(j, c->self), value_str(j, c->arg[0]), value_str(j, c->arg[1]), limit));
}

static struct value filter_center(struct jinja *j, const struct call *c)
{
    return value_text(
        text_pad(j, value_str(j, c->self), call_int(j, c->arg[0], "center: width", 80), text_literal(j, " "), 'c'));
}

static struct value filter_format(struct jinja *j, const struct call *c)
{
    const struct text *format = value_str(j, c->self);
    if (c->arguments->n > 0 && c->arguments->n_keyword > 0)
        jinja_fail(j, "format: positional and keyword arguments at once");
    if (c->arguments->n_keyword > 0) {
        struct dict *d = dict_make(j);
        for (size_t i = 0; i < c->arguments->n_keyword; i++)
            dict_set(j, d, value_text(c->arguments->keyword[i].name), c->arguments->keyword[i].value);
        return value_text(jinja_percent_format(j, format, value_dict(d)));
    }
    struct list args = {.item = c->arguments->positional, .n = c->arguments->n};
    return value_text(jinja_percent_format(j, format, value_list(VALUE_TUPLE, &args)));
}

static struct value filter_indent(struct jinja *j, const struct call *c)
{
    const struct text *t = call_text(j, c->self, "indent: the value");
    const bool first = value_is_true(c->arg[1]), blank = value_is_true(c->arg[2]);
    struct text_buffer *indent = text_begin(j);
    if (c->arg[0].type == VALUE_TEXT)
        text_add_text(j, indent, c->arg[0].text);
    else
        for (int64_t n = call_int(j, c->arg[0], "indent: width", 4); n > 0; n--)
            text_puts(j, indent, " ");
    const struct text *margin = text_end(j, indent), *end = text_literal(j, "\n");
    /* Two line breaks at the end are one empty line, as where the last line is ended before it is split. */
    const struct list *lines = text_lines(j, text_concat(j, t, end), false);
    struct text_buffer *b = text_begin(j);
    for (size_t i = 0; i < lines->n; i++) {
        const struct text *line = lines->item[i].text;
        jinja_work(j, 1);
        if (i > 0)
            text_add_text(j, b, end);
        if (i == 0 ? first : blank || line->n > 0)
            text_add_text(j, b, margin);
        text_add_text(j, b, line);
    }
    return value_text(text_end(j, b));
}

static struct value filter_truncate(struct jinja *j, const struct call *c)
{
    const int64_t length = call_int(j, c->arg[0], "truncate: length", 255);
    const int64_t leeway = c->arg[3].type == VALUE_NONE ? 5 : call_int(j, c->arg[3], "truncate: leeway", 5);
    const struct text *end =
        c->arg[2].type == VALUE_MISSING ? text_literal(j, "...") : call_text(j, c->arg[2], "truncate: end");
    const int64_t n_end = (int64_t)text_length(j, end);
    if (length < n_end || leeway < 0)
        jinja_fail(j, "truncate: the length is below that of the end, or the leeway below 0");
    const int64_t n = value_length(j, c->self);
    if (n >= 0 && n <= length + leeway)
        return c->self;
    const struct text *t = call_text(j, c->self, "truncate: the value");
    const struct text *kept = text_slice(j, t, 0, text_at(j, t, (size_t)(length - n_end)));
    const size_t space = text_find_last(j, kept, 0, kept->n, text_literal(j, " "));
    if (!value_is_true(c->arg[1]) && space != SIZE_MAX)
        kept = text_slice(j, kept, 0, space);
    return value_text(text_concat(j, kept, end));
}

static struct value filter_wordcount(struct jinja *j, const struct call *c)
{
    const struct text *t = value_str(j, c->self);
    int64_t words = 0;
    bool in_word = false;
    jinja_work(j, t->n / 8);
    for (size_t at = 0, n; at < t->n; at += n) {
        const bool word = unicode_is_word(text_code(t, at, &n));
        words += word && !in_word;
        in_word = word;
    }
    return value_int(words);
}

const struct text *text_escape(struct jinja *j, const struct text *t)
{
    static const struct {
        char c;
        const char *s;
    } entities[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    struct text_buffer *b = text_begin(j);
    size_t from = 0;
    for (size_t at = 0; at < t->n; at++) {
        for (size_t i = 0; i < sizeof entities / sizeof *entities; i++) {
            if (t->s[at] != entities[i].c)
                continue;
            text_add_text(j, b, text_slice(j, t, from, at));
            text_add(j, b, entities[i].s, strlen(entities[i].s), text_origin(t, at));
            from = at + 1;
        }
    }
    text_add_text(j, b, text_slice(j, t, from, t->n));
    return text_end(j, b);
}

static const struct text *as_markup(struct jinja *j, const struct text *t)
{
    struct text *markup = jinja_alloc(j, sizeof *markup);
    *markup = *t;
    markup->is_markup = true;
    markup->buffer = NULL;
    return markup;
}

const struct text *text_add_markup(struct jinja *j, const struct text *a, const struct text *b)
{
    if (!a->is_markup && !b->is_markup)
        return text_concat(j, a, b);
    return as_markup(j, text_concat(j, a->is_markup ? a : text_escape(j, a), b->is_markup ? b : text_escape(j, b)));
}

static struct value filter_escape(struct jinja *j, const struct call *c)
{
    const struct text *t = value_str(j, c->self);
    return value_text(t->is_markup ? t : as_markup(j, text_escape(j, t)));
}

static struct value filter_forceescape(struct jinja *j, const struct call *c)
{
    return value_text(as_markup(j, text_escape(j, value_str(j, c->self))));
}

static struct value filter_safe(struct jinja *j, const struct call *c)
{
    return value_text(as_markup(j, value_str(j, c->self)));
}

/* RFC 3986 with `safe` bytes left; a blank becomes '+' where plus. */
static void add_quoted(struct jinja *j, struct text_buffer *b, const struct text *t, const char *safe, bool plus)
{
    for (size_t i = 0; i < t->n; i++) {
        const unsigned char c = (unsigned char)t->s[i];
        const enum origin from = text_origin(t, i);
        const char code[3] = {'%', "0123456789ABCDEF"[c >> 4], "0123456789ABCDEF"[c & 15]};
        const bool plain =
            (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c != 0 && strchr("_.-~", c) != NULL);
        if (plus && c == ' ')
            text_add(j, b, "+", 1, from);
        else if (plain || (c != 0 && strchr(safe, c) != NULL))
            text_add(j, b, &t->s[i], 1, from);
        else
            text_add(j, b, code, 3, from);
    }
}

static struct value filter_urlencode(struct jinja *j, const struct call *c)
{
    struct text_buffer *b = text_begin(j);
    const struct list *pairs = NULL;
    if (c->self.type == VALUE_DICT)
        pairs = dict_view(j, c->self.dict, 'i').list;
    else if (c->self.type != VALUE_TEXT)
        pairs = value_try_items(j, c->self);
    if (pairs == NULL)
        add_quoted(j, b, value_str(j, c->self), "/", false);
    for (size_t i = 0; pairs != NULL && i < pairs->n; i++) {
        const struct list *pair = value_items(j, pairs->item[i]);
        if (pair->n != 2)
            jinja_fail(j, "urlencode: expected pairs");
        text_puts(j, b, i > 0 ? "&" : "");
        add_quoted(j, b, value_str(j, pair->item[0]), "", true);
        text_puts(j, b, "=");
        add_quoted(j, b, value_str(j, pair->item[1]), "", true);
    }
    return value_text(text_end(j, b));
}

const struct builtin text_filters[] = {
    {"capitalize", filter_capitalize, ""},
    {"center", filter_center, "width?"},
    {"e", filter_escape, ""},
    {"escape", filter_escape, ""},
    {"forceescape", filter_forceescape, ""},
    {"format", filter_format, NULL},
    {"indent", filter_indent, "width? first? blank?"},
    {"lower", filter_lower, ""},
    {"replace", filter_replace, "old new count?"},
    {"safe", filter_safe, ""},
    {"title", filter_title, ""},
    {"trim", filter_trim, "chars?"},
    {"truncate", filter_truncate, "length? killwords? end? leeway?"},
    {"upper", filter_upper, ""},
    {"urlencode", filter_urlencode, ""},
    {"wordcount", filter_wordcount, ""},
    {NULL, NULL, NULL},
};
