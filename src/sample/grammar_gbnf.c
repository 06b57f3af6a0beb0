/* grammar_gbnf.c: grammars in the notation that llama.cpp's documentation describes (GBNF). */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/string_buffer.h"
#include "base/utf8.h"
#include "sample/constraint_compile.h"
#include "sample/regex_tree.h"

enum {
    GROUP_DEPTH_MAX = 100,
    REPEAT_MAX = 1000000
};

/* A rule by its name. */
struct gbnf_name {
    const char *s;
    size_t n;
    uint32_t rule;
    int line; /* of its first use */
};

struct gbnf {
    struct grammar_builder *b;
    const char *at, *end;
    int line;
    struct mr_error *err;
    struct gbnf_name *name;
    size_t n_name, name_capacity;
    uint32_t *slot; /* hash table: 1 + index of name */
    size_t n_slot;
};

/* Lists grow on the way down and are handed to the builder on the way up. */
struct expr_list {
    uint32_t *expr;
    size_t n, capacity;
};

static enum mr_status no_memory(const struct gbnf *p) { return mr_fail(p->err, MR_NO_MEMORY, "no memory for a grammar"); }

static enum mr_status fail(const struct gbnf *p, const char *what)
{
    return mr_fail(p->err, MR_BAD_INPUT, "grammar, line %d: %s", p->line, what);
}

static bool list_add(struct expr_list *l, uint32_t expr)
{
    if (!mem_grow(&l->expr, &l->capacity, l->n + 1, sizeof *l->expr))
        return false;
    l->expr[l->n++] = expr;
    return true;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static bool at_char(const struct gbnf *p, char c) { return p->at < p->end && *p->at == c; }

/* Blanks and comments, line ends too where they mean nothing. */
static void skip_blanks(struct gbnf *p, bool lines)
{
    while (p->at < p->end) {
        if (*p->at == '#') {
            while (p->at < p->end && *p->at != '\n')
                p->at++;
        } else if (*p->at == ' ' || *p->at == '\t' || *p->at == '\r' || (*p->at == '\n' && lines)) {
            p->line += *p->at == '\n';
            p->at++;
        } else {
            return;
        }
    }
}

static size_t name_slot(const struct gbnf *p, const char *s, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
    size_t at = (size_t)(h ^ h >> 32) & (p->n_slot - 1);
    while (p->slot[at] != 0) {
        const struct gbnf_name *name = &p->name[p->slot[at] - 1];
        if (name->n == n && memcmp(name->s, s, n) == 0)
            break;
        at = (at + 1) & (p->n_slot - 1);
    }
    return at;
}

static bool grow_slots(struct gbnf *p)
{
    free(p->slot);
    p->n_slot = p->n_slot > 0 ? p->n_slot * 2 : 64;
    p->slot = mem_zero_array(p->n_slot, sizeof *p->slot);
    for (size_t i = 0; p->slot != NULL && i < p->n_name; i++)
        p->slot[name_slot(p, p->name[i].s, p->name[i].n)] = (uint32_t)i + 1;
    return p->slot != NULL;
}

/* The name at the cursor, entered where it is new. */
static enum mr_status read_name(struct gbnf *p, uint32_t *rule)
{
    const char *start = p->at;
    while (p->at < p->end && is_name_char(*p->at))
        p->at++;
    const size_t n = (size_t)(p->at - start);
    if (n == 0)
        return fail(p, "expected the name of a rule");
    if (p->n_name * 2 >= p->n_slot && !grow_slots(p))
        return no_memory(p);
    const size_t at = name_slot(p, start, n);
    if (p->slot[at] == 0) {
        if (!mem_grow(&p->name, &p->name_capacity, p->n_name + 1, sizeof *p->name))
            return no_memory(p);
        p->name[p->n_name++] = (struct gbnf_name){start, n, grammar_rule(p->b, start, n), p->line};
        p->slot[at] = (uint32_t)p->n_name;
    }
    *rule = p->name[p->slot[at] - 1].rule;
    return MR_OK;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static enum mr_status read_escape(struct gbnf *p, uint32_t *code)
{
    static const struct {
        char name, value;
    } simple[] = {{'t', '\t'}, {'r', '\r'}, {'n', '\n'}, {'\\', '\\'}, {'"', '"'},
                  {'[', '['},  {']', ']'},  {'-', '-'},  {'^', '^'}};
    if (p->at == p->end)
        return fail(p, "the text ends in an escape");
    const char c = *p->at++;
    for (size_t i = 0; i < sizeof simple / sizeof *simple; i++) {
        if (simple[i].name == c) {
            *code = (unsigned char)simple[i].value;
            return MR_OK;
        }
    }
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0)
        return fail(p, "unknown escape; known are \\t \\r \\n \\\\ \\\" \\[ \\] \\- \\^ \\xHH \\uHHHH \\UHHHHHHHH");
    *code = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        if (p->at == p->end || hex_value(*p->at) < 0)
            return fail(p, "an escape has too few hexadecimal digits");
        *code = *code << 4 | (uint32_t)hex_value(*p->at);
    }
    if (*code > CODE_POINT_MAX || (*code >= 0xd800 && *code <= 0xdfff))
        return fail(p, "an escape is not a character of Unicode");
    return MR_OK;
}

