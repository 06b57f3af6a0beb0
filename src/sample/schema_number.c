/* schema_number.c: numbers: bounds and multiples. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/string_buffer.h"
#include "sample/schema.h"

enum {
    EXACT_DIGITS = 15 /* decimal digits that every double tells apart (IEEE 754 binary64) */
};

/* -1, 0, 1 */
static int decimal_compare(const struct decimal *a, const struct decimal *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    int order = (int)a->huge - (int)b->huge;
    if (order == 0 && !a->huge)
        order = a->n_integer - b->n_integer;
    if (order == 0 && !a->huge)
        order = strcmp(a->digits, b->digits); /* the shorter fraction ends in NUL, below every digit */
    order = (order > 0) - (order < 0);
    return a->negative ? -order : order;
}

static void take_low(struct number_bounds *b, const struct decimal *d, bool excluded)
{
    const int order = b->has_low ? decimal_compare(d, &b->low) : 1;
    if (order < 0 || (order == 0 && !excluded))
        return;
    b->has_low = true;
    b->low = *d;
    b->low_excluded = excluded;
}

static void take_high(struct number_bounds *b, const struct decimal *d, bool excluded)
{
    const int order = b->has_high ? decimal_compare(d, &b->high) : -1;
    if (order > 0 || (order == 0 && !excluded))
        return;
    b->has_high = true;
    b->high = *d;
    b->high_excluded = excluded;
}

/* A text beyond an excluded bound must not round to it as a double: bound the digits of the fraction. */
static enum mr_status bound_fraction(const struct schema *s, json_t *schema, const char *keyword, const struct decimal *d,
                                     struct number_bounds *b)
{
    const int room = EXACT_DIGITS - d->n_integer;
    if (b->integer)
        return MR_OK;
    if (d->huge || room < 1 || d->n_fraction > room)
        return schema_fail(s, MR_NO_SUPPORT, schema, keyword, "more than %d digits", EXACT_DIGITS - 1);
    b->max_fraction = room < b->max_fraction ? room : b->max_fraction;
    return MR_OK;
}

static enum mr_status read_bounds(const struct schema *s, json_t *schema, struct number_bounds *b)
{
    static const struct {
        const char *keyword;
        bool low, excluded;
    } row[] = {{"minimum", true, false},
               {"exclusiveMinimum", true, true},
               {"maximum", false, false},
               {"exclusiveMaximum", false, true}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        json_t *value = json_object_get(schema, row[i].keyword);
        struct decimal d;
        if (value == NULL)
            continue;
        if (!decimal_read(&d, value))
            return schema_fail(s, MR_NO_SUPPORT, schema, row[i].keyword, "more than %d digits behind the point",
                               SCHEMA_FRACTION_DIGITS);
        if (row[i].excluded)
            MR_TRY(bound_fraction(s, schema, row[i].keyword, &d, b));
        (row[i].low ? take_low : take_high)(b, &d, row[i].excluded);
    }
    return MR_OK;
}

static enum mr_status read_multiple(const struct schema *s, json_t *schema, struct number_bounds *b)
{
    json_t *value = json_object_get(schema, "multipleOf");
    if (value == NULL)
        return MR_OK;
    const double m = json_number_value(value);
    size_t capacity = b->n_multiple;
    if (!(m > 0))
        return schema_fail(s, MR_BAD_INPUT, schema, "multipleOf", "must be more than 0");
    if (m != floor(m) || m > SCHEMA_MULTIPLE_MAX)
        return schema_fail(s, MR_NO_SUPPORT, schema, "multipleOf", "only whole numbers up to %d", SCHEMA_MULTIPLE_MAX);
    if (!mem_grow(&b->multiple, &capacity, b->n_multiple + 1, sizeof *b->multiple))
        return schema_no_memory(s);
    b->multiple[b->n_multiple++] = (uint32_t)m;
    b->integer = true;
    return MR_OK;
}

/* What the set says of numbers. *plain: nothing. The multiples are to be freed. */
static enum mr_status read_numbers(const struct schema *s, const struct schema_set *set, unsigned types,
                                   struct number_bounds *b, bool *plain)
{
    enum mr_status status = MR_OK;
    *b = (struct number_bounds){.integer = !(types & TYPE_NUMBER), .max_fraction = SCHEMA_FRACTION_DIGITS};
    for (size_t i = 0; i < set->n && status == MR_OK; i++)
        status = read_multiple(s, set->element[i].schema, b);
    for (size_t i = 0; i < set->n && status == MR_OK; i++)
        status = read_bounds(s, set->element[i].schema, b);
    *plain = !b->has_low && !b->has_high && b->n_multiple == 0 && !b->integer;
    if (status != MR_OK) {
        free(b->multiple);
        b->multiple = NULL;
    }
    return status;
}

