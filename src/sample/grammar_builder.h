/* grammar_builder.h: rules made of expressions, and the automaton they become.
 * JSON schemas, regular expressions, GBNF and choices all come through here. A failure is remembered: the functions that
 * make expressions always return one, and grammar_finish reports what went wrong. */
#ifndef SAMPLE_GRAMMAR_BUILDER_H
#define SAMPLE_GRAMMAR_BUILDER_H

#include <stdbool.h>

#include "sample/grammar.h"
#include "sample/grammar_dfa.h"

struct code_range {
    uint32_t low, high; /* code points, both included */
};

enum {
    EXPR_NOTHING = 0, /* accepts no text */
    EXPR_EMPTY = 1,   /* accepts the empty text */
    EXPR_MAX = 1 << 20,
    EXPR_DEPTH_MAX = 256, /* of expressions inside expressions */
    RULE_MAX = 1 << 16
};
#define REPEAT_NO_MAX UINT32_MAX

struct grammar_builder;

enum mr_status grammar_builder_create(struct grammar_builder **out, struct mr_error *err);
void grammar_builder_free(struct grammar_builder *b); /* takes NULL */

/* A new rule; it accepts nothing until it is defined. name (n bytes, copied) stands in messages. */
uint32_t grammar_rule(struct grammar_builder *b, const char *name, size_t n);
void grammar_define(struct grammar_builder *b, uint32_t rule, uint32_t expr);
bool grammar_is_defined(const struct grammar_builder *b, uint32_t rule);
const char *grammar_rule_name(const struct grammar_builder *b, uint32_t rule);

uint32_t expr_bytes(struct grammar_builder *b, const char *s, size_t n);
uint32_t expr_chars(struct grammar_builder *b, const struct code_range *range, size_t n); /* one character, in UTF-8 */
uint32_t expr_json_char(struct grammar_builder *b); /* one character of a JSON string, in any spelling */
uint32_t expr_sequence(struct grammar_builder *b, const uint32_t *expr, size_t n);
uint32_t expr_choice(struct grammar_builder *b, const uint32_t *expr, size_t n);
uint32_t expr_repeat(struct grammar_builder *b, uint32_t expr, uint32_t min, uint32_t max);
uint32_t expr_call(struct grammar_builder *b, uint32_t rule);

/* The members of a list in the given order, at least one, with a separator between each two that are there. */
struct expr_member {
    uint32_t expr;
    bool required;
};
struct expr_members {
    const struct expr_member *member;
    size_t n;
    uint32_t separator;
    uint32_t more; /* what may follow the members, any number of times */
};
uint32_t expr_members(struct grammar_builder *b, const struct expr_members *m);

/* The same, as a rule of its own where expressions are already nested deep. */
uint32_t expr_boxed(struct grammar_builder *b, uint32_t expr);

/* What d (over code points) accepts, as UTF-8 or as it stands inside a JSON string. Takes d's content over. */
uint32_t expr_dfa(struct grammar_builder *b, struct dfa *d, bool json);

/* Let small rules that do not call themselves be copied into their callers: fewer borders for tokens to cross. */
void grammar_inline_small(struct grammar_builder *b);

/* MR_OK so far; else what failed. */
enum mr_status grammar_builder_status(const struct grammar_builder *b, struct mr_error *err);

/* The automaton that starts with rule root. BAD_INPUT: left recursion, no text at all, or more than the limits of grammar.h
 * and grammar_dfa.h allow; the message names the rule. */
enum mr_status grammar_finish(struct grammar **out, struct grammar_builder *b, uint32_t root, struct mr_error *err);

#endif
