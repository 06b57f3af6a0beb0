/* jinja_operator.c: arithmetic and comparison as Python's, integers of 64 bits. */
#include <math.h>

#include "text/jinja_builtin.h"
#include "text/jinja_syntax.h"

static _Noreturn void fail_overflow(struct jinja *j) { jinja_fail(j, "an integer does not fit in 64 bits"); }

static _Noreturn void fail_types(struct jinja *j, int op, struct value a, struct value b)
{
    jinja_fail(j, "'%c%s' of a %s and a %s is not defined", (char)op, op > 0xff ? (const char[]){(char)(op >> 8), '\0'} : "",
               value_type_name(a), value_type_name(b));
}

static int64_t add_integers(struct jinja *j, int64_t a, int64_t b)
{
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b)
        fail_overflow(j);
    return a + b;
}

static int64_t subtract_integers(struct jinja *j, int64_t a, int64_t b)
{
    if (b < 0 ? a > INT64_MAX + b : a < INT64_MIN + b)
        fail_overflow(j);
    return a - b;
}

static int64_t multiply_integers(struct jinja *j, int64_t a, int64_t b)
{
    if (a == 0 || b == 0)
        return 0;
    if ((a == -1 && b == INT64_MIN) || (b == -1 && a == INT64_MIN))
        fail_overflow(j);
    if (a != -1 && b != -1 &&
        ((a > 0) == (b > 0) ? (a > 0 ? a > INT64_MAX / b : a < INT64_MAX / b)
                            : (a > 0 ? b < INT64_MIN / a : a < INT64_MIN / b)))
        fail_overflow(j);
    return a * b;
}

