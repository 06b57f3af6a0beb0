/* grammar_rules.c: from expressions to the automaton of one rule. */
#include <stdlib.h>

#include "base/memory.h"
#include "sample/grammar_builder_internal.h"

enum {
    COPY_MAX = 128,             /* states of a rule that is copied into its callers */
    COPY_PASSES = 16,           /* rounds in which sizes become known: rules inside rules */
    ANALYSIS_WORK_MAX = 1 << 27 /* expressions visited */
};

static bool is_nullable(const struct grammar_builder *b, uint32_t index, size_t *work)
{
    const struct expr *e = &b->expr[index];
    ++*work;
    switch (e->kind) {
    case EXPR_CHOICE_OF:
        for (uint32_t i = 0; i < e->n; i++)
            if (is_nullable(b, b->child[e->first + i], work))
                return true;
        return false;
    case EXPR_SEQUENCE_OF:
        for (uint32_t i = 0; i < e->n; i++)
            if (!is_nullable(b, b->child[e->first + i], work))
                return false;
        return true;
    case EXPR_REPEAT_OF:
        return e->min == 0 || is_nullable(b, e->first, work);
    case EXPR_CALL_OF:
        return b->rule[e->first].nullable;
    case EXPR_DFA_UTF8:
    case EXPR_DFA_JSON:
        return b->dfa[e->first].final[0];
    default:
        return false;
    }
}

static bool rule_is_nullable(const struct grammar_builder *b, const struct builder_rule *r, size_t *work)
{
    return (r->counted && r->min == 0) || is_nullable(b, r->expr, work);
}

/* Size with everything that is copied; 0: calls a rule whose size is not known yet. */
static uint64_t copied_size(const struct grammar_builder *b, uint32_t index)
{
    const struct expr *e = &b->expr[index];
    uint64_t sum = e->kind == EXPR_CHOICE_OF || e->kind == EXPR_SEQUENCE_OF ? 2 : e->size, one;
    if (e->kind == EXPR_CALL_OF) {
        const struct builder_rule *r = &b->rule[e->first];
        return r->counted ? 2 : r->size;
    }
    if (e->kind == EXPR_REPEAT_OF) {
        const uint64_t times = e->max == REPEAT_NO_MAX ? e->min : e->max;
        one = copied_size(b, e->first);
        return one == 0 ? 0 : 2 + (times > 0 ? times : 1) * one;
    }
    if (e->kind != EXPR_CHOICE_OF && e->kind != EXPR_SEQUENCE_OF)
        return sum > 0 ? sum : 1; /* GBNF, which alone copies rules, has no lists of members */
    for (uint32_t i = 0; i < e->n; i++) {
        if ((one = copied_size(b, b->child[e->first + i])) == 0)
            return 0;
        sum += one;
    }
    return sum;
}

static void find_copied(struct grammar_builder *b)
{
    bool changed = true;
    for (int pass = 0; changed && pass < COPY_PASSES; pass++) {
        changed = false;
        for (size_t i = b->n_rule; i-- > 0;) {
            struct builder_rule *r = &b->rule[i];
            if (r->counted || r->size > 0)
                continue;
            const uint64_t size = copied_size(b, r->expr);
            if (size > 0) {
                r->copied = size <= COPY_MAX;
                r->size = r->copied ? size : 2;
                changed = true;
            }
        }
    }
}

enum mr_status builder_analyse(struct grammar_builder *b, struct mr_error *err)
{
    size_t work = 0;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = b->n_rule; i-- > 0;) {
            struct builder_rule *r = &b->rule[i];
            if (!r->nullable && rule_is_nullable(b, r, &work))
                r->nullable = changed = true;
            if (work > ANALYSIS_WORK_MAX)
                return mr_fail(err, MR_BAD_INPUT, "%zu rules refer to each other in too long chains", b->n_rule);
        }
    }
    if (b->inline_small)
        find_copied(b);
    return MR_OK;
}

static void build_expr(struct nfa *n, const struct grammar_builder *b, uint32_t index, uint32_t from, uint32_t to);

static void build_sequence(struct nfa *n, const struct grammar_builder *b, const struct expr *e, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < e->n; i++) {
        const uint32_t next = i + 1 < e->n ? nfa_state(n) : to;
        build_expr(n, b, b->child[e->first + i], from, next);
        from = next;
    }
    if (e->n == 0)
        nfa_empty(n, from, to);
}

static void build_bytes(struct nfa *n, const struct grammar_builder *b, const struct expr *e, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < e->n; i++) {
        const uint32_t next = i + 1 < e->n ? nfa_state(n) : to;
        const unsigned char byte = (unsigned char)b->byte[e->first + i];
        nfa_edge(n, from, byte, byte, next);
        from = next;
    }
}

/* child, at least once and any number of times. */
static void build_loop(struct nfa *n, const struct grammar_builder *b, uint32_t child, uint32_t from, uint32_t to, bool skip)
{
    const uint32_t start = nfa_state(n), end = nfa_state(n);
    nfa_empty(n, from, start);
    build_expr(n, b, child, start, end);
    nfa_empty(n, end, start);
    nfa_empty(n, end, to);
    if (skip)
        nfa_empty(n, start, to);
}

