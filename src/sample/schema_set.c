/* schema_set.c: sets of schemas that one value obeys at once, and the rules that stand for them. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sample/schema.h"

/* A set and its rule. */
struct schema_work {
    struct schema_element *element;
    size_t n;
    uint32_t rule;
};

struct schema_leaf {
    char *key;
    uint32_t rule;
};

enum mr_status schema_set_add(const struct schema *s, struct schema_set *set, json_t *schema, enum schema_part part)
{
    if (json_is_true(schema))
        return MR_OK;
    for (size_t i = 0; i < set->n; i++)
        if (set->element[i].schema == schema && set->element[i].part == part)
            return MR_OK;
    if (set->n >= SCHEMA_SET_MAX)
        return schema_fail(s, MR_BAD_INPUT, schema, NULL, "more than %d schemas apply to one value", SCHEMA_SET_MAX);
    if (!json_is_object(schema) && !json_is_false(schema))
        return schema_fail(s, MR_BAD_INPUT, schema, NULL, "a schema must be an object, true or false");
    set->element[set->n++] = (struct schema_element){schema, part};
    return MR_OK;
}

/* The members of an allOf, anyOf or oneOf are schemas. */
static enum mr_status check_branches(const struct schema *s, json_t *schema, const char *keyword)
{
    json_t *branches = json_object_get(schema, keyword), *branch;
    size_t i;
    json_array_foreach(branches, i, branch) if (!json_is_object(branch) && !json_is_boolean(branch)) return schema_fail(
        s, MR_BAD_INPUT, schema, keyword, "item %zu must be a schema: an object, true or false", i);
    return MR_OK;
}

/* A schema object that is being taken apart: what it refers to is looked at before what stands beside it. */
struct open_schema {
    json_t *schema;
    size_t next; /* 0: $ref, 1 and up: allOf */
};

static enum mr_status open_one(const struct schema *s, struct schema_set *out, json_t *schema)
{
    MR_TRY(schema_check_keywords(s, schema));
    if (schema_has_constraints(schema))
        MR_TRY(schema_set_add(s, out, schema, SCHEMA_OWN));
    for (int i = 0; i < 3; i++) {
        static const char *const keyword[] = {"allOf", "anyOf", "oneOf"};
        MR_TRY(check_branches(s, schema, keyword[i]));
    }
    if (json_object_get(schema, "anyOf") != NULL)
        MR_TRY(schema_set_add(s, out, schema, SCHEMA_ANY_OF));
    if (json_object_get(schema, "oneOf") != NULL)
        MR_TRY(schema_set_add(s, out, schema, SCHEMA_ONE_OF));
    return MR_OK;
}

/* The next schema that o refers to; NULL: no more. */
static enum mr_status next_reference(const struct schema *s, struct open_schema *o, json_t **target)
{
    json_t *reference = json_object_get(o->schema, "$ref"), *all = json_object_get(o->schema, "allOf");
    *target = NULL;
    if (o->next == 0) {
        o->next = 1;
        if (reference != NULL)
            return schema_resolve(s, o->schema, json_string_value(reference), target);
    }
    if (o->next - 1 < json_array_size(all))
        *target = json_array_get(all, o->next++ - 1);
    return MR_OK;
}

static enum mr_status flatten_one(const struct schema *s, struct schema_set *out, json_t *schema, bool *nothing)
{
    struct open_schema open[SCHEMA_SET_MAX];
    size_t n = 0;
    json_t *target = schema;
    for (;;) {
        if (json_is_false(target)) {
            *nothing = true;
        } else if (target != NULL && !json_is_true(target)) {
            if (!json_is_object(target))
                return schema_fail(s, MR_BAD_INPUT, target, NULL, "a schema must be an object, true or false");
            for (size_t i = 0; i < n; i++)
                if (open[i].schema == target)
                    return schema_fail(s, MR_BAD_INPUT, open[n - 1].schema, "$ref", "refers to itself");
            if (n == SCHEMA_SET_MAX)
                return schema_fail(s, MR_BAD_INPUT, target, NULL, "references in a chain of more than %d", SCHEMA_SET_MAX);
            MR_TRY(open_one(s, out, target));
            open[n++] = (struct open_schema){target, 0};
        }
        while (n > 0) {
            MR_TRY(next_reference(s, &open[n - 1], &target));
            if (target != NULL)
                break;
            n--;
        }
        if (n == 0)
            return MR_OK;
    }
}

