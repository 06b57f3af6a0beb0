/* jinja_layout.c: numbers and strings within a width. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja_format.h"
#include "text/jinja_method.h"

enum {
    MAX_PRECISION = 500
};

static const struct text *fill_of(struct jinja *j, const struct layout *l)
{
    return l->fill != NULL ? l->fill : text_literal(j, " ");
}

const struct text *layout_text(struct jinja *j, const struct layout *l, const struct text *t)
{
    if (l->precision >= 0)
        t = text_slice(j, t, 0, text_at(j, t, (size_t)l->precision));
    return text_pad(j, t, l->width, fill_of(j, l), l->align != 0 ? l->align : '<');
}

/* Separators between groups of n digits before the point. */
static const struct text *group_digits(struct jinja *j, const char *digits, char separator, size_t n)
{
    const size_t whole = strspn(digits, "0123456789abcdefABCDEF");
    struct text_buffer *b = text_begin(j);
    for (size_t i = 0; i < whole; i++) {
        if (i > 0 && (whole - i) % n == 0)
            text_add(j, b, &separator, 1, FROM_TEMPLATE);
        text_add(j, b, &digits[i], 1, FROM_TEMPLATE);
    }
    text_puts(j, b, digits + whole);
    return text_end(j, b);
}

/* Sign and prefix (head), then digits, within the width. */
static const struct text *lay_out(struct jinja *j, const struct layout *l, bool negative, const char *prefix,
                                  const struct text *digits)
{
    const struct text *head = text_literal(j, negative ? "-" : l->sign == '+' ? "+" : l->sign == ' ' ? " " : "");
    head = text_concat(j, head, text_literal(j, prefix));
    if (l->align == '=') {
        const int64_t room = l->width - (int64_t)head->n;
        return text_concat(j, head, text_pad(j, digits, room, fill_of(j, l), '>'));
    }
    return text_pad(j, text_concat(j, head, digits), l->width, fill_of(j, l), l->align != 0 ? l->align : '>');
}

static void binary_digits(char *s, uint64_t magnitude)
{
    int n = 1;
    while (n < 64 && magnitude >> n != 0)
        n++;
    for (int i = 0; i < n; i++)
        s[i] = (char)('0' + (magnitude >> (n - 1 - i) & 1));
    s[n] = '\0';
}

const struct text *layout_integer(struct jinja *j, const struct layout *l, int64_t value)
{
    char digits[72];
    const char *prefix = "";
    const uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    switch (l->type) {
    case 'b':
        binary_digits(digits, magnitude);
        prefix = "0b";
        break;
    case 'o':
        snprintf(digits, sizeof digits, "%" PRIo64, magnitude);
        prefix = "0o";
        break;
    case 'x':
        snprintf(digits, sizeof digits, "%" PRIx64, magnitude);
        prefix = "0x";
        break;
    case 'X':
        snprintf(digits, sizeof digits, "%" PRIX64, magnitude);
        prefix = "0X";
        break;
    default:
        snprintf(digits, sizeof digits, "%" PRIu64, magnitude);
    }
    const size_t group = prefix[0] != '\0' ? 4 : 3;
    const struct text *body = l->group != 0 ? group_digits(j, digits, l->group, group) : text_printf(j, "%s", digits);
    return lay_out(j, l, value < 0, l->alternate ? prefix : "", body);
}

/* As str() where no type and no precision are given; 'g' that keeps one digit behind the point where only the type is not. */
static void real_digits(char *s, size_t size, const struct layout *l, double magnitude)
{
    char format[8], repr[32];
    const int precision = l->precision >= 0 ? (int)l->precision : 6;
    if (l->type == 0 && l->precision < 0) {
        snprintf(s, size, "%s", real_repr(repr, magnitude));
        return;
    }
    if (l->type == '%') {
        snprintf(s, size, l->alternate ? "%#.*f%%" : "%.*f%%", precision, magnitude * 100);
        return;
    }
    const char type = l->type == 0 || l->type == 'n' ? 'g' : l->type;
    snprintf(format, sizeof format, "%%%s.*%c", l->alternate ? "#" : "", type);
    snprintf(s, size, format, precision, magnitude);
    if (l->type == 0 && strpbrk(s, ".einf") == NULL && strlen(s) < size - 3)
        strcat(s, ".0");
}

const struct text *layout_real(struct jinja *j, const struct layout *l, double value)
{
    char digits[1024];
    if (l->precision > MAX_PRECISION)
        jinja_fail(j, "a number with more than %d digits behind the point", MAX_PRECISION);
    const bool negative = signbit(value) && !isnan(value);
    if (isfinite(value))
        real_digits(digits, sizeof digits, l, fabs(value));
    else
        snprintf(digits, sizeof digits, "%s%s", isnan(value) ? "nan" : "inf", l->type == '%' ? "%" : "");
    for (char *c = digits; isupper((unsigned char)l->type) && *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
    const struct text *body = l->group != 0 ? group_digits(j, digits, l->group, 3) : text_printf(j, "%s", digits);
    return lay_out(j, l, negative, "", body);
}