static void build_repeat(struct nfa *n, const struct grammar_builder *b, const struct expr *e, uint32_t from, uint32_t to)
{
    const bool endless = e->max == REPEAT_NO_MAX;
    const uint32_t times = endless ? (e->min > 0 ? e->min - 1 : 0) : e->max;
    for (uint32_t i = 0; i < times && n->status == MR_OK; i++) {
        const uint32_t next = nfa_state(n);
        if (i >= e->min)
            nfa_empty(n, from, to);
        build_expr(n, b, e->first, from, next);
        from = next;
    }
    if (endless)
        build_loop(n, b, e->first, from, to, e->min == 0);
    else
        nfa_empty(n, from, to);
}

/* Two places before each member: nothing has come yet (none), or a separator is due first (some). */
static void build_members(struct nfa *n, const struct grammar_builder *b, const struct expr *e, uint32_t from, uint32_t to)
{
    const uint32_t *child = b->child + e->first;
    uint32_t none = from, some = nfa_state(n);
    for (uint32_t i = 0; i <= e->n && n->status == MR_OK; i++) {
        const bool last = i == e->n, required = !last && child[2 + i] & EXPR_REQUIRED;
        const uint32_t start = nfa_state(n), after = last ? some : nfa_state(n), skipped = last ? none : nfa_state(n);
        nfa_empty(n, none, start);
        build_expr(n, b, child[0], some, start);
        build_expr(n, b, last ? child[1] : child[2 + i] & ~EXPR_REQUIRED, start, after);
        if (last)
            break;
        if (!required) {
            nfa_empty(n, none, skipped);
            nfa_empty(n, some, after);
        }
        none = skipped;
        some = after;
    }
    nfa_empty(n, some, to);
}

static void build_dfa(struct nfa *n, const struct dfa *d, bool json, uint32_t from, uint32_t to)
{
    const uint32_t base = n->n_state;
    for (uint32_t i = 0; i < d->n_state; i++)
        nfa_state(n);
    nfa_empty(n, from, base);
    for (uint32_t i = 0; i < d->n_state && n->status == MR_OK; i++) {
        for (uint32_t e = d->first[i]; e < d->first[i + 1]; e++) {
            const struct dfa_edge edge = d->edge[e];
            (json ? nfa_json : nfa_utf8)(n, base + i, edge.low, edge.high, base + edge.to);
        }
        if (d->final[i])
            nfa_empty(n, base + i, to);
    }
}

static void build_call(struct nfa *n, const struct grammar_builder *b, uint32_t rule, uint32_t from, uint32_t to)
{
    const struct builder_rule *r = &b->rule[rule];
    if (r->copied) {
        build_expr(n, b, r->expr, from, to);
        return;
    }
    nfa_edge(n, from, SYMBOL_RULE + rule, SYMBOL_RULE + rule, to);
    if (r->nullable)
        nfa_empty(n, from, to);
}

static void build_expr(struct nfa *n, const struct grammar_builder *b, uint32_t index, uint32_t from, uint32_t to)
{
    const struct expr *e = &b->expr[index];
    if (n->status != MR_OK)
        return;
    switch (e->kind) {
    case EXPR_CHOICE_OF:
        for (uint32_t i = 0; i < e->n; i++)
            build_expr(n, b, b->child[e->first + i], from, to);
        break;
    case EXPR_SEQUENCE_OF:
        build_sequence(n, b, e, from, to);
        break;
    case EXPR_BYTES_OF:
        build_bytes(n, b, e, from, to);
        break;
    case EXPR_CHARS_OF:
        for (uint32_t i = 0; i < e->n; i++)
            nfa_utf8(n, from, b->range[e->first + i].low, b->range[e->first + i].high, to);
        break;
    case EXPR_JSON_CHAR:
        nfa_json_any(n, from, to);
        break;
    case EXPR_MEMBERS_OF:
        build_members(n, b, e, from, to);
        break;
    case EXPR_REPEAT_OF:
        build_repeat(n, b, e, from, to);
        break;
    case EXPR_CALL_OF:
        build_call(n, b, e->first, from, to);
        break;
    case EXPR_DFA_UTF8:
    case EXPR_DFA_JSON:
        build_dfa(n, &b->dfa[e->first], e->kind == EXPR_DFA_JSON, from, to);
        break;
    }
}

enum mr_status builder_rule_dfa(struct dfa *out, const struct grammar_builder *b, uint32_t rule, struct mr_error *err)
{
    struct nfa n;
    nfa_init(&n);
    const uint32_t start = nfa_state(&n), end = nfa_state(&n);
    build_expr(&n, b, b->rule[rule].expr, start, end);
    enum mr_status status = dfa_from_nfa(out, &n, start, end, err);
    nfa_release(&n);
    if (status != MR_OK)
        mr_fail_in(err, status, "rule '%s'", b->rule[rule].name);
    return status;
}
