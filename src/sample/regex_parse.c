/* regex_parse.c: the notation of regular expressions. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "sample/regex.h"
#include "sample/regex_tree.h"

struct parser {
    const char *start, *at, *end;
    struct regex_tree *tree;
    struct mr_error *err;
};

void regex_tree_release(struct regex_tree *t)
{
    free(t->node);
    free(t->range);
    *t = (struct regex_tree){0};
}

static enum mr_status fail(const struct parser *p, enum mr_status status, const char *what)
{
    const char *problem = status == MR_NO_SUPPORT ? "unsupported: " : "";
    return mr_fail(p->err, status, "pattern '%.*s', byte %d: %s%s", (int)(p->end - p->start < 100 ? p->end - p->start : 100),
                   p->start, (int)(p->at - p->start) + 1, problem, what);
}

static enum mr_status no_memory(const struct parser *p) { return mr_fail(p->err, MR_NO_MEMORY, "no memory for a pattern"); }

static bool at_char(const struct parser *p, char c) { return p->at < p->end && *p->at == c; }

static enum mr_status new_node(struct parser *p, struct regex_node node, uint32_t *index)
{
    struct regex_tree *t = p->tree;
    node.next = REGEX_NONE;
    if (!mem_grow(&t->node, &t->node_capacity, t->n_node + 1, sizeof *t->node))
        return no_memory(p);
    t->node[t->n_node] = node;
    *index = (uint32_t)t->n_node++;
    return MR_OK;
}

static enum mr_status add_range(struct parser *p, uint32_t low, uint32_t high)
{
    struct regex_tree *t = p->tree;
    if (!mem_grow(&t->range, &t->range_capacity, t->n_range + 2, sizeof *t->range)) /* one more: code_ranges_negate */
        return no_memory(p);
    t->range[t->n_range++] = (struct code_range){low, high};
    return MR_OK;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct code_range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

void code_ranges_negate(struct code_range *range, size_t *n)
{
    uint32_t next = 0; /* the first code point that is not decided */
    size_t out = 0;
    if (*n > 0)
        qsort(range, *n, sizeof *range, compare_ranges);
    for (size_t i = 0; i < *n; i++) {
        const struct code_range r = range[i];
        if (r.low > next)
            range[out++] = (struct code_range){next, r.low - 1};
        next = r.high + 1 > next ? r.high + 1 : next;
    }
    if (next <= CODE_POINT_MAX)
        range[out++] = (struct code_range){next, CODE_POINT_MAX};
    *n = out;
}

/* Negate the ranges from `first` on. */
static enum mr_status negate_from(struct parser *p, size_t first)
{
    struct regex_tree *t = p->tree;
    if (!mem_grow(&t->range, &t->range_capacity, t->n_range + 1, sizeof *t->range))
        return no_memory(p);
    size_t n = t->n_range - first;
    code_ranges_negate(t->range + first, &n);
    t->n_range = first + n;
    return MR_OK;
}

