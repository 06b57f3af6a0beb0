/* jinja_print.c: values as Python prints them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja_builtin.h"
#include "text/jinja_unicode.h"
#include "text/jinja_value.h"

/* The fewest digits that read back as d; an exponent below 1e-4 and from 1e16 on. */
const char *real_repr(char s[32], double d)
{
    if (isnan(d))
        return "nan";
    if (isinf(d))
        return d > 0 ? "inf" : "-inf";
    char e[32];
    int precision = 0;
    do
        snprintf(e, sizeof e, "%.*e", precision, d);
    while (strtod(e, NULL) != d && ++precision < 17);
    const int exponent = (int)strtol(strchr(e, 'e') + 1, NULL, 10);
    if (exponent >= -4 && exponent < 16)
        snprintf(s, 32, "%.*f", precision > exponent ? precision - exponent : 1, d);
    else
        snprintf(s, 32, "%s", e);
    return s;
}

static void add_escaped(struct jinja *j, struct text_buffer *b, uint32_t code)
{
    char s[16];
    if (code == '\n' || code == '\r' || code == '\t')
        snprintf(s, sizeof s, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
    else
        snprintf(s, sizeof s, code < 0x100 ? "\\x%02" PRIx32 : code < 0x10000 ? "\\u%04" PRIx32 : "\\U%08" PRIx32, code);
    text_puts(j, b, s);
}

static void add_text_repr(struct jinja *j, struct text_buffer *b, const struct text *t)
{
    const bool doubled = memchr(t->s, '\'', t->n) != NULL && memchr(t->s, '"', t->n) == NULL;
    const char *quote = doubled ? "\"" : "'";
    text_puts(j, b, t->is_markup ? "Markup(" : "");
    text_puts(j, b, quote);
    for (size_t at = 0, n; at < t->n; at += n) {
        const uint32_t code = text_code(t, at, &n);
        if (code == '\\' || code == (unsigned char)*quote)
            text_puts(j, b, "\\");
        if (unicode_is_printable(code))
            text_add(j, b, t->s + at, n, text_origin(t, at));
        else
            add_escaped(j, b, code);
    }
    text_puts(j, b, quote);
    text_puts(j, b, t->is_markup ? ")" : "");
}

static void add_repr(struct jinja *j, struct text_buffer *b, struct value v);

static void add_items(struct jinja *j, struct text_buffer *b, const char *open, const struct list *l, const char *close)
{
    text_puts(j, b, open);
    for (size_t i = 0; i < l->n; i++) {
        if (i > 0)
            text_puts(j, b, ", ");
        add_repr(j, b, l->item[i]);
    }
    text_puts(j, b, close);
}

static void add_dict(struct jinja *j, struct text_buffer *b, const struct dict *d)
{
    text_puts(j, b, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i > 0)
            text_puts(j, b, ", ");
        add_repr(j, b, d->pair[i].key);
        text_puts(j, b, ": ");
        add_repr(j, b, d->pair[i].value);
    }
    text_puts(j, b, "}");
}

static void add_range(struct jinja *j, struct text_buffer *b, const struct range *r)
{
    char s[96];
    int n = snprintf(s, sizeof s, "range(%" PRId64 ", %" PRId64, r->start, r->stop);
    if (r->step != 1)
        n += snprintf(s + n, sizeof s - (size_t)n, ", %" PRId64, r->step);
    snprintf(s + n, sizeof s - (size_t)n, ")");
    text_puts(j, b, s);
}

static void add_number(struct jinja *j, struct text_buffer *b, struct value v)
{
    char s[32];
    if (v.type == VALUE_FLOAT) {
        text_puts(j, b, real_repr(s, v.real));
    } else {
        snprintf(s, sizeof s, "%" PRId64, v.integer);
        text_puts(j, b, s);
    }
}

static void add_view(struct jinja *j, struct text_buffer *b, struct value v)
{
    add_items(j, b, v.extra == 'k' ? "dict_keys([" : v.extra == 'v' ? "dict_values([" : "dict_items([", v.list, "])");
}

static void add_object(struct jinja *j, struct text_buffer *b, struct value v)
{
    switch (v.type) {
    case VALUE_RANGE:
        add_range(j, b, v.range);
        break;
    case VALUE_NAMESPACE:
        text_puts(j, b, "<Namespace ");
        add_dict(j, b, v.dict);
        text_puts(j, b, ">");
        break;
    case VALUE_MACRO:
        text_puts(j, b, "<Macro ");
        add_text_repr(j, b, macro_name(j, v.macro));
        text_puts(j, b, ">");
        break;
    case VALUE_LOOP:
        text_add_text(j, b, loop_repr(j, v.loop));
        break;
    default:
        text_puts(j, b, "<");
        text_puts(j, b, value_type_name(v));
        text_puts(j, b, " object>");
    }
}

static void add_repr(struct jinja *j, struct text_buffer *b, struct value v)
{
    jinja_enter(j);
    jinja_work(j, 1);
    switch (v.type) {
    case VALUE_UNDEFINED:
        text_puts(j, b, "Undefined");
        break;
    case VALUE_NONE:
        text_puts(j, b, "None");
        break;
    case VALUE_BOOL:
        text_puts(j, b, v.boolean ? "True" : "False");
        break;
    case VALUE_INT:
    case VALUE_FLOAT:
        add_number(j, b, v);
        break;
    case VALUE_TEXT:
        add_text_repr(j, b, v.text);
        break;
    case VALUE_LIST:
        add_items(j, b, "[", v.list, "]");
        break;
    case VALUE_TUPLE:
        add_items(j, b, "(", v.list, v.list->n == 1 ? ",)" : ")");
        break;
    case VALUE_DICT:
        add_dict(j, b, v.dict);
        break;
    case VALUE_VIEW:
        add_view(j, b, v);
        break;
    default:
        add_object(j, b, v);
    }
    jinja_leave(j);
}

const struct text *value_repr(struct jinja *j, struct value v)
{
    struct text_buffer *b = text_begin(j);
    add_repr(j, b, v);
    const struct text *t = text_end(j, b);
    /* Structure that surrounds what the caller wrote is not for the template to vouch for. */
    return v.type == VALUE_TEXT ? t : text_make(j, t->s, t->n, text_origin_all(t));
}

const struct text *value_str(struct jinja *j, struct value v)
{
    if (v.type == VALUE_TEXT)
        return v.text;
    if (v.type == VALUE_UNDEFINED || v.type == VALUE_MISSING)
        return text_literal(j, "");
    return value_repr(j, v);
}
