/* schema_object.c: objects: declared properties in their order, then any others. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "sample/regex.h"
#include "sample/schema.h"

enum {
    PROPERTY_MAX = 4096,
    NAME_BYTES_MAX = 1 << 16
};

struct object_pattern {
    const char *text;
    json_t *holder; /* the schema object whose patternProperties has it */
    json_t *schema;
    struct dfa dfa; /* names that match */
};

/* What every schema of a set says about objects, taken together. */
struct object_limits {
    json_t *names; /* declared or required names to true (required) or false, in order */
    struct object_pattern pattern[SCHEMA_PATTERN_MAX];
    size_t n_pattern;
    size_t n_required;
    uint32_t min, max; /* properties */
    json_t *asks_min, *asks_max;
};

static void limits_release(struct object_limits *l)
{
    json_decref(l->names);
    for (size_t i = 0; i < l->n_pattern; i++)
        dfa_release(&l->pattern[i].dfa);
}

static enum mr_status read_patterns(struct schema *s, json_t *schema, struct object_limits *l)
{
    const char *text;
    json_t *value;
    json_object_foreach(json_object_get(schema, "patternProperties"), text, value)
    {
        struct object_pattern *p = &l->pattern[l->n_pattern];
        if (l->n_pattern == SCHEMA_PATTERN_MAX)
            return schema_fail(s, MR_NO_SUPPORT, schema, "patternProperties", "more than %d", SCHEMA_PATTERN_MAX);
        if (!json_is_object(value) && !json_is_boolean(value))
            return schema_fail(s, MR_BAD_INPUT, schema, "patternProperties", "'%.60s' must be a schema", text);
        *p = (struct object_pattern){.text = text, .holder = schema, .schema = value};
        const enum mr_status status = regex_to_dfa(&p->dfa, text, strlen(text), REGEX_SEARCH, s->err);
        if (status != MR_OK) {
            char pointer[256];
            schema_pointer(s, schema, pointer, sizeof pointer);
            return mr_fail_in(s->err, status, "schema %s: keyword 'patternProperties'", pointer);
        }
        l->n_pattern++;
    }
    return MR_OK;
}

static enum mr_status read_required(struct schema *s, json_t *schema, struct object_limits *l)
{
    json_t *name;
    size_t i;
    json_array_foreach(json_object_get(schema, "required"), i, name)
    {
        if (!json_is_string(name))
            return schema_fail(s, MR_BAD_INPUT, schema, "required", "must be an array of strings");
        if (json_object_set_new(l->names, json_string_value(name), json_true()) != 0)
            return schema_no_memory(s);
    }
    return MR_OK;
}

static enum mr_status read_properties(struct schema *s, json_t *schema, struct object_limits *l)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(schema, "properties"), name, value)
    {
        if (!json_is_object(value) && !json_is_boolean(value))
            return schema_fail(s, MR_BAD_INPUT, schema, "properties", "'%.60s' must be a schema: an object, true or false",
                               name);
        if (json_object_get(l->names, name) == NULL && json_object_set_new(l->names, name, json_false()) != 0)
            return schema_no_memory(s);
    }
    if (json_object_size(l->names) > PROPERTY_MAX)
        return schema_fail(s, MR_BAD_INPUT, schema, "properties", "more than %d", PROPERTY_MAX);
    return MR_OK;
}

static enum mr_status read_one(struct schema *s, json_t *schema, struct object_limits *l)
{
    uint32_t min = 0, max = REPEAT_NO_MAX;
    MR_TRY(schema_count(s, schema, "minProperties", &min));
    MR_TRY(schema_count(s, schema, "maxProperties", &max));
    if (min > l->min) {
        l->min = min;
        l->asks_min = schema;
    }
    if (max < l->max) {
        l->max = max;
        l->asks_max = schema;
    }
    MR_TRY(read_patterns(s, schema, l));
    return read_properties(s, schema, l);
}

static enum mr_status read_limits(struct schema *s, const struct schema_set *set, struct object_limits *l)
{
    *l = (struct object_limits){.max = REPEAT_NO_MAX, .names = json_object()};
    if (l->names == NULL)
        return schema_no_memory(s);
    for (size_t i = 0; i < set->n; i++)
        MR_TRY(read_one(s, set->element[i].schema, l));
    for (size_t i = 0; i < set->n; i++)
        MR_TRY(read_required(s, set->element[i].schema, l));
    const char *name;
    json_t *required;
    json_object_foreach(l->names, name, required) l->n_required += json_is_true(required);
    return MR_OK;
}