/* Any JSON number, with an exponent of up to 279: below the largest double. */
static uint32_t any_number(struct schema *s)
{
    static const struct code_range digits = {'0', '9'}, first = {'1', '9'}, sign[] = {{'+', '+'}, {'-', '-'}},
                                   mark[] = {{'e', 'e'}, {'E', 'E'}}, hundreds = {'1', '2'}, tens = {'0', '7'};
    struct grammar_builder *b = s->b;
    const uint32_t digit = expr_chars(b, &digits, 1);
    const uint32_t integer[] = {expr_chars(b, &first, 1), expr_repeat(b, digit, 0, SCHEMA_INTEGER_DIGITS - 1)};
    const uint32_t whole[] = {expr_bytes(b, "0", 1), expr_sequence(b, integer, 2)};
    const uint32_t fraction[] = {expr_bytes(b, ".", 1), expr_repeat(b, digit, 1, SCHEMA_FRACTION_DIGITS)};
    const uint32_t large[] = {expr_chars(b, &hundreds, 1), expr_chars(b, &tens, 1), digit};
    const uint32_t power[] = {expr_repeat(b, digit, 1, 2), expr_sequence(b, large, 3)};
    const uint32_t exponent[] = {expr_chars(b, mark, 2), expr_repeat(b, expr_chars(b, sign, 2), 0, 1),
                                 expr_choice(b, power, 2)};
    const uint32_t part[] = {expr_repeat(b, expr_bytes(b, "-", 1), 0, 1), expr_choice(b, whole, 2),
                             expr_repeat(b, expr_sequence(b, fraction, 2), 0, 1),
                             expr_repeat(b, expr_sequence(b, exponent, 3), 0, 1)};
    return expr_sequence(b, part, 4);
}

static void describe(struct string_buffer *key, const struct schema_set *set, unsigned types)
{
    static const char *const keyword[] = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"};
    string_buffer_puts(key, types & TYPE_NUMBER ? "number" : "integer");
    for (size_t i = 0; i < set->n; i++) {
        for (size_t k = 0; k < sizeof keyword / sizeof *keyword; k++) {
            json_t *value = json_object_get(set->element[i].schema, keyword[k]);
            if (json_is_integer(value))
                string_buffer_printf(key, " %s %" JSON_INTEGER_FORMAT, keyword[k], json_integer_value(value));
            else if (value != NULL)
                string_buffer_printf(key, " %s %.17g", keyword[k], json_real_value(value));
        }
    }
}

static enum mr_status define_number(struct schema *s, const struct schema_set *set, unsigned types, uint32_t rule)
{
    struct number_bounds b;
    struct dfa d;
    bool plain;
    MR_TRY(read_numbers(s, set, types, &b, &plain));
    if (plain) {
        grammar_define(s->b, rule, any_number(s));
        return MR_OK;
    }
    const enum mr_status status = number_dfa(&d, &b, s->err);
    free(b.multiple);
    if (status == MR_OK)
        grammar_define(s->b, rule, expr_dfa(s->b, &d, false));
    return status;
}

enum mr_status schema_number_expr(struct schema *s, const struct schema_set *set, unsigned types, uint32_t *expr)
{
    struct string_buffer key;
    uint32_t rule = 0;
    bool is_new = false;
    string_buffer_init(&key);
    describe(&key, set, types);
    enum mr_status status = key.failed ? schema_no_memory(s) : schema_leaf_find(s, key.s, &rule, &is_new);
    string_buffer_release(&key);
    if (status == MR_OK && is_new)
        status = define_number(s, set, types, rule);
    *expr = expr_call(s->b, rule);
    return status;
}

enum mr_status schema_number_obeys(struct schema *s, const struct schema_set *set, json_t *value, bool *obeys)
{
    struct number_bounds b;
    struct decimal d;
    bool plain;
    MR_TRY(read_numbers(s, set, TYPE_INTEGER | TYPE_NUMBER, &b, &plain));
    const bool readable = plain || decimal_read(&d, value);
    *obeys = true;
    if (!plain && readable) {
        const int low = b.has_low ? decimal_compare(&d, &b.low) : 1, high = b.has_high ? decimal_compare(&d, &b.high) : -1;
        *obeys = (low > 0 || (low == 0 && !b.low_excluded)) && (high < 0 || (high == 0 && !b.high_excluded));
        for (size_t i = 0; i < b.n_multiple; i++)
            *obeys = *obeys && fmod(json_number_value(value), b.multiple[i]) == 0;
    }
    free(b.multiple);
    return readable ? MR_OK : mr_fail(s->err, MR_NO_SUPPORT, "schema: a listed number has too many digits to compare");
}