/* \d, \w, \s and their opposites; *found: whether `letter` is one. Sets as in ECMA-262, section 22.2.2.9. */
static enum mr_status add_class(struct parser *p, char letter, bool *found)
{
    static const struct code_range digit[] = {{'0', '9'}}, word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const struct code_range space[] = {{9, 13},          {32, 32},         {0xa0, 0xa0},     {0x1680, 0x1680},
                                              {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                              {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    static const struct {
        char letter;
        const struct code_range *range;
        size_t n;
    } class[] = {{'d', digit, 1}, {'w', word, 4}, {'s', space, sizeof space / sizeof *space}};
    const char lower = letter | 0x20;
    const size_t first = p->tree->n_range;
    *found = false;
    for (size_t i = 0; i < sizeof class / sizeof *class; i++) {
        if (class[i].letter != lower)
            continue;
        *found = true;
        for (size_t k = 0; k < class[i].n; k++)
            MR_TRY(add_range(p, class[i].range[k].low, class[i].range[k].high));
        return letter == lower ? MR_OK : negate_from(p, first);
    }
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

static enum mr_status read_hex(struct parser *p, int digits, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        if (p->at == p->end || hex_value(*p->at) < 0)
            return fail(p, MR_BAD_INPUT, "an escape has too few hexadecimal digits");
        *code = *code << 4 | (uint32_t)hex_value(*p->at);
    }
    return MR_OK;
}

/* Behind \u: four digits, two times four for a surrogate pair, or braces. */
static enum mr_status read_unicode(struct parser *p, uint32_t *code)
{
    if (at_char(p, '{')) {
        *code = 0;
        for (p->at++; p->at < p->end && hex_value(*p->at) >= 0; p->at++) {
            *code = *code << 4 | (uint32_t)hex_value(*p->at);
            if (*code > CODE_POINT_MAX)
                return fail(p, MR_BAD_INPUT, "an escape is not a character of Unicode");
        }
        if (!at_char(p, '}') || p->at[-1] == '{')
            return fail(p, MR_BAD_INPUT, "an escape \\u{ is not closed");
        p->at++;
        return MR_OK;
    }
    MR_TRY(read_hex(p, 4, code));
    if (*code < 0xd800 || *code > 0xdbff || p->end - p->at < 6 || p->at[0] != '\\' || p->at[1] != 'u' || p->at[2] == '{')
        return MR_OK;
    const char *before = p->at;
    uint32_t low;
    p->at += 2;
    MR_TRY(read_hex(p, 4, &low));
    if (low >= 0xdc00 && low <= 0xdfff)
        *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
    else
        p->at = before;
    return MR_OK;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* The character that the escape at the cursor (behind the backslash) stands for. */
static enum mr_status read_escape(struct parser *p, bool in_class, uint32_t *code)
{
    static const char name[] = "tnvfr0", value[] = "\t\n\v\f\r";
    if (p->at == p->end)
        return fail(p, MR_BAD_INPUT, "the pattern ends in a backslash");
    const char c = *p->at;
    const char *simple = c != '\0' ? strchr(name, c) : NULL;
    if (simple != NULL && !(c == '0' && p->at + 1 < p->end && p->at[1] >= '0' && p->at[1] <= '9')) {
        p->at++;
        *code = (unsigned char)value[simple - name];
        return MR_OK;
    }
    if (c == 'b' && in_class) {
        p->at++;
        *code = '\b';
        return MR_OK;
    }
    if (c == 'x' || c == 'u') {
        p->at++;
        return c == 'x' ? read_hex(p, 2, code) : read_unicode(p, code);
    }
    if (c == 'c' && p->at + 1 < p->end && is_letter(p->at[1])) {
        *code = p->at[1] & 31;
        p->at += 2;
        return MR_OK;
    }
    if (c == 'b' || c == 'B')
        return fail(p, MR_NO_SUPPORT, "a word boundary");
    if (c == 'p' || c == 'P')
        return fail(p, MR_NO_SUPPORT, "a Unicode property");
    if (c == 'k' || (c >= '0' && c <= '9'))
        return fail(p, MR_NO_SUPPORT, "a back-reference or octal escape");
    if (is_letter(c))
        return fail(p, MR_BAD_INPUT, "unknown escape");
    const int length = utf8_decode(code, p->at, (size_t)(p->end - p->at));
    if (length <= 0)
        return fail(p, MR_BAD_INPUT, "not UTF-8");
    p->at += length;
    return MR_OK;
}

/* One character as it stands or escaped, or a class such as \d, whose ranges are then added. */
static enum mr_status read_char(struct parser *p, bool in_class, uint32_t *code, bool *is_class)
{
    *is_class = false;
    if (!at_char(p, '\\')) {
        const int length = utf8_decode(code, p->at, (size_t)(p->end - p->at));
        if (length <= 0)
            return fail(p, MR_BAD_INPUT, "not UTF-8");
        p->at += length;
        return MR_OK;
    }
    p->at++;
    if (p->at < p->end) {
        MR_TRY(add_class(p, *p->at, is_class));
        p->at += *is_class;
        if (*is_class)
            return MR_OK;
    }
    return read_escape(p, in_class, code);
}

static enum mr_status read_class_members(struct parser *p)
{
    while (p->at < p->end && *p->at != ']') {
        uint32_t low, high;
        bool is_class;
        MR_TRY(read_char(p, true, &low, &is_class));
        const bool range = p->at + 1 < p->end && p->at[0] == '-' && p->at[1] != ']';
        if (is_class && !range)
            continue;
        if (is_class)
            return fail(p, MR_BAD_INPUT, "a class cannot begin a range");
        high = low;
        if (range) {
            p->at++;
            MR_TRY(read_char(p, true, &high, &is_class));
            if (is_class)
                return fail(p, MR_BAD_INPUT, "a class cannot end a range");
            if (high < low)
                return fail(p, MR_BAD_INPUT, "a range of characters ends before it begins");
        }
        MR_TRY(add_range(p, low, high));
    }
    return p->at < p->end ? MR_OK : fail(p, MR_BAD_INPUT, "a character class is not closed");
}

static enum mr_status chars_node(struct parser *p, size_t first, uint32_t *node)
{
    const size_t n = p->tree->n_range - first;
    return new_node(
        p, (struct regex_node){.kind = REGEX_CHARS, .child = REGEX_NONE, .first = (uint32_t)first, .n = (uint32_t)n}, node);
}

static enum mr_status read_class(struct parser *p, uint32_t *node)
{
    const size_t first = p->tree->n_range;
    p->at++;
    const bool negated = at_char(p, '^');
    p->at += negated;
    MR_TRY(read_class_members(p));
    p->at++;
    if (negated)
        MR_TRY(negate_from(p, first));
    return chars_node(p, first, node);
}

static enum mr_status read_dot(struct parser *p, uint32_t *node)
{
    const size_t first = p->tree->n_range;
    p->at++;
    MR_TRY(add_range(p, '\n', '\n'));
    MR_TRY(add_range(p, '\r', '\r'));
    MR_TRY(add_range(p, 0x2028, 0x2029));
    MR_TRY(negate_from(p, first));
    return chars_node(p, first, node);
}

static enum mr_status read_choice(struct parser *p, int depth, uint32_t *node);

/* What stands between "(?" and the group's pattern. */
static enum mr_status read_group_kind(struct parser *p)
{
    const char c = p->at < p->end ? *p->at : '\0', after = p->at + 1 < p->end ? p->at[1] : '\0';
    if (c == ':') {
        p->at++;
        return MR_OK;
    }
    if (c == '=' || c == '!')
        return fail(p, MR_NO_SUPPORT, "a look-ahead");
    if (c == '<' && (after == '=' || after == '!'))
        return fail(p, MR_NO_SUPPORT, "a look-behind");
    if (c != '<')
        return fail(p, MR_NO_SUPPORT, "this kind of group");
    while (p->at < p->end && *p->at != '>')
        p->at++;
    if (p->at == p->end)
        return fail(p, MR_BAD_INPUT, "the name of a group is not closed");
    p->at++;
    return MR_OK;
}

static enum mr_status read_group(struct parser *p, int depth, uint32_t *node)
{
    if (depth >= REGEX_DEPTH_MAX)
        return mr_fail(p->err, MR_BAD_INPUT, "pattern: groups nested deeper than %d", REGEX_DEPTH_MAX);
    p->at++;
    if (at_char(p, '?')) {
        p->at++;
        MR_TRY(read_group_kind(p));
    }
    MR_TRY(read_choice(p, depth + 1, node));
    if (!at_char(p, ')'))
        return fail(p, MR_BAD_INPUT, "a group is not closed");
    p->at++;
    return MR_OK;
}

static enum mr_status read_atom(struct parser *p, int depth, uint32_t *node)
{
    const char c = *p->at;
    if (c == '(')
        return read_group(p, depth, node);
    if (c == '[')
        return read_class(p, node);
    if (c == '.')
        return read_dot(p, node);
    if (c == '*' || c == '+' || c == '?')
        return fail(p, MR_BAD_INPUT, "nothing to repeat");
    if (c == '^' || c == '$') {
        p->at++;
        return new_node(p, (struct regex_node){.kind = c == '^' ? REGEX_START : REGEX_END, .child = REGEX_NONE}, node);
    }
    const size_t first = p->tree->n_range;
    uint32_t code;
    bool is_class;
    MR_TRY(read_char(p, false, &code, &is_class));
    if (!is_class)
        MR_TRY(add_range(p, code, code));
    return chars_node(p, first, node);
}

static bool read_count(struct parser *p, uint32_t *count)
{
    const char *start = p->at;
    *count = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        *count = *count <= REGEX_REPEAT_MAX ? *count * 10 + (uint32_t)(*p->at - '0') : *count;
    return p->at > start;
}

/* {m}, {m,}, {m,n}; anything else in braces is text. */
static bool read_counts(struct parser *p, uint32_t *min, uint32_t *max)
{
    const char *before = p->at++;
    bool ok = read_count(p, min);
    *max = *min;
    if (ok && at_char(p, ',')) {
        p->at++;
        if (!read_count(p, max))
            *max = REPEAT_NO_MAX;
    }
    ok = ok && at_char(p, '}');
    p->at = ok ? p->at + 1 : before;
    return ok;
}

/* Whether a quantifier stands here; it is skipped. */
static bool read_quantifier(struct parser *p, uint32_t *min, uint32_t *max)
{
    if (at_char(p, '{')) {
        if (!read_counts(p, min, max))
            return false;
    } else if (at_char(p, '*') || at_char(p, '+') || at_char(p, '?')) {
        *min = *p->at == '+';
        *max = *p->at == '?' ? 1 : REPEAT_NO_MAX;
        p->at++;
    } else {
        return false;
    }
    p->at += at_char(p, '?');
    return true;
}

static enum mr_status read_term(struct parser *p, int depth, uint32_t *node)
{
    uint32_t min, max;
    MR_TRY(read_atom(p, depth, node));
    if (!read_quantifier(p, &min, &max))
        return MR_OK;
    const enum regex_kind kind = p->tree->node[*node].kind;
    if (kind == REGEX_START || kind == REGEX_END)
        return fail(p, MR_BAD_INPUT, "nothing to repeat");
    if (min > REGEX_REPEAT_MAX || (max != REPEAT_NO_MAX && max > REGEX_REPEAT_MAX))
        return mr_fail(p->err, MR_BAD_INPUT, "pattern, byte %d: a repetition of more than %d", (int)(p->at - p->start),
                       REGEX_REPEAT_MAX);
    if (max < min)
        return fail(p, MR_BAD_INPUT, "a repetition ends before it begins");
    return new_node(p, (struct regex_node){.kind = REGEX_REPEAT, .child = *node, .min = min, .max = max}, node);
}

static enum mr_status read_sequence(struct parser *p, int depth, uint32_t *node)
{
    uint32_t last = REGEX_NONE, term = 0;
    MR_TRY(new_node(p, (struct regex_node){.kind = REGEX_SEQUENCE, .child = REGEX_NONE}, node));
    while (p->at < p->end && *p->at != '|' && *p->at != ')') {
        MR_TRY(read_term(p, depth, &term));
        if (last == REGEX_NONE)
            p->tree->node[*node].child = term;
        else
            p->tree->node[last].next = term;
        last = term;
    }
    return MR_OK;
}

static enum mr_status read_choice(struct parser *p, int depth, uint32_t *node)
{
    uint32_t last, sequence;
    MR_TRY(new_node(p, (struct regex_node){.kind = REGEX_CHOICE, .child = REGEX_NONE}, node));
    MR_TRY(read_sequence(p, depth, &last));
    p->tree->node[*node].child = last;
    while (at_char(p, '|')) {
        p->at++;
        MR_TRY(read_sequence(p, depth, &sequence));
        p->tree->node[last].next = sequence;
        last = sequence;
    }
    return MR_OK;
}

enum mr_status regex_parse(struct regex_tree *t, const char *pattern, size_t n, struct mr_error *err)
{
    struct parser p = {.start = pattern, .at = pattern, .end = pattern + n, .tree = t, .err = err};
    MR_TRY(read_choice(&p, 0, &t->root));
    return p.at == p.end ? MR_OK : fail(&p, MR_BAD_INPUT, "')' without '('");
}