static enum mr_status read_char(struct gbnf *p, uint32_t *code)
{
    if (at_char(p, '\\')) {
        p->at++;
        return read_escape(p, code);
    }
    const int length = utf8_decode(code, p->at, (size_t)(p->end - p->at));
    if (length <= 0)
        return fail(p, "not UTF-8");
    p->line += *p->at == '\n';
    p->at += length;
    return MR_OK;
}

/* "text" */
static enum mr_status read_literal(struct gbnf *p, uint32_t *expr)
{
    struct string_buffer text;
    string_buffer_init(&text);
    enum mr_status status = MR_OK;
    p->at++;
    while (status == MR_OK && p->at < p->end && *p->at != '"') {
        uint32_t code = 0;
        char bytes[UTF8_MAX];
        status = read_char(p, &code);
        string_buffer_add(&text, bytes, (size_t)utf8_encode(bytes, code));
    }
    if (status == MR_OK && p->at == p->end)
        status = fail(p, "a literal is not closed");
    if (status == MR_OK && text.failed)
        status = no_memory(p);
    if (status == MR_OK) {
        p->at++;
        *expr = expr_bytes(p->b, text.s, text.n);
    }
    string_buffer_release(&text);
    return status;
}

struct ranges {
    struct code_range *range;
    size_t n, capacity;
};

static enum mr_status read_ranges(struct gbnf *p, struct ranges *r)
{
    while (p->at < p->end && *p->at != ']') {
        struct code_range range;
        MR_TRY(read_char(p, &range.low));
        range.high = range.low;
        if (p->at + 1 < p->end && p->at[0] == '-' && p->at[1] != ']') {
            p->at++;
            MR_TRY(read_char(p, &range.high));
        }
        if (range.high < range.low)
            return fail(p, "a range of characters ends before it begins");
        if (!mem_grow(&r->range, &r->capacity, r->n + 1, sizeof *r->range))
            return no_memory(p);
        r->range[r->n++] = range;
    }
    return p->at < p->end ? MR_OK : fail(p, "a character class is not closed");
}

/* [a-z], [^a-z] */
static enum mr_status read_class(struct gbnf *p, uint32_t *expr)
{
    struct ranges r = {0};
    p->at++;
    const bool negated = at_char(p, '^');
    p->at += negated;
    enum mr_status status = read_ranges(p, &r);
    if (status == MR_OK && !mem_grow(&r.range, &r.capacity, r.n + 1, sizeof *r.range))
        status = no_memory(p);
    if (status == MR_OK) {
        if (negated)
            code_ranges_negate(r.range, &r.n);
        p->at++;
        *expr = expr_chars(p->b, r.range, r.n);
    }
    free(r.range);
    return status;
}