/* Towards minus infinity. b is not 0. */
static int64_t floor_integers(struct jinja *j, int64_t a, int64_t b)
{
    if (a == INT64_MIN && b == -1)
        fail_overflow(j);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* With the sign of b. */
static int64_t modulo_integers(int64_t a, int64_t b)
{
    if (b == -1)
        return 0;
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static struct value power_integers(struct jinja *j, int64_t base, int64_t exponent)
{
    if (exponent < 0) {
        if (base == 0)
            jinja_fail(j, "0 cannot be raised to a negative power");
        return value_float(pow((double)base, (double)exponent));
    }
    int64_t result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            result = multiply_integers(j, result, base);
        if (exponent > 1 && base != 0 && base != 1)
            base = multiply_integers(j, base, base);
    }
    return value_int(result);
}

static struct value integer_arithmetic(struct jinja *j, int op, int64_t a, int64_t b)
{
    if ((op == OP_DIV || op == OP_FLOOR || op == OP_MOD) && b == 0)
        jinja_fail(j, "division by zero");
    switch (op) {
    case OP_ADD:
        return value_int(add_integers(j, a, b));
    case OP_SUB:
        return value_int(subtract_integers(j, a, b));
    case OP_MUL:
        return value_int(multiply_integers(j, a, b));
    case OP_DIV:
        return value_float((double)a / (double)b);
    case OP_FLOOR:
        return value_int(floor_integers(j, a, b));
    case OP_MOD:
        return value_int(modulo_integers(a, b));
    default:
        return power_integers(j, a, b);
    }
}

static double modulo_reals(double a, double b)
{
    const double r = fmod(a, b);
    if (r == 0)
        return copysign(0.0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

/* The floor of a / b, from the exact remainder. */
static double floor_reals(double a, double b)
{
    const double r = fmod(a, b);
    double quotient = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0))
        quotient -= 1;
    if (quotient == 0)
        return copysign(0.0, a / b);
    const double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

static struct value power_reals(struct jinja *j, double a, double b)
{
    if (a == 0 && b < 0)
        jinja_fail(j, "0 cannot be raised to a negative power");
    if (a < 0 && isfinite(b) && isfinite(a) && floor(b) != b)
        jinja_fail(j, "complex numbers are not supported");
    const double result = pow(a, b);
    if (isinf(result) && isfinite(a) && isfinite(b))
        jinja_fail(j, "the result of '**' is too large");
    return value_float(result);
}

static struct value real_arithmetic(struct jinja *j, int op, double a, double b)
{
    if ((op == OP_DIV || op == OP_FLOOR || op == OP_MOD) && b == 0)
        jinja_fail(j, "division by zero");
    switch (op) {
    case OP_ADD:
        return value_float(a + b);
    case OP_SUB:
        return value_float(a - b);
    case OP_MUL:
        return value_float(a * b);
    case OP_DIV:
        return value_float(a / b);
    case OP_FLOOR:
        return value_float(floor_reals(a, b));
    case OP_MOD:
        return value_float(modulo_reals(a, b));
    default:
        return power_reals(j, a, b);
    }
}

static bool is_sequence(struct value v) { return v.type == VALUE_TEXT || v.type == VALUE_LIST || v.type == VALUE_TUPLE; }

static struct value repeat(struct jinja *j, struct value v, int64_t times)
{
    const size_t n = times > 0 ? (size_t)times : 0;
    if (v.type == VALUE_TEXT) {
        struct text_buffer *b = text_begin(j);
        text_add_repeated(j, b, v.text, n);
        return value_text(text_end(j, b));
    }
    struct list *l = list_make(j, 0);
    for (size_t i = 0; i < (v.list->n > 0 ? n : 0); i++) {
        for (size_t k = 0; k < v.list->n; k++)
            list_add(j, l, v.list->item[k]);
    }
    return value_list(v.type, l);
}

static struct value join_lists(struct jinja *j, struct value a, struct value b)
{
    struct list *l = list_make(j, a.list->n + b.list->n);
    for (size_t i = 0; i < a.list->n; i++)
        list_add(j, l, a.list->item[i]);
    for (size_t i = 0; i < b.list->n; i++)
        list_add(j, l, b.list->item[i]);
    return value_list(a.type, l);
}

struct value jinja_binary(struct jinja *j, int op, struct value a, struct value b)
{
    if (op == OP_MOD && a.type == VALUE_TEXT)
        return value_text(jinja_percent_format(j, a.text, b));
    if (a.type == VALUE_UNDEFINED)
        value_fail_undefined(j, a);
    if (b.type == VALUE_UNDEFINED)
        value_fail_undefined(j, b);
    if (value_is_integral(a) && value_is_integral(b))
        return integer_arithmetic(j, op, value_integer(a), value_integer(b));
    if (value_is_number(a) && value_is_number(b))
        return real_arithmetic(j, op, value_real(a), value_real(b));
    if (op == OP_ADD && a.type == VALUE_TEXT && b.type == VALUE_TEXT)
        return value_text(text_add_markup(j, a.text, b.text));
    if (op == OP_ADD && a.type == b.type && (a.type == VALUE_LIST || a.type == VALUE_TUPLE))
        return join_lists(j, a, b);
    if (op == OP_MUL && is_sequence(a) && value_is_integral(b))
        return repeat(j, a, value_integer(b));
    if (op == OP_MUL && value_is_integral(a) && is_sequence(b))
        return repeat(j, b, value_integer(a));
    fail_types(j, op, a, b);
}

struct value jinja_negate(struct jinja *j, struct value v)
{
    return v.type == VALUE_FLOAT ? value_float(-v.real) : value_int(subtract_integers(j, 0, value_integer(v)));
}

static bool is_nan(struct value v) { return v.type == VALUE_FLOAT && isnan(v.real); }

bool jinja_compare(struct jinja *j, int op, struct value a, struct value b)
{
    switch (op) {
    case OP_EQ:
        return value_equal(j, a, b);
    case OP_NE:
        return !value_equal(j, a, b);
    case OP_IN:
        return value_contains(j, b, a);
    case OP_NOT_IN:
        return !value_contains(j, b, a);
    default:
        break;
    }
    const int order = value_compare(j, a, b);
    if (is_nan(a) || is_nan(b))
        return false;
    return op == OP_LT ? order < 0 : op == OP_LE ? order <= 0 : op == OP_GT ? order > 0 : order >= 0;
}
