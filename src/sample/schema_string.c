/* schema_string.c: strings: lengths in characters, pattern, format. */
#include <stdlib.h>
#include <string.h>

#include "base/string_buffer.h"
#include "base/utf8.h"
#include "sample/regex.h"
#include "sample/schema.h"

/* All strings of min to max characters. */
static enum mr_status length_dfa(struct dfa *out, uint32_t min, uint32_t max, struct mr_error *err)
{
    struct nfa n;
    nfa_init(&n);
    const uint32_t end = nfa_state(&n);
    uint32_t at = nfa_state(&n);
    const uint32_t start = at, last = max == REPEAT_NO_MAX ? min : max;
    for (uint32_t i = 0; i <= last && n.status == MR_OK; i++) {
        if (i >= min)
            nfa_empty(&n, at, end);
        if (i == last && max != REPEAT_NO_MAX)
            break;
        const uint32_t next = i < last ? nfa_state(&n) : at;
        nfa_edge(&n, at, 0, CODE_POINT_MAX, next);
        at = next;
    }
    const enum mr_status status = dfa_from_nfa(out, &n, start, end, err);
    nfa_release(&n);
    return status;
}

/* All strings but one. */
static enum mr_status one_string_dfa(struct dfa *out, const char *text, struct mr_error *err)
{
    struct nfa n;
    nfa_init(&n);
    const uint32_t start = nfa_state(&n);
    uint32_t at = start;
    for (size_t i = 0, length = strlen(text); i < length;) {
        uint32_t code;
        const int step = utf8_decode(&code, text + i, length - i);
        const uint32_t next = nfa_state(&n);
        nfa_edge(&n, at, code, code, next);
        at = next;
        i += step > 0 ? (size_t)step : 1;
    }
    const enum mr_status status = dfa_from_nfa(out, &n, start, at, err);
    nfa_release(&n);
    return status;
}

/* Narrow the strings by those of d, whose content is taken. */
static enum mr_status narrow(struct schema *s, struct schema_string *out, struct dfa *d, enum dfa_combine how)
{
    struct dfa both;
    enum mr_status status;
    if (!out->has_dfa && how == DFA_MINUS) {
        out->has_dfa = true;
        status = length_dfa(&out->dfa, 0, REPEAT_NO_MAX, s->err);
        if (status != MR_OK) {
            dfa_release(d);
            return status;
        }
    }
    if (!out->has_dfa) {
        out->dfa = *d;
        *d = (struct dfa){0};
        out->has_dfa = true;
        return MR_OK;
    }
    status = dfa_combine(&both, &out->dfa, d, how, s->err);
    dfa_release(d);
    if (status != MR_OK)
        return status;
    dfa_release(&out->dfa);
    out->dfa = both;
    return dfa_minimize(&out->dfa, NULL, s->err);
}

static enum mr_status narrow_not(struct schema *s, struct schema_string *out, json_t *schema)
{
    json_t *not = json_object_get(schema, "not"), *constant = json_object_get(not, "const"),
           *list = json_object_get(not, "enum");
    for (size_t i = 0; constant != NULL || i < json_array_size(list); i++) {
        json_t *value = constant != NULL ? constant : json_array_get(list, i);
        struct dfa d;
        if (json_is_string(value)) {
            MR_TRY(one_string_dfa(&d, json_string_value(value), s->err));
            MR_TRY(narrow(s, out, &d, DFA_MINUS));
        }
        if (constant != NULL)
            break;
    }
    return MR_OK;
}

static enum mr_status narrow_pattern(struct schema *s, struct schema_string *out, json_t *schema, const char *keyword,
                                     const char *pattern, enum regex_match match)
{
    struct dfa d;
    char pointer[256];
    enum mr_status status = regex_to_dfa(&d, pattern, strlen(pattern), match, s->err);
    if (status == MR_OK)
        status = narrow(s, out, &d, DFA_BOTH);
    schema_pointer(s, schema, pointer, sizeof pointer);
    return status == MR_OK ? MR_OK : mr_fail_in(s->err, status, "schema %s: keyword '%s'", pointer, keyword);
}

