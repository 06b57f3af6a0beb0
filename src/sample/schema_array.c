/* schema_array.c: arrays. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sample/schema.h"

enum {
    PREFIX_MAX = 4096 /* prefixItems */
};

/* What every schema of a set says about arrays, taken together. */
struct array_limits {
    uint32_t min, max, n_prefix;
};

static enum mr_status read_limits(const struct schema *s, const struct schema_set *set, struct array_limits *out)
{
    *out = (struct array_limits){.max = REPEAT_NO_MAX};
    bool unique = false;
    json_t *asks_unique = NULL;
    for (size_t i = 0; i < set->n; i++) {
        json_t *schema = set->element[i].schema;
        uint32_t min = 0, max = REPEAT_NO_MAX;
        MR_TRY(schema_count(s, schema, "minItems", &min));
        MR_TRY(schema_count(s, schema, "maxItems", &max));
        const size_t n_prefix = json_array_size(json_object_get(schema, "prefixItems"));
        if (n_prefix > PREFIX_MAX)
            return schema_fail(s, MR_BAD_INPUT, schema, "prefixItems", "more than %d", PREFIX_MAX);
        out->min = min > out->min ? min : out->min;
        out->max = max < out->max ? max : out->max;
        out->n_prefix = n_prefix > out->n_prefix ? (uint32_t)n_prefix : out->n_prefix;
        if (json_is_true(json_object_get(schema, "uniqueItems"))) {
            unique = true;
            asks_unique = schema;
        }
    }
    if (unique && out->max > 1)
        return schema_fail(s, MR_NO_SUPPORT, asks_unique, "uniqueItems", "only with maxItems 0 or 1");
    return MR_OK;
}

/* The rule of the item at a position; at n_prefix: of all further items. */
static enum mr_status item_rule(struct schema *s, const struct schema_set *set, uint32_t position, uint32_t *rule)
{
    struct schema_set item = {.n = 0};
    for (size_t i = 0; i < set->n; i++) {
        json_t *schema = set->element[i].schema, *prefix = json_object_get(schema, "prefixItems");
        json_t *one = position < json_array_size(prefix) ? json_array_get(prefix, position) : json_object_get(schema, "items");
        if (one != NULL)
            MR_TRY(schema_set_add(s, &item, one, SCHEMA_ALL));
    }
    return schema_rule(s, &item, rule);
}

/* Items from position on, each behind a comma; built from the last to the first. */
static enum mr_status items_after(struct schema *s, const struct schema_set *set, const struct array_limits *l,
                                  uint32_t position, uint32_t *expr)
{
    const uint32_t comma[] = {expr_bytes(s->b, ",", 1), expr_call(s->b, s->blanks)};
    const uint32_t separator = expr_sequence(s->b, comma, 2);
    uint32_t rule, rest = EXPR_EMPTY;
    const uint32_t base = l->n_prefix > position ? l->n_prefix : position;
    if (l->max > base) {
        MR_TRY(item_rule(s, set, l->n_prefix, &rule));
        const uint32_t one[] = {separator, expr_call(s->b, rule)};
        rest = expr_repeat(s->b, expr_sequence(s->b, one, 2), l->min > base ? l->min - base : 0,
                           l->max == REPEAT_NO_MAX ? REPEAT_NO_MAX : l->max - base);
    }
    for (uint32_t i = l->n_prefix < l->max ? l->n_prefix : l->max; i-- > position;) {
        MR_TRY(item_rule(s, set, i, &rule));
        const uint32_t part[] = {separator, expr_call(s->b, rule), rest};
        rest = expr_sequence(s->b, part, 3);
        if (i >= l->min)
            rest = expr_repeat(s->b, rest, 0, 1);
        rest = expr_boxed(s->b, rest);
    }
    *expr = rest;
    return MR_OK;
}

enum mr_status schema_array_expr(struct schema *s, const struct schema_set *set, uint32_t *expr)
{
    struct array_limits l;
    uint32_t rule, items = EXPR_EMPTY;
    MR_TRY(read_limits(s, set, &l));
    *expr = EXPR_NOTHING;
    if (l.min > l.max)
        return MR_OK;
    if (l.max > 0) {
        uint32_t after;
        MR_TRY(item_rule(s, set, 0, &rule));
        MR_TRY(items_after(s, set, &l, 1, &after));
        const uint32_t part[] = {expr_call(s->b, rule), after, expr_call(s->b, s->blanks)};
        items = expr_sequence(s->b, part, 3);
        if (l.min == 0)
            items = expr_repeat(s->b, items, 0, 1);
    }
    const uint32_t part[] = {expr_bytes(s->b, "[", 1), expr_call(s->b, s->blanks), items, expr_bytes(s->b, "]", 1)};
    *expr = expr_sequence(s->b, part, 4);
    return MR_OK;
}
