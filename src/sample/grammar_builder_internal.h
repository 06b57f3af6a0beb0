/* grammar_builder_internal.h: what the files of the builder share. */
#ifndef SAMPLE_GRAMMAR_BUILDER_INTERNAL_H
#define SAMPLE_GRAMMAR_BUILDER_INTERNAL_H

#include "sample/grammar_builder.h"

enum expr_kind {
    EXPR_CHOICE_OF,   /* child[first .. first + n - 1] */
    EXPR_SEQUENCE_OF, /* the same */
    EXPR_BYTES_OF,    /* byte[first ..] */
    EXPR_CHARS_OF,    /* range[first ..] */
    EXPR_JSON_CHAR,
    EXPR_MEMBERS_OF, /* child[first ..]: separator, more, then n members */
    EXPR_REPEAT_OF,  /* expression first, min to max times */
    EXPR_CALL_OF,    /* rule first */
    EXPR_DFA_UTF8,   /* dfa[first] */
    EXPR_DFA_JSON
};

struct expr {
    enum expr_kind kind;
    uint32_t first, n, min, max;
    uint32_t depth;
    uint64_t size; /* about how many states it takes */
};

#define EXPR_REQUIRED 0x80000000u /* set in the child of a member that must be there */

struct builder_rule {
    char *name;
    uint32_t expr;
    bool defined;
    bool counted; /* expr is a call, taken min to max times */
    uint32_t min, max;
    bool nullable; /* the rest is found by grammar_finish */
    bool copied;   /* into its callers */
    uint64_t size; /* with what is copied into it; 0: not known */
};

struct grammar_builder {
    struct builder_rule *rule;
    size_t n_rule, rule_capacity;
    struct expr *expr;
    size_t n_expr, expr_capacity;
    char *byte;
    size_t n_byte, byte_capacity;
    struct code_range *range;
    size_t n_range, range_capacity;
    uint32_t *child;
    size_t n_child, child_capacity;
    struct dfa *dfa;
    size_t n_dfa, dfa_capacity;
    bool inline_small;
    enum mr_status status;
};

uint32_t builder_expr(struct grammar_builder *b, struct expr e);
void builder_fail(struct grammar_builder *b, enum mr_status status);

/* Find which rules accept the empty text, and which are copied into their callers. */
enum mr_status builder_analyse(struct grammar_builder *b, struct mr_error *err);

/* The automaton of a rule that is not counted, over bytes and calls; calls are never of empty texts. */
enum mr_status builder_rule_dfa(struct dfa *out, const struct grammar_builder *b, uint32_t rule, struct mr_error *err);

/* FIRST and FOLLOW of every rule, need and kind of every node. origin: the rules of b that became those of g, for
 * messages. BAD_INPUT: left recursion, or texts need more frames than there are. */
enum mr_status grammar_analyse(struct grammar *g, const struct grammar_builder *b, const uint32_t *origin,
                               struct mr_error *err);

#endif