static enum mr_status read_one(struct schema *s, struct schema_string *out, json_t *schema)
{
    uint32_t min = 0, max = REPEAT_NO_MAX;
    MR_TRY(schema_count(s, schema, "minLength", &min));
    MR_TRY(schema_count(s, schema, "maxLength", &max));
    out->min = min > out->min ? min : out->min;
    out->max = max < out->max ? max : out->max;
    json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    if (pattern != NULL)
        MR_TRY(narrow_pattern(s, out, schema, "pattern", json_string_value(pattern), REGEX_SEARCH));
    if (format != NULL) {
        const char *text = schema_format_pattern(json_string_value(format));
        if (text == NULL)
            return schema_fail(s, MR_NO_SUPPORT, schema, "format", "'%.80s' is not supported", json_string_value(format));
        MR_TRY(narrow_pattern(s, out, schema, "format", text, REGEX_FULL));
    }
    return narrow_not(s, out, schema);
}

static enum mr_status read_lengths(struct schema *s, const struct schema_set *set, struct schema_string *out)
{
    const uint32_t longest = out->max != REPEAT_NO_MAX ? out->max : out->min;
    struct dfa d;
    if (!out->has_dfa || (out->min == 0 && out->max == REPEAT_NO_MAX))
        return MR_OK;
    if (longest > SCHEMA_LENGTH_MAX)
        return schema_fail(s, MR_NO_SUPPORT, set->element[0].schema, out->max != REPEAT_NO_MAX ? "maxLength" : "minLength",
                           "more than %d beside pattern, format or not", SCHEMA_LENGTH_MAX);
    MR_TRY(length_dfa(&d, out->min, out->max, s->err));
    return narrow(s, out, &d, DFA_BOTH);
}

enum mr_status schema_string_read(struct schema *s, const struct schema_set *set, struct schema_string *out)
{
    *out = (struct schema_string){.max = REPEAT_NO_MAX};
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < set->n && status == MR_OK; i++)
        status = read_one(s, out, set->element[i].schema);
    if (status == MR_OK)
        status = read_lengths(s, set, out);
    if (status != MR_OK)
        dfa_release(&out->dfa);
    return status;
}

uint32_t schema_quoted(struct schema *s, uint32_t body)
{
    const uint32_t quote = expr_bytes(s->b, "\"", 1);
    const uint32_t part[] = {quote, body, quote};
    return expr_sequence(s->b, part, 3);
}

/* What of the set concerns strings, as text: equal strings share a rule, and with it their masks. */
static void describe(struct string_buffer *key, const struct schema_set *set)
{
    static const char *const keyword[] = {"minLength", "maxLength", "pattern", "format", "not"};
    string_buffer_puts(key, "string");
    for (size_t i = 0; i < set->n; i++) {
        for (size_t k = 0; k < sizeof keyword / sizeof *keyword; k++) {
            json_t *value = json_object_get(set->element[i].schema, keyword[k]);
            char *text = value != NULL ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS) : NULL;
            if (value != NULL && text == NULL)
                key->failed = true;
            if (text != NULL)
                string_buffer_printf(key, " %s %s", keyword[k], text);
            free(text);
        }
    }
}

static enum mr_status define_string(struct schema *s, const struct schema_set *set, uint32_t rule)
{
    struct schema_string string;
    MR_TRY(schema_string_read(s, set, &string));
    uint32_t body = EXPR_NOTHING;
    if (string.has_dfa)
        body = expr_dfa(s->b, &string.dfa, true);
    else if (string.min <= string.max)
        body = expr_repeat(s->b, expr_json_char(s->b), string.min, string.max);
    grammar_define(s->b, rule, schema_quoted(s, body));
    return MR_OK;
}

enum mr_status schema_string_expr(struct schema *s, const struct schema_set *set, uint32_t *expr)
{
    struct string_buffer key;
    uint32_t rule = 0;
    bool is_new = false;
    string_buffer_init(&key);
    describe(&key, set);
    enum mr_status status = key.failed ? schema_no_memory(s) : schema_leaf_find(s, key.s, &rule, &is_new);
    string_buffer_release(&key);
    if (status == MR_OK && is_new)
        status = define_string(s, set, rule);
    *expr = expr_call(s->b, rule);
    return status;
}