/* The rule of a declared property: each schema of the set speaks by properties, patternProperties, or else
 * additionalProperties. */
static enum mr_status property_rule(struct schema *s, const struct schema_set *set, const struct object_limits *l,
                                    const char *name, uint32_t *rule)
{
    struct schema_set value = {.n = 0};
    for (size_t i = 0; i < set->n; i++) {
        json_t *schema = set->element[i].schema, *own = json_object_get(json_object_get(schema, "properties"), name);
        bool known = own != NULL;
        if (own != NULL)
            MR_TRY(schema_set_add(s, &value, own, SCHEMA_ALL));
        for (size_t p = 0; p < l->n_pattern; p++) {
            if (l->pattern[p].holder != schema || !dfa_accepts_text(&l->pattern[p].dfa, name, strlen(name)))
                continue;
            known = true;
            MR_TRY(schema_set_add(s, &value, l->pattern[p].schema, SCHEMA_ALL));
        }
        json_t *others = json_object_get(schema, "additionalProperties");
        if (!known && others != NULL)
            MR_TRY(schema_set_add(s, &value, others, SCHEMA_ALL));
    }
    return schema_rule(s, &value, rule);
}

/* name and value as a member: "name": value. */
static uint32_t member_of(struct schema *s, uint32_t name, uint32_t value_rule)
{
    const uint32_t part[] = {name, expr_bytes(s->b, ":", 1), expr_call(s->b, s->member_blanks), expr_call(s->b, value_rule)};
    return expr_sequence(s->b, part, 4);
}

static enum mr_status declared_members(struct schema *s, const struct schema_set *set, const struct object_limits *l,
                                       struct expr_member *member)
{
    const char *name;
    json_t *required;
    size_t n = 0;
    json_object_foreach(l->names, name, required)
    {
        uint32_t rule, key = EXPR_NOTHING;
        json_t *text = json_string(name);
        if (text == NULL)
            return schema_no_memory(s);
        const enum mr_status status = schema_literal(s, text, &key);
        json_decref(text);
        MR_TRY(status);
        MR_TRY(property_rule(s, set, l, name, &rule));
        member[n++] = (struct expr_member){member_of(s, key, rule), json_is_true(required)};
    }
    return MR_OK;
}

/* Names that match exactly the chosen patterns and are not declared. */
static enum mr_status free_names(struct schema *s, const struct object_limits *l, unsigned chosen, struct dfa *out)
{
    struct nfa n;
    struct dfa declared;
    const char *name;
    json_t *required;
    nfa_init(&n);
    const uint32_t start = nfa_state(&n), end = nfa_state(&n);
    json_object_foreach(l->names, name, required)
    {
        uint32_t at = start;
        for (size_t i = 0, length = strlen(name); i < length;) {
            uint32_t code;
            const int step = utf8_decode(&code, name + i, length - i);
            const uint32_t next = nfa_state(&n);
            nfa_edge(&n, at, code, code, next);
            at = next;
            i += step > 0 ? (size_t)step : 1;
        }
        nfa_empty(&n, at, end);
    }
    enum mr_status status = dfa_from_nfa(&declared, &n, start, end, s->err);
    nfa_release(&n);
    MR_TRY(status);
    status = regex_to_dfa(out, "", 0, REGEX_SEARCH, s->err);
    for (size_t i = 0; i <= l->n_pattern && status == MR_OK; i++) {
        struct dfa narrowed;
        const bool last = i == l->n_pattern;
        const enum dfa_combine how = !last && chosen >> i & 1 ? DFA_BOTH : DFA_MINUS;
        status = dfa_combine(&narrowed, out, last ? &declared : &l->pattern[i].dfa, how, s->err);
        dfa_release(out);
        *out = narrowed;
        if (status == MR_OK)
            status = dfa_minimize(out, NULL, s->err);
    }
    dfa_release(&declared);
    if (status != MR_OK)
        dfa_release(out);
    return status;
}

/* The rule of the values of names that match exactly the chosen patterns; *nothing: there must be none. */
static enum mr_status free_rule(struct schema *s, const struct schema_set *set, const struct object_limits *l, unsigned chosen,
                                uint32_t *rule, bool *nothing)
{
    struct schema_set value = {.n = 0};
    *nothing = false;
    for (size_t i = 0; i < set->n; i++) {
        json_t *schema = set->element[i].schema, *others = json_object_get(schema, "additionalProperties");
        bool known = false;
        for (size_t p = 0; p < l->n_pattern; p++) {
            if (!(chosen >> p & 1))
                continue;
            known |= l->pattern[p].holder == schema;
            MR_TRY(schema_set_add(s, &value, l->pattern[p].schema, SCHEMA_ALL));
        }
        if (!known && others != NULL)
            MR_TRY(schema_set_add(s, &value, others, SCHEMA_ALL));
    }
    for (size_t i = 0; i < value.n; i++)
        *nothing |= json_is_false(value.element[i].schema);
    return schema_rule(s, &value, rule);
}