enum mr_status schema_flatten(const struct schema *s, struct schema_set *out, const struct schema_set *set, bool *nothing)
{
    out->n = 0;
    *nothing = false;
    for (size_t i = 0; i < set->n && !*nothing; i++) {
        const struct schema_element e = set->element[i];
        if (json_is_false(e.schema))
            *nothing = true;
        else if (e.part == SCHEMA_ALL)
            MR_TRY(flatten_one(s, out, e.schema, nothing));
        else
            MR_TRY(schema_set_add(s, out, e.schema, e.part));
    }
    return MR_OK;
}

/* Equal sets in another order count as different, since the order of properties depends on it. */
static bool same_elements(const struct schema_work *w, const struct schema_element *element, size_t n)
{
    bool same = w->n == n;
    for (size_t i = 0; same && i < n; i++)
        same = w->element[i].schema == element[i].schema && w->element[i].part == element[i].part;
    return same;
}

static size_t work_slot(const struct schema *s, const struct schema_element *element, size_t n)
{
    uint64_t h = n;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uintptr_t)element[i].schema ^ (uint64_t)element[i].part) * 0x9e3779b97f4a7c15u;
    size_t at = (size_t)(h >> 32) & (s->n_work_slot - 1);
    while (s->work_slot[at] != 0 && !same_elements(&s->work[s->work_slot[at] - 1], element, n))
        at = (at + 1) & (s->n_work_slot - 1);
    return at;
}

static bool grow_work(struct schema *s)
{
    free(s->work_slot);
    s->n_work_slot = s->n_work_slot > 0 ? 2 * s->n_work_slot : 64;
    s->work_slot = mem_zero_array(s->n_work_slot, sizeof *s->work_slot);
    for (size_t i = 0; s->work_slot != NULL && i < s->n_work; i++)
        s->work_slot[work_slot(s, s->work[i].element, s->work[i].n)] = (uint32_t)i + 1;
    return s->work_slot != NULL;
}

enum mr_status schema_rule(struct schema *s, const struct schema_set *set, uint32_t *rule)
{
    char pointer[256] = "any value";
    if (2 * s->n_work >= s->n_work_slot && !grow_work(s))
        return schema_no_memory(s);
    const size_t at = work_slot(s, set->element, set->n);
    if (s->work_slot[at] != 0) {
        *rule = s->work[s->work_slot[at] - 1].rule;
        return MR_OK;
    }
    if (set->n > 0)
        schema_pointer(s, set->element[0].schema, pointer, sizeof pointer);
    if (s->n_work >= SCHEMA_RULE_MAX)
        return mr_fail(s->err, MR_BAD_INPUT, "schema %s: more than %d combinations of schemas", pointer, SCHEMA_RULE_MAX);
    struct schema_element *copy = mem_array(set->n, sizeof *copy);
    if (copy == NULL || !mem_grow(&s->work, &s->work_capacity, s->n_work + 1, sizeof *s->work)) {
        free(copy);
        return schema_no_memory(s);
    }
    memcpy(copy, set->element, set->n * sizeof *copy);
    *rule = grammar_rule(s->b, pointer, strlen(pointer));
    s->work[s->n_work++] = (struct schema_work){copy, set->n, *rule};
    s->work_slot[at] = (uint32_t)s->n_work;
    return MR_OK;
}

/* The rule whose content is described by key. */
enum mr_status schema_leaf_find(struct schema *s, const char *key, uint32_t *rule, bool *is_new)
{
    *is_new = false;
    for (size_t i = 0; i < s->n_leaf; i++) {
        if (strcmp(s->leaf[i].key, key) == 0) {
            *rule = s->leaf[i].rule;
            return MR_OK;
        }
    }
    char *copy = mem_string(key, strlen(key));
    if (copy == NULL || !mem_grow(&s->leaf, &s->leaf_capacity, s->n_leaf + 1, sizeof *s->leaf)) {
        free(copy);
        return schema_no_memory(s);
    }
    *is_new = true;
    *rule = grammar_rule(s->b, key, strlen(key) < 80 ? strlen(key) : 80);
    s->leaf[s->n_leaf++] = (struct schema_leaf){copy, *rule};
    return MR_OK;
}