static enum mr_status read_alternatives(struct gbnf *p, int depth, uint32_t *expr);

static enum mr_status read_group(struct gbnf *p, int depth, uint32_t *expr)
{
    if (depth >= GROUP_DEPTH_MAX)
        return mr_fail(p->err, MR_BAD_INPUT, "grammar, line %d: parentheses nested deeper than %d", p->line, GROUP_DEPTH_MAX);
    p->at++;
    skip_blanks(p, true);
    MR_TRY(read_alternatives(p, depth + 1, expr));
    if (!at_char(p, ')'))
        return fail(p, "a parenthesis is not closed");
    p->at++;
    return MR_OK;
}

/* One symbol without what repeats it; *found: whether there was one. */
static enum mr_status read_symbol(struct gbnf *p, int depth, uint32_t *expr, bool *found)
{
    static const struct code_range any = {0, CODE_POINT_MAX};
    uint32_t rule;
    *found = p->at < p->end;
    if (!*found)
        return MR_OK;
    switch (*p->at) {
    case '"':
        return read_literal(p, expr);
    case '[':
        return read_class(p, expr);
    case '(':
        return read_group(p, depth, expr);
    case '.':
        p->at++;
        *expr = expr_chars(p->b, &any, 1);
        return MR_OK;
    case '<':
    case '!':
        return mr_fail(p->err, MR_NO_SUPPORT, "grammar, line %d: tokens in a grammar ('<...>', '!<...>')", p->line);
    default:
        if (!(*found = is_name_char(*p->at)))
            return MR_OK;
        MR_TRY(read_name(p, &rule));
        *expr = expr_call(p->b, rule);
        return MR_OK;
    }
}

static enum mr_status read_number(struct gbnf *p, uint32_t *number, bool *found)
{
    *number = 0;
    *found = false;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
        *number = *number * 10 + (uint32_t)(*p->at - '0');
        *found = true;
        if (*number > REPEAT_MAX)
            return mr_fail(p->err, MR_BAD_INPUT, "grammar, line %d: a repetition of more than %d", p->line, REPEAT_MAX);
    }
    return MR_OK;
}

/* {m}, {m,}, {m,n} */
static enum mr_status read_counts(struct gbnf *p, uint32_t *min, uint32_t *max)
{
    bool has_min, has_max = false;
    p->at++;
    skip_blanks(p, false);
    MR_TRY(read_number(p, min, &has_min));
    skip_blanks(p, false);
    *max = *min;
    if (at_char(p, ',')) {
        p->at++;
        skip_blanks(p, false);
        MR_TRY(read_number(p, max, &has_max));
        skip_blanks(p, false);
        if (!has_max)
            *max = REPEAT_NO_MAX;
    }
    if (!at_char(p, '}') || (!has_min && !has_max))
        return fail(p, "a repetition is not {m}, {m,} or {m,n}");
    p->at++;
    return *max >= *min ? MR_OK : fail(p, "a repetition ends before it begins");
}

/* *, +, ?, {m,n} behind a symbol. */
static enum mr_status read_repetitions(struct gbnf *p, uint32_t *expr)
{
    for (;;) {
        uint32_t min, max;
        if (at_char(p, '{')) {
            MR_TRY(read_counts(p, &min, &max));
        } else if (at_char(p, '*') || at_char(p, '+') || at_char(p, '?')) {
            min = *p->at == '+';
            max = *p->at == '?' ? 1 : REPEAT_NO_MAX;
            p->at++;
        } else {
            return MR_OK;
        }
        *expr = expr_repeat(p->b, *expr, min, max);
    }
}

