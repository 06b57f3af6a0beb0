/* regex_build.c: from a parsed regular expression to its automaton. */
#include "sample/constraint_compile.h"
#include "sample/regex.h"
#include "sample/regex_tree.h"

static void build(struct nfa *n, const struct regex_tree *t, uint32_t index, uint32_t from, uint32_t to);

static void build_sequence(struct nfa *n, const struct regex_tree *t, uint32_t child, uint32_t from, uint32_t to)
{
    for (; child != REGEX_NONE && n->status == MR_OK; child = t->node[child].next) {
        const uint32_t next = nfa_state(n);
        build(n, t, child, from, next);
        from = next;
    }
    nfa_empty(n, from, to);
}

static void build_repeat(struct nfa *n, const struct regex_tree *t, const struct regex_node *r, uint32_t from, uint32_t to)
{
    const bool endless = r->max == REPEAT_NO_MAX;
    for (uint32_t i = 0; i < (endless ? r->min : r->max) && n->status == MR_OK; i++) {
        const uint32_t next = nfa_state(n);
        if (i >= r->min)
            nfa_empty(n, from, to);
        build(n, t, r->child, from, next);
        from = next;
    }
    if (endless) {
        const uint32_t loop = nfa_state(n), end = nfa_state(n);
        nfa_empty(n, from, loop);
        build(n, t, r->child, loop, end);
        nfa_empty(n, end, loop);
        from = loop;
    }
    nfa_empty(n, from, to);
}

static void build(struct nfa *n, const struct regex_tree *t, uint32_t index, uint32_t from, uint32_t to)
{
    const struct regex_node *r = &t->node[index];
    switch (r->kind) {
    case REGEX_SEQUENCE:
        build_sequence(n, t, r->child, from, to);
        break;
    case REGEX_CHOICE:
        for (uint32_t child = r->child; child != REGEX_NONE; child = t->node[child].next)
            build(n, t, child, from, to);
        break;
    case REGEX_CHARS:
        for (uint32_t i = 0; i < r->n; i++)
            nfa_edge(n, from, t->range[r->first + i].low, t->range[r->first + i].high, to);
        break;
    case REGEX_REPEAT:
        build_repeat(n, t, r, from, to);
        break;
    case REGEX_START:
    case REGEX_END: {
        const uint32_t symbol = r->kind == REGEX_START ? SYMBOL_TEXT_START : SYMBOL_TEXT_END;
        nfa_edge(n, from, symbol, symbol, to);
        break;
    }
    }
}

enum mr_status regex_to_dfa(struct dfa *out, const char *pattern, size_t n, enum regex_match match, struct mr_error *err)
{
    struct regex_tree tree = {0};
    struct nfa nfa;
    *out = (struct dfa){0};
    nfa_init(&nfa);
    const uint32_t start = nfa_state(&nfa), end = nfa_state(&nfa);
    enum mr_status status = regex_parse(&tree, pattern, n, err);
    if (status == MR_OK) {
        build(&nfa, &tree, tree.root, start, end);
        if (match == REGEX_SEARCH) {
            nfa_edge(&nfa, start, 0, CODE_POINT_MAX, start);
            nfa_edge(&nfa, end, 0, CODE_POINT_MAX, end);
        }
        status = dfa_from_nfa(out, &nfa, start, end, err);
        if (status == MR_OK)
            status = dfa_minimize(out, NULL, err);
        if (status != MR_OK)
            mr_fail_in(err, status, "pattern '%.*s'", (int)(n < 100 ? n : 100), pattern);
    }
    if (status != MR_OK)
        dfa_release(out);
    regex_tree_release(&tree);
    nfa_release(&nfa);
    return status;
}

enum mr_status regex_compile(struct grammar_builder *b, const char *pattern, size_t n, uint32_t *root, struct mr_error *err)
{
    struct dfa d;
    MR_TRY(regex_to_dfa(&d, pattern, n, REGEX_FULL, err));
    const bool empty = dfa_is_empty(&d);
    *root = grammar_rule(b, "pattern", 7);
    grammar_define(b, *root, expr_dfa(b, &d, false));
    return empty ? mr_fail(err, MR_BAD_INPUT, "pattern '%.*s' matches no text", (int)(n < 100 ? n : 100), pattern) : MR_OK;
}
