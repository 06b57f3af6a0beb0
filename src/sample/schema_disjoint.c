/* schema_disjoint.c: whether two schemas exclude each other, as far as types, listed values, patterns and required properties
 * tell. "No" means: not proven. */
#include <stdlib.h>
#include <string.h>

#include "sample/schema.h"

enum {
    DISJOINT_DEPTH_MAX = 4 /* properties inside properties */
};

/* The schemas of a flat set that say something by themselves; anyOf and oneOf only ever narrow them. */
static void keep_own(struct schema_set *set)
{
    size_t n = 0;
    for (size_t i = 0; i < set->n; i++)
        if (set->element[i].part == SCHEMA_OWN)
            set->element[n++] = set->element[i];
    set->n = n;
}

static enum mr_status disjoint_values(struct schema *s, const struct schema_set *a, const struct schema_set *b, unsigned types,
                                      bool *disjoint)
{
    struct schema_set both = *a;
    struct schema_values values = {0};
    for (size_t i = 0; i < b->n; i++)
        MR_TRY(schema_set_add(s, &both, b->element[i].schema, b->element[i].part));
    MR_TRY(schema_enum(s, &both, types, &values));
    *disjoint = values.value != NULL && values.n == 0;
    free(values.value);
    return MR_OK;
}

static enum mr_status disjoint_strings(struct schema *s, const struct schema_set *a, const struct schema_set *b, bool *disjoint)
{
    struct schema_set both = *a;
    struct schema_string string;
    for (size_t i = 0; i < b->n; i++)
        MR_TRY(schema_set_add(s, &both, b->element[i].schema, b->element[i].part));
    MR_TRY(schema_string_read(s, &both, &string));
    *disjoint = string.has_dfa ? dfa_is_empty(&string.dfa) : string.min > string.max;
    dfa_release(&string.dfa);
    return MR_OK;
}

/* What the set says of the property by name alone. */
static enum mr_status property_set(const struct schema *s, const struct schema_set *set, const char *name,
                                   struct schema_set *out)
{
    out->n = 0;
    for (size_t i = 0; i < set->n; i++) {
        json_t *schema = set->element[i].schema, *own = json_object_get(json_object_get(schema, "properties"), name);
        json_t *others = json_object_get(schema, "additionalProperties");
        if (own != NULL)
            MR_TRY(schema_set_add(s, out, own, SCHEMA_ALL));
        else if (others != NULL && json_object_get(schema, "patternProperties") == NULL)
            MR_TRY(schema_set_add(s, out, others, SCHEMA_ALL));
    }
    return MR_OK;
}

/* Objects exclude each other by a property that one of them requires and on whose value they cannot agree. */
static enum mr_status disjoint_objects(struct schema *s, const struct schema_set *a, const struct schema_set *b, int depth,
                                       bool *disjoint)
{
    *disjoint = false;
    for (size_t side = 0; side < 2; side++) {
        const struct schema_set *set = side == 0 ? a : b;
        for (size_t i = 0; i < set->n; i++) {
            json_t *name;
            size_t k;
            json_array_foreach(json_object_get(set->element[i].schema, "required"), k, name)
            {
                struct schema_set x, y;
                if (!json_is_string(name))
                    continue;
                MR_TRY(property_set(s, a, json_string_value(name), &x));
                MR_TRY(property_set(s, b, json_string_value(name), &y));
                MR_TRY(schema_disjoint(s, &x, &y, depth + 1, disjoint));
                if (*disjoint)
                    return MR_OK;
            }
        }
    }
    return MR_OK;
}

enum mr_status schema_disjoint(struct schema *s, const struct schema_set *a, const struct schema_set *b, int depth,
                               bool *disjoint)
{
    struct schema_set x, y;
    bool x_nothing, y_nothing, apart = true;
    unsigned x_types, y_types;
    *disjoint = false;
    if (depth > DISJOINT_DEPTH_MAX)
        return MR_OK;
    MR_TRY(schema_flatten(s, &x, a, &x_nothing));
    MR_TRY(schema_flatten(s, &y, b, &y_nothing));
    if (x_nothing || y_nothing) {
        *disjoint = true;
        return MR_OK;
    }
    keep_own(&x);
    keep_own(&y);
    MR_TRY(schema_types(s, &x, &x_types));
    MR_TRY(schema_types(s, &y, &y_types));
    const unsigned types = x_types & y_types;
    *disjoint = types == 0;
    if (!*disjoint)
        MR_TRY(disjoint_values(s, &x, &y, types, disjoint));
    if (*disjoint || types & ~(unsigned)(TYPE_STRING | TYPE_OBJECT))
        return MR_OK;
    if (types & TYPE_STRING)
        MR_TRY(disjoint_strings(s, &x, &y, &apart));
    if (apart && types & TYPE_OBJECT)
        MR_TRY(disjoint_objects(s, &x, &y, depth, &apart));
    *disjoint = apart;
    return MR_OK;
}
