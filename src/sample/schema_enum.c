/* schema_enum.c: enum and const: values written out. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/string_buffer.h"
#include "sample/schema.h"

enum {
    ENUM_MAX = 65536 /* values */
};

bool schema_equal(json_t *a, json_t *b)
{
    const char *key;
    json_t *value;
    size_t i;
    if (json_is_integer(a) && json_is_integer(b))
        return json_integer_value(a) == json_integer_value(b);
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (json_typeof(a) != json_typeof(b))
        return false;
    if (json_is_array(a)) {
        if (json_array_size(a) != json_array_size(b))
            return false;
        json_array_foreach(a, i, value) if (!schema_equal(value, json_array_get(b, i))) return false;
        return true;
    }
    if (!json_is_object(a))
        return json_equal(a, b);
    if (json_object_size(a) != json_object_size(b))
        return false;
    json_object_foreach(a, key, value)
    {
        json_t *other = json_object_get(b, key);
        if (other == NULL || !schema_equal(value, other))
            return false;
    }
    return true;
}

static bool add_value(struct schema_values *v, json_t *value)
{
    if (!mem_grow(&v->value, &v->capacity, v->n + 1, sizeof *v->value))
        return false;
    v->value[v->n++] = value;
    return true;
}

/* Whether enum and const of one schema allow the value. */
static bool is_listed(json_t *schema, json_t *value)
{
    json_t *list = json_object_get(schema, "enum"), *constant = json_object_get(schema, "const"), *one;
    size_t i;
    if (constant != NULL && !schema_equal(constant, value))
        return false;
    if (list == NULL)
        return true;
    json_array_foreach(list, i, one) if (schema_equal(one, value)) return true;
    return false;
}

/* Arrays and objects are only compared with the lists: what other keywords say of them is not evaluated. */
static enum mr_status check_nested(const struct schema *s, const struct schema_set *set, json_t *value)
{
    static const char *const of_array[] = {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", NULL};
    static const char *const of_object[] = {
        "properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties", NULL};
    const char *const *keyword = json_is_array(value) ? of_array : of_object;
    if (!json_is_array(value) && !json_is_object(value))
        return MR_OK;
    for (; *keyword != NULL; keyword++)
        for (size_t i = 0; i < set->n; i++)
            if (json_object_get(set->element[i].schema, *keyword) != NULL)
                return schema_fail(s, MR_NO_SUPPORT, set->element[i].schema, *keyword,
                                   "beside enum or const with such a value");
    return MR_OK;
}

/* Whether a listed value obeys what else the set says. */
static enum mr_status obeys(struct schema *s, const struct schema_set *set, const struct schema_string *string, json_t *value,
                            bool *result)
{
    *result = true;
    for (size_t i = 0; i < set->n && *result; i++)
        *result = is_listed(set->element[i].schema, value);
    if (!*result)
        return MR_OK;
    if (json_is_number(value))
        return schema_number_obeys(s, set, value, result);
    if (!json_is_string(value))
        return check_nested(s, set, value);
    size_t length = 0;
    for (const char *c = json_string_value(value); *c != '\0'; c++)
        length += ((unsigned char)*c & 0xc0) != 0x80;
    *result = length >= string->min && length <= string->max &&
              (!string->has_dfa || dfa_accepts_text(&string->dfa, json_string_value(value), json_string_length(value)));
    return MR_OK;
}

static enum mr_status add_if(struct schema *s, const struct schema_set *set, const struct schema_string *string, unsigned types,
                             struct schema_values *out, json_t *value)
{
    bool result = (schema_type_of(value) & types) != 0;
    if (result)
        MR_TRY(obeys(s, set, string, value, &result));
    return !result || add_value(out, value) ? MR_OK : schema_no_memory(s);
}

enum mr_status schema_enum(struct schema *s, const struct schema_set *set, unsigned types, struct schema_values *out)
{
    json_t *list = NULL, *constant = NULL;
    struct schema_string string = {0};
    for (size_t i = 0; i < set->n && constant == NULL; i++) {
        constant = json_object_get(set->element[i].schema, "const");
        json_t *one = json_object_get(set->element[i].schema, "enum");
        list = one != NULL ? one : list;
        if (json_array_size(one) > ENUM_MAX)
            return schema_fail(s, MR_BAD_INPUT, set->element[i].schema, "enum", "more than %d values", ENUM_MAX);
    }
    if (constant == NULL && list == NULL)
        return MR_OK;
    if (!mem_grow(&out->value, &out->capacity, 1, sizeof *out->value)) /* an array even where nothing is left */
        return schema_no_memory(s);
    MR_TRY(schema_string_read(s, set, &string));
    enum mr_status status = MR_OK;
    if (constant != NULL)
        status = add_if(s, set, &string, types, out, constant);
    for (size_t i = 0; constant == NULL && status == MR_OK && i < json_array_size(list); i++)
        status = add_if(s, set, &string, types, out, json_array_get(list, i));
    dfa_release(&string.dfa);
    return status;
}

static void write_string(struct string_buffer *out, const char *text)
{
    static const char letter[32] = {['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    string_buffer_puts(out, "\"");
    for (const char *c = text; *c != '\0'; c++) {
        const unsigned char byte = (unsigned char)*c;
        if (byte == '"' || byte == '\\')
            string_buffer_printf(out, "\\%c", byte);
        else if (byte >= 0x20)
            string_buffer_add(out, c, 1);
        else if (letter[byte] != 0)
            string_buffer_printf(out, "\\%c", letter[byte]);
        else
            string_buffer_printf(out, "\\u%04x", byte);
    }
    string_buffer_puts(out, "\"");
}

/* Compact JSON; the depth is bounded by what jansson read. */
static void write_value(struct string_buffer *out, json_t *value)
{
    const char *key;
    json_t *child;
    size_t i, n = 0;
    char number[64];
    switch (json_typeof(value)) {
    case JSON_NULL:
        string_buffer_puts(out, "null");
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        string_buffer_puts(out, json_is_true(value) ? "true" : "false");
        break;
    case JSON_INTEGER:
        string_buffer_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        number_text(number, sizeof number, json_real_value(value));
        string_buffer_puts(out, number);
        break;
    case JSON_STRING:
        write_string(out, json_string_value(value));
        break;
    case JSON_ARRAY:
        json_array_foreach(value, i, child)
        {
            string_buffer_puts(out, i == 0 ? "[" : ",");
            write_value(out, child);
        }
        string_buffer_puts(out, json_array_size(value) == 0 ? "[]" : "]");
        break;
    case JSON_OBJECT:
        json_object_foreach(value, key, child)
        {
            string_buffer_puts(out, n++ == 0 ? "{" : ",");
            write_string(out, key);
            string_buffer_puts(out, ":");
            write_value(out, child);
        }
        string_buffer_puts(out, n == 0 ? "{}" : "}");
        break;
    }
}

enum mr_status schema_literal(struct schema *s, json_t *value, uint32_t *expr)
{
    struct string_buffer text;
    string_buffer_init(&text);
    write_value(&text, value);
    const bool failed = text.failed;
    if (!failed)
        *expr = expr_bytes(s->b, text.s, text.n);
    string_buffer_release(&text);
    return failed ? schema_no_memory(s) : MR_OK;
}
