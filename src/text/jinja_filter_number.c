/* jinja_filter_number.c: filters of numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja_filter.h"
#include "text/jinja_syntax.h"
#include "text/jinja_unicode.h"

static struct value filter_abs(struct jinja *j, const struct call *c)
{
    if (c->self.type == VALUE_UNDEFINED)
        value_fail_undefined(j, c->self);
    if (!value_is_number(c->self))
        jinja_fail(j, "abs: a %s is no number", value_type_name(c->self));
    if (c->self.type == VALUE_FLOAT)
        return value_float(fabs(c->self.real));
    const int64_t i = value_integer(c->self);
    return i < 0 ? jinja_negate(j, value_int(i)) : value_int(i);
}

/* The text without blanks at its ends and single underscores between digits, NUL-terminated; NULL: it is no number. */
static char *plain_number(struct jinja *j, const struct text *t)
{
    size_t from, to, n = 0;
    text_strip(j, t, NULL, true, true, &from, &to);
    char *s = jinja_alloc(j, to - from + 1);
    for (size_t i = from; i < to; i++) {
        const char c = t->s[i];
        if (c != '_') {
            s[n++] = c;
            continue;
        }
        const bool between =
            i > from && i + 1 < to && t->s[i - 1] != '_' && t->s[i + 1] != '_' && t->s[i - 1] != '.' && t->s[i + 1] != '.';
        if (!between)
            return NULL;
    }
    s[n] = '\0';
    return n > 0 && strlen(s) == n ? s : NULL;
}

static bool parse_real(struct jinja *j, const struct text *t, double *out)
{
    char *s = plain_number(j, t), *end;
    if (s == NULL || strpbrk(s, "xXpP(") != NULL)
        return false;
    *out = strtod(s, &end);
    return *end == '\0';
}

static int digit_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10 : 99;
}

/* false: the text is no integer in that base. */
static bool parse_integer(struct jinja *j, const struct text *t, int base, int64_t *out)
{
    const char *s = plain_number(j, t);
    if (s == NULL)
        return false;
    const bool negative = *s == '-';
    s += *s == '-' || *s == '+';
    const int letter = s[0] == '0' ? s[1] | 32 : 0;
    const int prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefixed != 0 && (base == prefixed || base == 0)) {
        base = prefixed;
        s += 2;
    }
    base = base == 0 ? 10 : base;
    struct value v = value_int(0);
    if (*s == '\0')
        return false;
    for (; *s != '\0'; s++) {
        if (digit_value(*s) >= base)
            return false;
        v = jinja_binary(j, OP_MUL, v, value_int(base));
        v = jinja_binary(j, negative ? OP_SUB : OP_ADD, v, value_int(digit_value(*s)));
    }
    *out = v.integer;
    return true;
}

static struct value truncated(struct jinja *j, double d)
{
    if (!(fabs(d) < 0x1p63))
        jinja_fail(j, "an integer does not fit in 64 bits");
    return value_int((int64_t)d);
}

static struct value filter_int(struct jinja *j, const struct call *c)
{
    const struct value otherwise = c->arg[0].type == VALUE_MISSING ? value_int(0) : c->arg[0];
    const int64_t base = call_int(j, c->arg[1], "int: base", 10);
    int64_t i;
    double d;
    if (base < 0 || base == 1 || base > 36)
        jinja_fail(j, "int: the base must be 0 or 2 to 36");
    switch (c->self.type) {
    case VALUE_UNDEFINED:
        value_fail_undefined(j, c->self);
    case VALUE_BOOL:
    case VALUE_INT:
        return value_int(value_integer(c->self));
    case VALUE_FLOAT:
        return isnan(c->self.real) ? otherwise : truncated(j, c->self.real);
    case VALUE_TEXT:
        if (parse_integer(j, c->self.text, (int)base, &i))
            return value_int(i);
        if (parse_real(j, c->self.text, &d) && isfinite(d))
            return truncated(j, d);
        return otherwise;
    default:
        return otherwise;
    }
}

static struct value filter_float(struct jinja *j, const struct call *c)
{
    double d;
    if (c->self.type == VALUE_UNDEFINED)
        value_fail_undefined(j, c->self);
    if (value_is_number(c->self))
        return value_float(value_real(c->self));
    if (c->self.type == VALUE_TEXT && parse_real(j, c->self.text, &d))
        return value_float(d);
    return c->arg[0].type == VALUE_MISSING ? value_float(0) : c->arg[0];
}

/* To the nearest, ties to even, as the decimal digits of the exact value say. */
static struct value round_common(struct jinja *j, struct value v, int64_t precision)
{
    char digits[512];
    if (precision < -300 || precision > 100)
        jinja_fail(j, "round: the precision must be -300 to 100");
    if (v.type != VALUE_FLOAT && precision >= 0)
        return value_int(value_integer(v));
    if (v.type == VALUE_FLOAT && precision >= 0) {
        if (!isfinite(v.real))
            return v;
        snprintf(digits, sizeof digits, "%.*f", (int)precision, v.real);
        return value_float(strtod(digits, NULL));
    }
    const double unit = pow(10, (double)-precision);
    const double rounded = nearbyint(value_real(v) / unit) * unit;
    return v.type == VALUE_FLOAT ? value_float(rounded) : truncated(j, rounded);
}

static struct value filter_round(struct jinja *j, const struct call *c)
{
    const int64_t precision = call_int(j, c->arg[0], "round: precision", 0);
    const struct text *method =
        c->arg[1].type == VALUE_MISSING ? text_literal(j, "common") : call_text(j, c->arg[1], "round: method");
    if (c->self.type == VALUE_UNDEFINED)
        value_fail_undefined(j, c->self);
    if (!value_is_number(c->self))
        jinja_fail(j, "round: a %s is no number", value_type_name(c->self));
    if (text_is(method, "common"))
        return round_common(j, c->self, precision);
    if (!text_is(method, "ceil") && !text_is(method, "floor"))
        jinja_fail(j, "round: the method must be common, ceil or floor");
    const double scale = pow(10, (double)precision);
    const double scaled = value_real(c->self) * scale;
    return value_float((text_is(method, "ceil") ? ceil(scaled) : floor(scaled)) / scale);
}

static struct value filter_filesizeformat(struct jinja *j, const struct call *c)
{
    static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const binary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    double bytes;
    if (value_is_number(c->self))
        bytes = value_real(c->self);
    else if (c->self.type != VALUE_TEXT || !parse_real(j, c->self.text, &bytes))
        jinja_fail(j, "filesizeformat: a %s is no number", value_type_name(c->self));
    const bool is_binary = value_is_true(c->arg[0]);
    const double base = is_binary ? 1024 : 1000;
    if (bytes == 1)
        return value_literal(j, "1 Byte");
    if (bytes < base)
        return value_text(text_printf(j, "%.0f Bytes", trunc(bytes)));
    double unit = base * base;
    size_t i = 0;
    for (; i < 7 && bytes >= unit; i++)
        unit *= base;
    return value_text(text_printf(j, "%.1f %s", base * bytes / unit, is_binary ? binary[i] : decimal[i]));
}

const struct builtin number_filters[] = {
    {"abs", filter_abs, ""},
    {"filesizeformat", filter_filesizeformat, "binary?"},
    {"float", filter_float, "default?"},
    {"int", filter_int, "default? base?"},
    {"round", filter_round, "precision? method?"},
    {NULL, NULL, NULL},
};