/* Any member whose name is not declared. */
static enum mr_status free_member(struct schema *s, const struct schema_set *set, const struct object_limits *l, uint32_t *expr)
{
    uint32_t choice[1 << SCHEMA_PATTERN_MAX], n = 0;
    for (unsigned chosen = 0; chosen < 1u << l->n_pattern; chosen++) {
        uint32_t rule;
        bool nothing;
        struct dfa names;
        MR_TRY(free_rule(s, set, l, chosen, &rule, &nothing));
        if (nothing)
            continue;
        if (l->n_pattern == 0 && json_object_size(l->names) == 0) {
            const struct schema_set any = {.n = 0};
            uint32_t name;
            MR_TRY(schema_string_expr(s, &any, &name));
            choice[n++] = member_of(s, name, rule);
            continue;
        }
        MR_TRY(free_names(s, l, chosen, &names));
        if (dfa_is_empty(&names))
            dfa_release(&names);
        else
            choice[n++] = member_of(s, schema_quoted(s, expr_dfa(s->b, &names, true)), rule);
    }
    *expr = expr_choice(s->b, choice, n);
    return MR_OK;
}

/* Where counts cannot be kept by the members alone: free names may repeat, and optional ones may be left out. */
static enum mr_status check_counts(const struct schema *s, const struct object_limits *l, bool has_free)
{
    const size_t n_name = json_object_size(l->names);
    if (l->min > l->n_required && l->min > 1)
        return schema_fail(s, MR_NO_SUPPORT, l->asks_min, "minProperties", "more than 1 and more than are required");
    if (l->max != REPEAT_NO_MAX && n_name > l->max)
        return schema_fail(s, MR_NO_SUPPORT, l->asks_max, "maxProperties", "less than the %zu that are declared", n_name);
    if (l->max != REPEAT_NO_MAX && has_free && n_name > 0)
        return schema_fail(s, MR_NO_SUPPORT, l->asks_max, "maxProperties", "beside declared and other properties");
    return MR_OK;
}

/* The members of an object that has some; EXPR_NOTHING where it must not have any. */
static enum mr_status object_members(struct schema *s, const struct schema_set *set, const struct object_limits *l,
                                     struct expr_member *member, uint32_t *expr)
{
    const uint32_t comma[] = {expr_bytes(s->b, ",", 1), expr_call(s->b, s->blanks)};
    const size_t n = json_object_size(l->names);
    struct expr_members m = {.member = member, .n = n, .separator = expr_sequence(s->b, comma, 2)};
    MR_TRY(declared_members(s, set, l, member));
    MR_TRY(free_member(s, set, l, &m.more));
    MR_TRY(check_counts(s, l, m.more != EXPR_NOTHING));
    if (n > 0 || l->max == REPEAT_NO_MAX) {
        *expr = expr_members(s->b, &m);
        return MR_OK;
    }
    if (l->max == 0)
        return MR_OK;
    const uint32_t more[] = {m.separator, m.more};
    const uint32_t all[] = {m.more, expr_repeat(s->b, expr_sequence(s->b, more, 2), 0, l->max - 1)};
    *expr = expr_sequence(s->b, all, 2);
    return MR_OK;
}

enum mr_status schema_object_expr(struct schema *s, const struct schema_set *set, uint32_t *expr)
{
    struct object_limits l;
    uint32_t members = EXPR_NOTHING;
    enum mr_status status = read_limits(s, set, &l);
    struct expr_member *member = status == MR_OK ? mem_array(json_object_size(l.names), sizeof *member) : NULL;
    if (status == MR_OK && member == NULL)
        status = schema_no_memory(s);
    if (status == MR_OK && l.min <= l.max)
        status = object_members(s, set, &l, member, &members);
    const uint32_t blanks = expr_call(s->b, s->blanks), filled[] = {members, blanks};
    const uint32_t least = l.min == 0 && l.n_required == 0 ? 0 : 1;
    const uint32_t part[] = {expr_bytes(s->b, "{", 1), blanks, expr_repeat(s->b, expr_sequence(s->b, filled, 2), least, 1),
                             expr_bytes(s->b, "}", 1)};
    limits_release(&l);
    free(member);
    *expr = expr_sequence(s->b, part, 4);
    return status;
}
