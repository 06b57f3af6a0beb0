/* jinja_format.c: Python's '%' of a string, and str.format. */
#include "text/jinja_format.h"

#include <math.h>
#include <string.h>

/* Reads a format string byte by byte. */
struct reader {
    struct jinja *j;
    const struct text *format;
    size_t at;
    struct value args;
    size_t next; /* argument */
    int64_t width, precision;
};

static char peek(const struct reader *r) { return r->at < r->format->n ? r->format->s[r->at] : '\0'; }

/* Digits; `otherwise` where there are none. */
static int64_t read_number(struct reader *r, int64_t otherwise)
{
    if (peek(r) < '0' || peek(r) > '9')
        return otherwise;
    int64_t n = 0;
    while (peek(r) >= '0' && peek(r) <= '9') {
        n = n * 10 + (r->format->s[r->at++] - '0');
        if (n > JINJA_MAX_BYTES)
            jinja_fail(r->j, "a width or precision is too large");
    }
    return n;
}

static struct value next_argument(struct reader *r)
{
    if (r->args.type != VALUE_TUPLE) {
        if (r->next++ > 0)
            jinja_fail(r->j, "not enough arguments for the format string");
        return r->args;
    }
    if (r->next == r->args.list->n)
        jinja_fail(r->j, "not enough arguments for the format string");
    return r->args.list->item[r->next++];
}

/* (name) behind a '%'. */
static struct value named_argument(struct reader *r)
{
    const size_t from = ++r->at;
    int open = 1;
    for (; open > 0; r->at++) {
        if (r->at >= r->format->n)
            jinja_fail(r->j, "a name in the format string has no end");
        open += r->format->s[r->at] == '(' ? 1 : r->format->s[r->at] == ')' ? -1 : 0;
    }
    if (r->args.type != VALUE_DICT)
        jinja_fail(r->j, "the format string needs a dict");
    const struct value *v = dict_get_text(r->j, r->args.dict, text_slice(r->j, r->format, from, r->at - 1));
    if (v == NULL)
        jinja_fail(r->j, "the format string names a key that is not there");
    return *v;
}

static int64_t read_count(struct reader *r, int64_t otherwise)
{
    if (peek(r) != '*')
        return read_number(r, otherwise);
    r->at++;
    const int64_t n = call_int(r->j, next_argument(r), "a width or precision", 0);
    if (n > JINJA_MAX_BYTES || n < -JINJA_MAX_BYTES)
        jinja_fail(r->j, "a width or precision is too large");
    return n;
}

static void read_flags(struct reader *r, struct layout *l)
{
    for (; peek(r) != '\0' && strchr("-+ #0", peek(r)) != NULL; r->at++) {
        switch (peek(r)) {
        case '-':
            l->align = '<';
            break;
        case '0':
            if (l->align == 0)
                l->align = '=';
            break;
        case '#':
            l->alternate = true;
            break;
        default:
            if (l->sign != '+')
                l->sign = peek(r);
        }
    }
}

static int64_t to_integer(struct jinja *j, struct value v)
{
    if (value_is_integral(v))
        return value_integer(v);
    if (v.type != VALUE_FLOAT || !(fabs(v.real) < 0x1p63))
        jinja_fail(j, "the format string needs a number, not a %s", value_type_name(v));
    return (int64_t)v.real;
}

static const struct text *one_character(struct jinja *j, struct value v)
{
    if (v.type == VALUE_TEXT && text_length(j, v.text) == 1)
        return v.text;
    const int64_t code = v.type == VALUE_TEXT ? -1 : call_int(j, v, "the argument of %c", -1);
    if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        jinja_fail(j, "%%c needs a character");
    struct text_buffer *b = text_begin(j);
    text_add_code(j, b, (uint32_t)code, FROM_CALLER);
    return text_end(j, b);
}

/* Text is aligned to the right unless '-' asks otherwise; '0' does nothing to it. */
static const struct text *percent_text(struct reader *r, struct layout l, const struct text *t)
{
    l.align = l.align == '<' ? '<' : '>';
    l.fill = NULL;
    return layout_text(r->j, &l, t);
}

static const struct text *percent_number(struct reader *r, struct layout l, struct value v)
{
    const bool is_real = strchr("eEfFgG", l.type) != NULL;
    l.fill = l.align == '=' ? text_literal(r->j, "0") : NULL;
    if (is_real) {
        if (!value_is_number(v))
            jinja_fail(r->j, "the format string needs a number, not a %s", value_type_name(v));
        return layout_real(r->j, &l, value_real(v));
    }
    if (strchr("oxX", l.type) != NULL && !value_is_integral(v))
        jinja_fail(r->j, "the format string needs an integer, not a %s", value_type_name(v));
    if (l.precision >= 0) { /* at least so many digits */
        struct layout digits = {.fill = text_literal(r->j, "0"),
                                .align = '=',
                                .type = l.type,
                                .sign = l.sign,
                                .precision = -1,
                                .alternate = l.alternate};
        const int64_t i = to_integer(r->j, v);
        digits.width = l.precision + (i < 0 || l.sign == '+' || l.sign == ' ') + (l.alternate && l.type != 'd' ? 2 : 0);
        return percent_text(r, (struct layout){.align = l.align, .width = l.width, .precision = -1},
                            layout_integer(r->j, &digits, i));
    }
    return layout_integer(r->j, &l, to_integer(r->j, v));
}

