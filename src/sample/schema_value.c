/* schema_value.c: the values of one set, type by type. */
#include <stdlib.h>
#include <string.h>

#include "sample/schema.h"

static const struct {
    const char *name;
    unsigned types;
} type_names[] = {
    {"null", TYPE_NULL},     {"boolean", TYPE_BOOLEAN}, {"integer", TYPE_INTEGER}, {"number", TYPE_INTEGER | TYPE_NUMBER},
    {"string", TYPE_STRING}, {"array", TYPE_ARRAY},     {"object", TYPE_OBJECT}};

unsigned schema_type_of(json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_NULL:
        return TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return TYPE_BOOLEAN;
    case JSON_INTEGER:
        return TYPE_INTEGER;
    case JSON_REAL: {
        const double x = json_real_value(value);
        return x > -1e15 && x < 1e15 && x == (double)(int64_t)x ? TYPE_INTEGER : TYPE_NUMBER;
    }
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    case JSON_OBJECT:
        return TYPE_OBJECT;
    }
    return 0;
}

static enum mr_status read_type(const struct schema *s, json_t *schema, json_t *name, unsigned *types)
{
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++) {
        if (json_is_string(name) && strcmp(json_string_value(name), type_names[i].name) == 0) {
            *types |= type_names[i].types;
            return MR_OK;
        }
    }
    if (json_is_string(name))
        return schema_fail(s, MR_BAD_INPUT, schema, "type", "unknown type '%.80s'", json_string_value(name));
    return schema_fail(s, MR_BAD_INPUT, schema, "type", "must be a string or an array of strings");
}

/* The types that one schema's `type` allows. */
static enum mr_status read_types(const struct schema *s, json_t *schema, unsigned *types)
{
    json_t *type = json_object_get(schema, "type"), *name;
    size_t i;
    *types = type == NULL ? TYPE_EVERY : 0;
    if (type == NULL)
        return MR_OK;
    if (!json_is_array(type))
        return read_type(s, schema, type, types);
    json_array_foreach(type, i, name) MR_TRY(read_type(s, schema, name, types));
    return MR_OK;
}

/* `not` takes away types, or strings (schema_string.c), null and booleans by value; else it is refused. */
static enum mr_status read_not(const struct schema *s, json_t *schema, unsigned *types)
{
    json_t *not = json_object_get(schema, "not"), *values, *value;
    size_t i;
    if (not == NULL || json_is_false(not ))
        return MR_OK;
    if (json_is_true(not )) {
        *types = 0;
        return MR_OK;
    }
    MR_TRY(schema_check_keywords(s, not ));
    const size_t n = json_object_size(not );
    if (n == 0) {
        *types = 0;
        return MR_OK;
    }
    if (n == 1 && json_object_get(not, "type") != NULL) {
        unsigned without;
        MR_TRY(read_types(s, not, &without));
        if (without & TYPE_INTEGER && !(without & TYPE_NUMBER) && *types & TYPE_NUMBER)
            return schema_fail(s, MR_NO_SUPPORT, schema, "not", "numbers that are not integers");
        *types &= ~without;
        return MR_OK;
    }
    if (n != 1 || ((values = json_object_get(not, "enum")) == NULL && json_object_get(not, "const") == NULL))
        return schema_fail(s, MR_NO_SUPPORT, schema, "not", "only with one of type, enum, const");
    value = json_object_get(not, "const");
    for (i = 0; value != NULL || i < json_array_size(values); i++) {
        json_t *one = value != NULL ? value : json_array_get(values, i);
        if (json_is_null(one))
            *types &= ~(unsigned)TYPE_NULL;
        else if (!json_is_string(one))
            return schema_fail(s, MR_NO_SUPPORT, schema, "not", "only with strings and null");
        if (value != NULL)
            return MR_OK;
    }
    return MR_OK;
}

enum mr_status schema_types(const struct schema *s, const struct schema_set *set, unsigned *types)
{
    *types = TYPE_EVERY;
    for (size_t i = 0; i < set->n; i++) {
        unsigned one;
        json_t *schema = set->element[i].schema;
        if (set->element[i].part != SCHEMA_OWN)
            continue;
        MR_TRY(read_types(s, schema, &one));
        *types &= one;
        MR_TRY(read_not(s, schema, types));
    }
    return MR_OK;
}

static enum mr_status literal_choice(struct schema *s, const struct schema_values *values, uint32_t *expr)
{
    uint32_t *choice = malloc((values->n + 1) * sizeof *choice);
    if (choice == NULL)
        return schema_no_memory(s);
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < values->n && status == MR_OK; i++)
        status = schema_literal(s, values->value[i], &choice[i]);
    if (status == MR_OK)
        *expr = expr_choice(s->b, choice, values->n);
    free(choice);
    return status;
}

enum mr_status schema_value(struct schema *s, const struct schema_set *set, uint32_t *expr)
{
    unsigned types;
    struct schema_values values = {0};
    uint32_t choice[8];
    size_t n = 0;
    MR_TRY(schema_types(s, set, &types));
    enum mr_status status = schema_enum(s, set, types, &values);
    if (status == MR_OK && values.value != NULL)
        status = literal_choice(s, &values, expr);
    const bool done = status != MR_OK || values.value != NULL;
    free(values.value);
    if (done)
        return status;
    if (types & TYPE_NULL)
        choice[n++] = expr_bytes(s->b, "null", 4);
    if (types & TYPE_BOOLEAN) {
        choice[n++] = expr_bytes(s->b, "true", 4);
        choice[n++] = expr_bytes(s->b, "false", 5);
    }
    if (types & (TYPE_INTEGER | TYPE_NUMBER))
        MR_TRY(schema_number_expr(s, set, types, &choice[n++]));
    if (types & TYPE_STRING)
        MR_TRY(schema_string_expr(s, set, &choice[n++]));
    if (types & TYPE_ARRAY)
        MR_TRY(schema_array_expr(s, set, &choice[n++]));
    if (types & TYPE_OBJECT)
        MR_TRY(schema_object_expr(s, set, &choice[n++]));
    *expr = expr_choice(s->b, choice, n);
    return MR_OK;
}
