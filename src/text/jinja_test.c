/* jinja_test.c: the tests behind `is`. */
#include "text/jinja_builtin.h"
#include "text/jinja_syntax.h"
#include "text/jinja_unicode.h"

static struct value test_boolean(struct jinja *j, const struct call *c)
{
    return (void)j, value_bool(c->self.type == VALUE_BOOL);
}
static struct value test_defined(struct jinja *j, const struct call *c)
{
    return (void)j, value_bool(c->self.type != VALUE_UNDEFINED);
}
static struct value test_undefined(struct jinja *j, const struct call *c)
{
    return (void)j, value_bool(c->self.type == VALUE_UNDEFINED);
}
static struct value test_none(struct jinja *j, const struct call *c) { return (void)j, value_bool(c->self.type == VALUE_NONE); }
static struct value test_string(struct jinja *j, const struct call *c)
{
    return (void)j, value_bool(c->self.type == VALUE_TEXT);
}
static struct value test_float(struct jinja *j, const struct call *c)
{
    return (void)j, value_bool(c->self.type == VALUE_FLOAT);
}
static struct value test_integer(struct jinja *j, const struct call *c)
{
    return (void)j, value_bool(c->self.type == VALUE_INT);
}
static struct value test_number(struct jinja *j, const struct call *c) { return (void)j, value_bool(value_is_number(c->self)); }
static struct value test_mapping(struct jinja *j, const struct call *c)
{
    return (void)j, value_bool(c->self.type == VALUE_DICT);
}

static struct value test_true(struct jinja *j, const struct call *c)
{
    return (void)j, value_bool(c->self.type == VALUE_BOOL && c->self.boolean);
}

static struct value test_false(struct jinja *j, const struct call *c)
{
    return (void)j, value_bool(c->self.type == VALUE_BOOL && !c->self.boolean);
}

static struct value test_callable(struct jinja *j, const struct call *c)
{
    (void)j;
    switch (c->self.type) {
    case VALUE_UNDEFINED:
    case VALUE_LOOP:
    case VALUE_MACRO:
    case VALUE_FUNCTION:
    case VALUE_JOINER:
        return value_bool(true);
    default:
        return value_bool(false);
    }
}

static struct value test_iterable(struct jinja *j, const struct call *c)
{
    (void)j;
    switch (c->self.type) {
    case VALUE_UNDEFINED:
    case VALUE_TEXT:
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
    case VALUE_VIEW:
    case VALUE_ITERATOR:
    case VALUE_RANGE:
    case VALUE_LOOP:
        return value_bool(true);
    default:
        return value_bool(false);
    }
}

static struct value test_sequence(struct jinja *j, const struct call *c)
{
    return value_bool(c->self.type != VALUE_VIEW && value_length(j, c->self) >= 0);
}

static struct value test_divisibleby(struct jinja *j, const struct call *c)
{
    return value_bool(value_equal(j, jinja_binary(j, OP_MOD, c->self, c->arg[0]), value_int(0)));
}

static struct value remainder_is(struct jinja *j, const struct call *c, int64_t remainder)
{
    return value_bool(value_equal(j, jinja_binary(j, OP_MOD, c->self, value_int(2)), value_int(remainder)));
}

static struct value test_even(struct jinja *j, const struct call *c) { return remainder_is(j, c, 0); }
static struct value test_odd(struct jinja *j, const struct call *c) { return remainder_is(j, c, 1); }

static struct value compared(struct jinja *j, const struct call *c, int op)
{
    return value_bool(jinja_compare(j, op, c->self, c->arg[0]));
}

static struct value test_eq(struct jinja *j, const struct call *c) { return compared(j, c, OP_EQ); }
static struct value test_ne(struct jinja *j, const struct call *c) { return compared(j, c, OP_NE); }
static struct value test_lt(struct jinja *j, const struct call *c) { return compared(j, c, OP_LT); }
static struct value test_le(struct jinja *j, const struct call *c) { return compared(j, c, OP_LE); }
static struct value test_gt(struct jinja *j, const struct call *c) { return compared(j, c, OP_GT); }
static struct value test_ge(struct jinja *j, const struct call *c) { return compared(j, c, OP_GE); }
static struct value test_in(struct jinja *j, const struct call *c) { return compared(j, c, OP_IN); }

/* The same object: equality stands in for it where values have no identity of their own. */
static struct value test_sameas(struct jinja *j, const struct call *c)
{
    const struct value a = c->self, b = c->arg[0];
    if (a.type != b.type)
        return value_bool(false);
    const bool by_value = a.type <= VALUE_TEXT;
    return value_bool(by_value ? value_equal(j, a, b) : a.list == b.list);
}

static struct value test_escaped(struct jinja *j, const struct call *c)
{
    return (void)j, value_bool(c->self.type == VALUE_TEXT && c->self.text->is_markup);
}

static struct value all_of_case(struct jinja *j, const struct call *c, const char *method)
{
    const struct value printed = value_text(value_str(j, c->self));
    const struct arguments none = {0};
    return builtin_call(j, builtin_method(printed, text_literal(j, method)), printed, &none);
}

static struct value test_lower(struct jinja *j, const struct call *c) { return all_of_case(j, c, "islower"); }
static struct value test_upper(struct jinja *j, const struct call *c) { return all_of_case(j, c, "isupper"); }

static struct value test_filter(struct jinja *j, const struct call *c)
{
    return (void)j, value_bool(c->self.type == VALUE_TEXT && builtin_filter(c->self.text) != NULL);
}

static struct value test_test(struct jinja *j, const struct call *c)
{
    return (void)j, value_bool(c->self.type == VALUE_TEXT && builtin_test(c->self.text) != NULL);
}

static const struct builtin tests[] = {
    {"boolean", test_boolean, ""},
    {"callable", test_callable, ""},
    {"defined", test_defined, ""},
    {"divisibleby", test_divisibleby, "num"},
    {"eq", test_eq, "_"},
    {"equalto", test_eq, "_"},
    {"escaped", test_escaped, ""},
    {"even", test_even, ""},
    {"false", test_false, ""},
    {"filter", test_filter, ""},
    {"float", test_float, ""},
    {"ge", test_ge, "_"},
    {"greaterthan", test_gt, "_"},
    {"gt", test_gt, "_"},
    {"in", test_in, "seq"},
    {"integer", test_integer, ""},
    {"iterable", test_iterable, ""},
    {"le", test_le, "_"},
    {"lessthan", test_lt, "_"},
    {"lower", test_lower, ""},
    {"lt", test_lt, "_"},
    {"mapping", test_mapping, ""},
    {"ne", test_ne, "_"},
    {"none", test_none, ""},
    {"number", test_number, ""},
    {"odd", test_odd, ""},
    {"sameas", test_sameas, "other"},
    {"sequence", test_sequence, ""},
    {"string", test_string, ""},
    {"test", test_test, ""},
    {"true", test_true, ""},
    {"undefined", test_undefined, ""},
    {"upper", test_upper, ""},
    {"==", test_eq, "_"},
    {"!=", test_ne, "_"},
    {"<", test_lt, "_"},
    {"<=", test_le, "_"},
    {">", test_gt, "_"},
    {">=", test_ge, "_"},
    {NULL, NULL, NULL},
};

const struct builtin *builtin_test(const struct text *name) { return builtin_find(tests, name); }