static enum mr_status read_sequence(struct gbnf *p, int depth, struct expr_list *list)
{
    for (;;) {
        uint32_t expr = EXPR_NOTHING;
        bool found;
        MR_TRY(read_symbol(p, depth, &expr, &found));
        if (!found)
            return MR_OK;
        MR_TRY(read_repetitions(p, &expr));
        if (!list_add(list, expr))
            return no_memory(p);
        skip_blanks(p, depth > 0);
    }
}

/* Whether another alternative follows; its bar is skipped. It may stand on a line of its own. */
static bool next_alternative(struct gbnf *p)
{
    const struct gbnf before = *p;
    skip_blanks(p, true);
    if (!at_char(p, '|')) {
        *p = before;
        return false;
    }
    p->at++;
    skip_blanks(p, true);
    return true;
}

static enum mr_status read_alternatives(struct gbnf *p, int depth, uint32_t *expr)
{
    struct expr_list choice = {0};
    enum mr_status status = MR_OK;
    do {
        struct expr_list sequence = {0};
        status = read_sequence(p, depth, &sequence);
        if (status == MR_OK && !list_add(&choice, expr_sequence(p->b, sequence.expr, sequence.n)))
            status = no_memory(p);
        free(sequence.expr);
    } while (status == MR_OK && next_alternative(p));
    if (status == MR_OK)
        *expr = expr_choice(p->b, choice.expr, choice.n);
    free(choice.expr);
    return status;
}

static enum mr_status read_rule(struct gbnf *p)
{
    uint32_t rule, expr;
    MR_TRY(read_name(p, &rule));
    if (grammar_is_defined(p->b, rule))
        return mr_fail(p->err, MR_BAD_INPUT, "grammar, line %d: rule '%s' is defined twice", p->line,
                       grammar_rule_name(p->b, rule));
    skip_blanks(p, false);
    if (p->end - p->at < 3 || memcmp(p->at, "::=", 3) != 0)
        return mr_fail(p->err, MR_BAD_INPUT, "grammar, line %d: expected '::=' behind '%s'", p->line,
                       grammar_rule_name(p->b, rule));
    p->at += 3;
    skip_blanks(p, true);
    MR_TRY(read_alternatives(p, 0, &expr));
    grammar_define(p->b, rule, expr);
    if (p->at < p->end && *p->at != '\n')
        return mr_fail(p->err, MR_BAD_INPUT, "grammar, line %d: unexpected '%.*s' in rule '%s'", p->line,
                       (int)(p->end - p->at < 8 ? p->end - p->at : 8), p->at, grammar_rule_name(p->b, rule));
    return MR_OK;
}

static enum mr_status read_rules(struct gbnf *p, uint32_t *root)
{
    bool has_root = false;
    for (skip_blanks(p, true); p->at < p->end; skip_blanks(p, true))
        MR_TRY(read_rule(p));
    for (size_t i = 0; i < p->n_name; i++) {
        const struct gbnf_name *name = &p->name[i];
        if (grammar_builder_status(p->b, NULL) == MR_OK && !grammar_is_defined(p->b, name->rule))
            return mr_fail(p->err, MR_BAD_INPUT, "grammar, line %d: rule '%.*s' is used but not defined", name->line,
                           (int)(name->n < 100 ? name->n : 100), name->s);
        if (name->n == 4 && memcmp(name->s, "root", 4) == 0) {
            *root = name->rule;
            has_root = true;
        }
    }
    return has_root ? MR_OK : mr_fail(p->err, MR_BAD_INPUT, "grammar: no rule is named 'root'");
}

enum mr_status gbnf_compile(struct grammar_builder *b, const char *text, size_t n, uint32_t *root, struct mr_error *err)
{
    struct gbnf p = {.b = b, .at = text, .end = text + n, .line = 1, .err = err};
    grammar_inline_small(b);
    const enum mr_status status = read_rules(&p, root);
    free(p.name);
    free(p.slot);
    return status;
}