/* One alternative for each branch of the anyOf or oneOf at element `at` of the flat set. */
static enum mr_status define_branches(struct schema *s, const struct schema_set *flat, size_t at, uint32_t *expr)
{
    const struct schema_element chosen = flat->element[at];
    const bool one = chosen.part == SCHEMA_ONE_OF;
    json_t *branches = json_object_get(chosen.schema, one ? "oneOf" : "anyOf");
    const size_t n = json_array_size(branches);
    if (n > (one ? SCHEMA_ONE_OF_MAX : SCHEMA_ANY_OF_MAX))
        return schema_fail(s, MR_BAD_INPUT, chosen.schema, one ? "oneOf" : "anyOf", "more than %d schemas",
                           one ? SCHEMA_ONE_OF_MAX : SCHEMA_ANY_OF_MAX);
    struct schema_set *set = mem_array(n, sizeof *set);
    uint32_t *choice = mem_array(n, sizeof *choice);
    enum mr_status status = set != NULL && choice != NULL ? MR_OK : schema_no_memory(s);
    for (size_t i = 0; i < n && status == MR_OK; i++) {
        set[i].n = 0;
        for (size_t k = 0; k < flat->n && status == MR_OK; k++)
            if (k != at)
                status = schema_set_add(s, &set[i], flat->element[k].schema, flat->element[k].part);
        if (status == MR_OK)
            status = schema_set_add(s, &set[i], json_array_get(branches, i), SCHEMA_ALL);
        uint32_t rule = 0;
        if (status == MR_OK)
            status = schema_rule(s, &set[i], &rule);
        choice[i] = expr_call(s->b, rule);
        for (size_t k = 0; k < i && one && status == MR_OK; k++) {
            bool disjoint = false;
            status = schema_disjoint(s, &set[k], &set[i], 0, &disjoint);
            if (status == MR_OK && !disjoint)
                status = schema_fail(s, MR_NO_SUPPORT, chosen.schema, "oneOf",
                                     "cannot tell that schemas %zu and %zu never hold both; use anyOf", k, i);
        }
    }
    if (status == MR_OK)
        *expr = expr_choice(s->b, choice, n);
    free(set);
    free(choice);
    return status;
}

static enum mr_status define(struct schema *s, const struct schema_work *w)
{
    struct schema_set set = {.n = w->n}, flat;
    bool nothing;
    uint32_t expr = EXPR_NOTHING;
    memcpy(set.element, w->element, w->n * sizeof *w->element);
    MR_TRY(schema_flatten(s, &flat, &set, &nothing));
    size_t branch = 0;
    while (branch < flat.n && flat.element[branch].part == SCHEMA_OWN)
        branch++;
    if (!nothing && branch < flat.n)
        MR_TRY(define_branches(s, &flat, branch, &expr));
    else if (!nothing)
        MR_TRY(schema_value(s, &flat, &expr));
    grammar_define(s->b, w->rule, expr);
    return grammar_builder_status(s->b, s->err);
}

/* What may stand between two JSON tokens: nothing, a blank, or a line end and an indent. */
static void define_blanks(struct schema *s)
{
    const uint32_t blank = expr_bytes(s->b, " ", 1);
    const uint32_t indent[] = {expr_bytes(s->b, "\n", 1), expr_repeat(s->b, blank, 0, SCHEMA_INDENT_MAX)};
    const uint32_t choice[] = {EXPR_EMPTY, blank, expr_sequence(s->b, indent, 2)};
    s->blanks = grammar_rule(s->b, "blanks", 6);
    grammar_define(s->b, s->blanks, expr_choice(s->b, choice, 3));
    s->member_blanks = grammar_rule(s->b, "blank", 5);
    grammar_define(s->b, s->member_blanks, expr_choice(s->b, choice, 2));
}

static enum mr_status compile(struct schema *s, uint32_t *root)
{
    struct schema_set set = {.n = 0};
    MR_TRY(schema_index(s));
    define_blanks(s);
    if (json_is_false(s->root))
        return mr_fail(s->err, MR_BAD_INPUT, "schema #: false allows no value");
    MR_TRY(schema_set_add(s, &set, s->root, SCHEMA_ALL));
    MR_TRY(schema_rule(s, &set, root));
    for (size_t i = 0; i < s->n_work; i++) {
        const struct schema_work w = s->work[i];
        MR_TRY(define(s, &w));
    }
    return MR_OK;
}

enum mr_status schema_compile(struct grammar_builder *b, const char *text, size_t n, uint32_t *root, struct mr_error *err)
{
    json_error_t problem;
    struct schema s = {.b = b, .err = err};
    s.root = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &problem);
    if (s.root == NULL)
        return mr_fail(err, MR_BAD_INPUT, "schema, line %d, column %d: %s", problem.line, problem.column, problem.text);
    const enum mr_status status = compile(&s, root);
    for (size_t i = 0; i < s.n_work; i++)
        free(s.work[i].element);
    for (size_t i = 0; i < s.n_leaf; i++)
        free(s.leaf[i].key);
    free(s.work);
    free(s.work_slot);
    free(s.leaf);
    schema_index_release(&s);
    json_decref(s.root);
    return status;
}
