/* grammar_builder.c: expressions. */
#include "sample/grammar_builder_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    BOX_DEPTH = 64,
    UNROLL_MAX = 64,   /* states of a repetition that is written out rather than counted */
    POOL_MAX = 1 << 26 /* bytes of literals, entries of lists */
};

enum mr_status grammar_builder_create(struct grammar_builder **out, struct mr_error *err)
{
    struct grammar_builder *b = *out = mem_zero_array(1, sizeof *b);
    if (b == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a grammar");
    builder_expr(b, (struct expr){.kind = EXPR_CHOICE_OF});
    builder_expr(b, (struct expr){.kind = EXPR_SEQUENCE_OF});
    return MR_OK;
}

void grammar_builder_free(struct grammar_builder *b)
{
    if (b == NULL)
        return;
    for (size_t i = 0; i < b->n_rule; i++)
        free(b->rule[i].name);
    for (size_t i = 0; i < b->n_dfa; i++)
        dfa_release(&b->dfa[i]);
    free(b->rule);
    free(b->dfa);
    free(b->expr);
    free(b->byte);
    free(b->range);
    free(b->child);
    free(b);
}

void builder_fail(struct grammar_builder *b, enum mr_status status)
{
    if (b->status == MR_OK)
        b->status = status;
}

uint32_t builder_expr(struct grammar_builder *b, struct expr e)
{
    if (e.depth > EXPR_DEPTH_MAX || b->n_expr >= EXPR_MAX)
        builder_fail(b, MR_BAD_INPUT);
    if (b->status == MR_OK && !mem_grow(&b->expr, &b->expr_capacity, b->n_expr + 1, sizeof *b->expr))
        builder_fail(b, MR_NO_MEMORY);
    if (b->status != MR_OK)
        return EXPR_NOTHING;
    b->expr[b->n_expr] = e;
    return (uint32_t)b->n_expr++;
}

/* Append to one of the builder's pools. Returns the place, 0 on failure. */
static uint32_t pool_add(struct grammar_builder *b, void *pool, size_t *n_pool, size_t *capacity, const void *from, size_t n,
                         size_t size)
{
    if (*n_pool + n > POOL_MAX)
        builder_fail(b, MR_BAD_INPUT);
    if (b->status == MR_OK && !mem_grow(pool, capacity, *n_pool + n, size))
        builder_fail(b, MR_NO_MEMORY);
    if (b->status != MR_OK)
        return 0;
    char *bytes;
    memcpy(&bytes, pool, sizeof bytes);
    if (n > 0)
        memcpy(bytes + *n_pool * size, from, n * size);
    *n_pool += n;
    return (uint32_t)(*n_pool - n);
}

uint32_t grammar_rule(struct grammar_builder *b, const char *name, size_t n)
{
    if (b->n_rule >= RULE_MAX)
        builder_fail(b, MR_BAD_INPUT);
    if (b->status == MR_OK && !mem_grow(&b->rule, &b->rule_capacity, b->n_rule + 1, sizeof *b->rule))
        builder_fail(b, MR_NO_MEMORY);
    char *copy = b->status == MR_OK ? mem_string(name, n) : NULL;
    if (copy == NULL) {
        builder_fail(b, MR_NO_MEMORY);
        return 0;
    }
    b->rule[b->n_rule] = (struct builder_rule){.name = copy, .expr = EXPR_NOTHING};
    return (uint32_t)b->n_rule++;
}

void grammar_define(struct grammar_builder *b, uint32_t rule, uint32_t expr)
{
    if (b->status != MR_OK)
        return;
    b->rule[rule].expr = expr;
    b->rule[rule].defined = true;
}

bool grammar_is_defined(const struct grammar_builder *b, uint32_t rule) { return rule < b->n_rule && b->rule[rule].defined; }

const char *grammar_rule_name(const struct grammar_builder *b, uint32_t rule)
{
    return rule < b->n_rule ? b->rule[rule].name : "";
}

uint32_t expr_bytes(struct grammar_builder *b, const char *s, size_t n)
{
    if (n == 0)
        return EXPR_EMPTY;
    const uint32_t first = pool_add(b, &b->byte, &b->n_byte, &b->byte_capacity, s, n, 1);
    return builder_expr(b, (struct expr){.kind = EXPR_BYTES_OF, .first = first, .n = (uint32_t)n, .size = n});
}

uint32_t expr_chars(struct grammar_builder *b, const struct code_range *range, size_t n)
{
    if (n == 0)
        return EXPR_NOTHING;
    const uint32_t first = pool_add(b, &b->range, &b->n_range, &b->range_capacity, range, n, sizeof *range);
    return builder_expr(b, (struct expr){.kind = EXPR_CHARS_OF, .first = first, .n = (uint32_t)n, .size = 1 + 2 * n});
}

uint32_t expr_json_char(struct grammar_builder *b)
{
    return builder_expr(b, (struct expr){.kind = EXPR_JSON_CHAR, .size = 32});
}

static uint32_t expr_list(struct grammar_builder *b, enum expr_kind kind, const uint32_t *expr, size_t n)
{
    struct expr e = {.kind = kind, .n = (uint32_t)n, .size = 2};
    if (n == 1)
        return expr[0];
    e.first = pool_add(b, &b->child, &b->n_child, &b->child_capacity, expr, n, sizeof *expr);
    for (size_t i = 0; i < n && b->status == MR_OK; i++) {
        const struct expr *child = &b->expr[expr[i]];
        e.depth = child->depth >= e.depth ? child->depth + 1 : e.depth;
        e.size += child->size;
    }
    return builder_expr(b, e);
}

uint32_t expr_sequence(struct grammar_builder *b, const uint32_t *expr, size_t n)
{
    return n == 0 ? EXPR_EMPTY : expr_list(b, EXPR_SEQUENCE_OF, expr, n);
}

uint32_t expr_choice(struct grammar_builder *b, const uint32_t *expr, size_t n)
{
    return n == 0 ? EXPR_NOTHING : expr_list(b, EXPR_CHOICE_OF, expr, n);
}

/* A rule of its own whose one node counts how often it called `rule`. */
static uint32_t counted_call(struct grammar_builder *b, uint32_t rule, uint32_t min, uint32_t max)
{
    const char *name = grammar_rule_name(b, rule);
    const uint32_t counted = grammar_rule(b, name, strlen(name));
    if (b->status == MR_OK) {
        struct builder_rule *r = &b->rule[counted];
        r->counted = r->defined = true;
        r->min = min;
        r->max = max;
        r->expr = expr_call(b, rule);
    }
    return expr_call(b, counted);
}

uint32_t expr_repeat(struct grammar_builder *b, uint32_t expr, uint32_t min, uint32_t max)
{
    if (max == 0 || b->status != MR_OK)
        return EXPR_EMPTY;
    const struct expr child = b->expr[expr];
    const uint64_t times = max != REPEAT_NO_MAX ? max : min <= 1 ? 1 : (uint64_t)min + 1;
    if (times == 1 || times * child.size <= UNROLL_MAX)
        return builder_expr(b, (struct expr){.kind = EXPR_REPEAT_OF,
                                             .first = expr,
                                             .min = min,
                                             .max = max,
                                             .size = 2 + times * child.size,
                                             .depth = child.depth + 1});
    if (child.kind == EXPR_CALL_OF)
        return counted_call(b, child.first, min, max);
    const uint32_t rule = grammar_rule(b, "repetition", 10);
    grammar_define(b, rule, expr);
    return counted_call(b, rule, min, max);
}

uint32_t expr_call(struct grammar_builder *b, uint32_t rule)
{
    return builder_expr(b, (struct expr){.kind = EXPR_CALL_OF, .first = rule, .size = 2});
}

/* Append one child of a list and let e grow by it. */
static void add_child(struct grammar_builder *b, struct expr *e, uint32_t child, uint32_t flag)
{
    const uint32_t entry = child | flag;
    pool_add(b, &b->child, &b->n_child, &b->child_capacity, &entry, 1, sizeof entry);
    if (b->status != MR_OK)
        return;
    e->depth = b->expr[child].depth >= e->depth ? b->expr[child].depth + 1 : e->depth;
    e->size += b->expr[child].size + 2;
}

uint32_t expr_members(struct grammar_builder *b, const struct expr_members *m)
{
    struct expr e = {.kind = EXPR_MEMBERS_OF, .first = (uint32_t)b->n_child, .n = (uint32_t)m->n};
    add_child(b, &e, m->separator, 0);
    add_child(b, &e, m->more, 0);
    for (size_t i = 0; i < m->n; i++)
        add_child(b, &e, m->member[i].expr, m->member[i].required ? EXPR_REQUIRED : 0);
    return builder_expr(b, e);
}

uint32_t expr_boxed(struct grammar_builder *b, uint32_t expr)
{
    if (b->status != MR_OK || b->expr[expr].depth < BOX_DEPTH)
        return expr;
    const uint32_t rule = grammar_rule(b, "part", 4);
    grammar_define(b, rule, expr);
    return expr_call(b, rule);
}

uint32_t expr_dfa(struct grammar_builder *b, struct dfa *d, bool json)
{
    if (b->status == MR_OK && !mem_grow(&b->dfa, &b->dfa_capacity, b->n_dfa + 1, sizeof *b->dfa))
        builder_fail(b, MR_NO_MEMORY);
    if (b->status != MR_OK) {
        dfa_release(d);
        return EXPR_NOTHING;
    }
    const size_t size = d->n_state + d->first[d->n_state];
    b->dfa[b->n_dfa++] = *d;
    *d = (struct dfa){0};
    return builder_expr(
        b, (struct expr){.kind = json ? EXPR_DFA_JSON : EXPR_DFA_UTF8, .first = (uint32_t)b->n_dfa - 1, .size = size});
}

void grammar_inline_small(struct grammar_builder *b) { b->inline_small = true; }

enum mr_status grammar_builder_status(const struct grammar_builder *b, struct mr_error *err)
{
    if (b->status == MR_NO_MEMORY)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a grammar of %zu expressions", b->n_expr);
    if (b->status != MR_OK)
        return mr_fail(err, MR_BAD_INPUT, "larger than the limits: %d expressions, nested %d deep, %d rules", EXPR_MAX,
                       EXPR_DEPTH_MAX, RULE_MAX);
    return MR_OK;
}