static const struct text *percent_conversion(struct reader *r)
{
    struct layout l = {.precision = -1, .sign = '-'};
    struct value v = NO_VALUE;
    if (peek(r) == '(')
        v = named_argument(r);
    read_flags(r, &l);
    l.width = read_count(r, 0);
    if (l.width < 0) {
        l.width = -l.width;
        l.align = '<';
    }
    if (peek(r) == '.') {
        r->at++;
        l.precision = read_count(r, 0);
        l.precision = l.precision < 0 ? 0 : l.precision;
    }
    while (peek(r) == 'h' || peek(r) == 'l' || peek(r) == 'L')
        r->at++;
    l.type = peek(r);
    r->at++;
    if (l.type == '%')
        return text_literal(r->j, "%");
    if (l.type == '\0' || strchr("sracdiuoxXeEfFgG", l.type) == NULL)
        jinja_fail(r->j, "the format string has an unknown or incomplete conversion");
    if (v.type == VALUE_MISSING)
        v = next_argument(r);
    l.type = l.type == 'i' || l.type == 'u' ? 'd' : l.type;
    if (l.type == 's' || l.type == 'r' || l.type == 'a')
        return percent_text(r, l, l.type == 's' ? value_str(r->j, v) : value_repr(r->j, v));
    if (l.type == 'c') {
        l.precision = -1;
        return percent_text(r, l, one_character(r->j, v));
    }
    return percent_number(r, l, v);
}

static bool is_mapping(struct value v)
{
    return v.type == VALUE_DICT || v.type == VALUE_LIST || v.type == VALUE_RANGE || v.type == VALUE_UNDEFINED;
}

const struct text *jinja_percent_format(struct jinja *j, const struct text *format, struct value args)
{
    struct reader r = {.j = j, .format = format, .args = args};
    struct text_buffer *b = text_begin(j);
    while (r.at < format->n) {
        const struct text *rest = text_slice(j, format, r.at, format->n);
        const char *percent = memchr(rest->s, '%', rest->n);
        const size_t plain = percent == NULL ? rest->n : (size_t)(percent - rest->s);
        text_add_text(j, b, text_slice(j, rest, 0, plain));
        r.at += plain;
        if (percent == NULL)
            break;
        r.at++;
        jinja_work(j, 1);
        text_add_text(j, b, percent_conversion(&r));
    }
    if (args.type == VALUE_TUPLE ? r.next < args.list->n : r.next == 0 && !is_mapping(args))
        jinja_fail(j, "not all arguments were used by the format string");
    return text_end(j, b);
}

/* str.format */

static const struct text *format_fields(struct jinja *j, const struct text *format, const struct arguments *args,
                                        size_t *automatic, int level);

/* What a format specification says: [[fill]align][sign][#][0][width][group][.precision][type]. */
static struct layout read_layout(struct jinja *j, const struct text *specification)
{
    struct layout l = {.precision = -1, .sign = '-'};
    struct reader r = {.j = j, .format = specification};
    size_t n = 1;
    if (specification->n > 0)
        text_code(specification, 0, &n);
    if (n < specification->n && strchr("<>^=", specification->s[n]) != NULL) {
        l.fill = text_slice(j, specification, 0, n);
        l.align = specification->s[n];
        r.at = n + 1;
    } else if (peek(&r) != '\0' && strchr("<>^=", peek(&r)) != NULL) {
        l.align = r.format->s[r.at++];
    }
    if (peek(&r) != '\0' && strchr("+- ", peek(&r)) != NULL)
        l.sign = r.format->s[r.at++];
    l.alternate = peek(&r) == '#';
    r.at += l.alternate;
    if (peek(&r) == '0' && l.align == 0) {
        l.fill = text_literal(j, "0");
        l.align = '=';
    }
    l.width = read_number(&r, 0);
    if (peek(&r) == ',' || peek(&r) == '_')
        l.group = r.format->s[r.at++];
    if (peek(&r) == '.') {
        r.at++;
        l.precision = read_number(&r, -2);
    }
    if (r.at < specification->n)
        l.type = r.format->s[r.at++];
    if (r.at < specification->n || l.precision == -2)
        jinja_fail(j, "invalid format specification");
    return l;
}

