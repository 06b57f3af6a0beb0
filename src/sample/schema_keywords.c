/* schema_keywords.c: the keywords that are understood, and what their values must be. */
#include <string.h>

#include "sample/schema.h"

enum keyword_use {
    USE_ANNOTATION, /* says nothing about values */
    USE_COMBINE,    /* $ref, allOf, anyOf, oneOf */
    USE_CONSTRAINT
};

enum keyword_value {
    VALUE_ANY,
    VALUE_STRING,
    VALUE_BOOLEAN,
    VALUE_NUMBER,
    VALUE_ARRAY,
    VALUE_FULL_ARRAY, /* not empty */
    VALUE_OBJECT,
    VALUE_SCHEMA
};

struct keyword {
    const char *name;
    enum keyword_use use;
    enum keyword_value value;
};

static const struct keyword keywords[] = {
    {"$comment", USE_ANNOTATION, VALUE_ANY},
    {"$defs", USE_ANNOTATION, VALUE_OBJECT},
    {"$id", USE_ANNOTATION, VALUE_STRING},
    {"$ref", USE_COMBINE, VALUE_STRING},
    {"$schema", USE_ANNOTATION, VALUE_STRING},
    {"additionalProperties", USE_CONSTRAINT, VALUE_SCHEMA},
    {"allOf", USE_COMBINE, VALUE_FULL_ARRAY},
    {"anyOf", USE_COMBINE, VALUE_FULL_ARRAY},
    {"const", USE_CONSTRAINT, VALUE_ANY},
    {"default", USE_ANNOTATION, VALUE_ANY},
    {"definitions", USE_ANNOTATION, VALUE_OBJECT},
    {"deprecated", USE_ANNOTATION, VALUE_ANY},
    {"description", USE_ANNOTATION, VALUE_ANY},
    {"enum", USE_CONSTRAINT, VALUE_FULL_ARRAY},
    {"examples", USE_ANNOTATION, VALUE_ANY},
    {"exclusiveMaximum", USE_CONSTRAINT, VALUE_NUMBER},
    {"exclusiveMinimum", USE_CONSTRAINT, VALUE_NUMBER},
    {"format", USE_CONSTRAINT, VALUE_STRING},
    {"items", USE_CONSTRAINT, VALUE_SCHEMA},
    {"maxItems", USE_CONSTRAINT, VALUE_NUMBER},
    {"maxLength", USE_CONSTRAINT, VALUE_NUMBER},
    {"maxProperties", USE_CONSTRAINT, VALUE_NUMBER},
    {"maximum", USE_CONSTRAINT, VALUE_NUMBER},
    {"minItems", USE_CONSTRAINT, VALUE_NUMBER},
    {"minLength", USE_CONSTRAINT, VALUE_NUMBER},
    {"minProperties", USE_CONSTRAINT, VALUE_NUMBER},
    {"minimum", USE_CONSTRAINT, VALUE_NUMBER},
    {"multipleOf", USE_CONSTRAINT, VALUE_NUMBER},
    {"not", USE_CONSTRAINT, VALUE_SCHEMA},
    {"oneOf", USE_COMBINE, VALUE_FULL_ARRAY},
    {"pattern", USE_CONSTRAINT, VALUE_STRING},
    {"patternProperties", USE_CONSTRAINT, VALUE_OBJECT},
    {"prefixItems", USE_CONSTRAINT, VALUE_FULL_ARRAY},
    {"properties", USE_CONSTRAINT, VALUE_OBJECT},
    {"readOnly", USE_ANNOTATION, VALUE_ANY},
    {"required", USE_CONSTRAINT, VALUE_ARRAY},
    {"title", USE_ANNOTATION, VALUE_ANY},
    {"type", USE_CONSTRAINT, VALUE_ANY},
    {"uniqueItems", USE_CONSTRAINT, VALUE_BOOLEAN},
    {"writeOnly", USE_ANNOTATION, VALUE_ANY},
};

static const struct keyword *find_keyword(const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strcmp(keywords[i].name, name) == 0)
            return &keywords[i];
    return NULL;
}

/* What the value should have been; NULL: it is right. */
static const char *wrong_value(json_t *value, enum keyword_value kind)
{
    switch (kind) {
    case VALUE_ANY:
        return NULL;
    case VALUE_STRING:
        return json_is_string(value) ? NULL : "must be a string";
    case VALUE_BOOLEAN:
        return json_is_boolean(value) ? NULL : "must be true or false";
    case VALUE_NUMBER:
        return json_is_number(value) ? NULL : "must be a number";
    case VALUE_ARRAY:
        return json_is_array(value) ? NULL : "must be an array";
    case VALUE_FULL_ARRAY:
        return json_array_size(value) > 0 ? NULL : "must be an array that is not empty";
    case VALUE_OBJECT:
        return json_is_object(value) ? NULL : "must be an object";
    case VALUE_SCHEMA:
        return json_is_object(value) || json_is_boolean(value) ? NULL : "must be a schema: an object, true or false";
    }
    return NULL;
}

enum mr_status schema_check_keywords(const struct schema *s, json_t *schema)
{
    const char *name;
    json_t *value;
    json_object_foreach(schema, name, value)
    {
        const struct keyword *k = find_keyword(name);
        if (k == NULL)
            return schema_fail(s, MR_NO_SUPPORT, schema, name, "not supported");
        const char *wrong = wrong_value(value, k->value);
        if (wrong != NULL)
            return schema_fail(s, MR_BAD_INPUT, schema, name, "%s", wrong);
        if (schema != s->root && strcmp(name, "$id") == 0)
            return schema_fail(s, MR_NO_SUPPORT, schema, name, "only supported at the root");
    }
    return MR_OK;
}

bool schema_has_constraints(json_t *schema)
{
    const char *name;
    json_t *value;
    json_object_foreach(schema, name, value)
    {
        const struct keyword *k = find_keyword(name);
        if (k != NULL && k->use == USE_CONSTRAINT)
            return true;
    }
    return false;
}

enum mr_status schema_count(const struct schema *s, json_t *schema, const char *keyword, uint32_t *value)
{
    json_t *v = json_object_get(schema, keyword);
    if (v == NULL)
        return MR_OK;
    const double x = json_number_value(v);
    if (x >= UINT32_MAX)
        return schema_fail(s, MR_NO_SUPPORT, schema, keyword, "larger than %u", (unsigned)UINT32_MAX - 1);
    if (x < 0 || x != (double)(uint32_t)x)
        return schema_fail(s, MR_BAD_INPUT, schema, keyword, "must be a whole number, not negative");
    *value = (uint32_t)x;
    return MR_OK;
}