static const struct text *format_value(struct jinja *j, struct value v, const struct text *specification)
{
    if (specification->n == 0)
        return value_str(j, v);
    struct layout l = read_layout(j, specification);
    const bool is_real = l.type != '\0' && strchr("eEfFgG%", l.type) != NULL;
    if (v.type == VALUE_TEXT && (l.type == 0 || l.type == 's')) {
        if (l.align == '=' && l.fill != NULL && text_is(l.fill, "0"))
            l.align = '<';
        if (l.align != '=' && l.sign == '-' && !l.alternate && l.group == 0)
            return layout_text(j, &l, v.text);
    } else if (value_is_integral(v) && l.precision < 0 && (l.type == 0 || strchr("bdoxXn", l.type) != NULL)) {
        return layout_integer(j, &l, value_integer(v));
    } else if (value_is_integral(v) && l.type == 'c') {
        return layout_text(j, &l, one_character(j, v));
    } else if (value_is_number(v) && (is_real || (v.type == VALUE_FLOAT && (l.type == 0 || l.type == 'n')))) {
        return layout_real(j, &l, value_real(v));
    }
    jinja_fail(j, "invalid format specification for a %s", value_type_name(v));
}

/* The argument a field names: nothing, a number or a name, then .attribute and [element]. */
static struct value find_field(struct jinja *j, const struct text *field, const struct arguments *args, size_t *automatic)
{
    size_t n = 0;
    while (n < field->n && field->s[n] != '.' && field->s[n] != '[')
        n++;
    const struct text *first = text_slice(j, field, 0, n);
    struct reader r = {.j = j, .format = first};
    struct value v = NO_VALUE;
    int64_t i = read_number(&r, -1);
    if (n == 0)
        i = (int64_t)(*automatic)++;
    if (i >= 0 && r.at == n) {
        if ((size_t)i < args->n)
            v = args->positional[i];
    } else {
        for (size_t k = 0; k < args->n_keyword; k++) {
            if (text_equal(args->keyword[k].name, first))
                v = args->keyword[k].value;
        }
    }
    if (v.type == VALUE_MISSING)
        jinja_fail(j, "the format string needs an argument that is not there");
    for (r = (struct reader){.j = j, .format = field, .at = n}; r.at < field->n;) {
        const bool element = field->s[r.at++] == '[';
        const size_t from = r.at;
        while (r.at < field->n && (element ? field->s[r.at] != ']' : field->s[r.at] != '.' && field->s[r.at] != '['))
            r.at++;
        const struct text *name = text_slice(j, field, from, r.at);
        struct reader number = {.j = j, .format = name};
        i = read_number(&number, -1);
        v = !element ? jinja_attribute(j, v, name)
                     : jinja_element(j, v, i >= 0 && number.at == name->n ? value_int(i) : value_text(name));
        r.at += element;
    }
    return v;
}

/* One field without its braces: name[!conversion][:specification]. */
static const struct text *format_field(struct jinja *j, const struct text *inside, const struct arguments *args,
                                       size_t *automatic, int level)
{
    size_t name_end = 0, open = 0;
    while (name_end < inside->n && (open > 0 || (inside->s[name_end] != '!' && inside->s[name_end] != ':'))) {
        open += inside->s[name_end] == '[' ? 1 : 0;
        open -= inside->s[name_end] == ']' && open > 0 ? 1 : 0;
        name_end++;
    }
    size_t at = name_end;
    struct value v = find_field(j, text_slice(j, inside, 0, name_end), args, automatic);
    if (at < inside->n && inside->s[at] == '!') {
        const char conversion = at + 1 < inside->n ? inside->s[at + 1] : '\0';
        if (conversion != 's' && conversion != 'r' && conversion != 'a')
            jinja_fail(j, "unknown conversion in a format string");
        v = value_text(conversion == 's' ? value_str(j, v) : value_repr(j, v));
        at += 2;
    }
    if (at < inside->n && inside->s[at] != ':')
        jinja_fail(j, "expected ':' after a conversion in a format string");
    const struct text *specification = text_slice(j, inside, at < inside->n ? at + 1 : at, inside->n);
    return format_value(j, v, format_fields(j, specification, args, automatic, level + 1));
}

static const struct text *format_fields(struct jinja *j, const struct text *format, const struct arguments *args,
                                        size_t *automatic, int level)
{
    struct text_buffer *b = text_begin(j);
    size_t from = 0;
    if (level > 2)
        jinja_fail(j, "the fields of a format string are nested too deeply");
    for (size_t at = 0; at < format->n; at++) {
        const char c = format->s[at];
        if (c != '{' && c != '}')
            continue;
        text_add_text(j, b, text_slice(j, format, from, at));
        if (at + 1 < format->n && format->s[at + 1] == c && level == 0) {
            text_add_text(j, b, text_slice(j, format, at, at + 1));
            from = ++at + 1;
            continue;
        }
        size_t end = at + 1;
        for (int open = 1; c == '{' && end < format->n; end++) {
            open += format->s[end] == '{' ? 1 : format->s[end] == '}' ? -1 : 0;
            if (open == 0)
                break;
        }
        if (c == '}' || end >= format->n)
            jinja_fail(j, "single '%c' in a format string", c);
        text_add_text(j, b, format_field(j, text_slice(j, format, at + 1, end), args, automatic, level));
        at = end;
        from = end + 1;
    }
    text_add_text(j, b, text_slice(j, format, from, format->n));
    return text_end(j, b);
}

const struct text *jinja_str_format(struct jinja *j, const struct text *format, const struct arguments *args)
{
    size_t automatic = 0;
    return format_fields(j, format, args, &automatic, 0);
}
