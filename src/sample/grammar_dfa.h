/* grammar_dfa.h: deterministic automata over ranges of symbols, made from those of grammar_nfa.h.
 * Every result is bounded by DFA_STATE_MAX states; what needs more is BAD_INPUT. */
#ifndef SAMPLE_GRAMMAR_DFA_H
#define SAMPLE_GRAMMAR_DFA_H

#include <stdbool.h>

#include "sample/grammar_nfa.h"

enum {
    DFA_STATE_MAX = 1 << 16,
    DFA_EDGE_MAX = 1 << 20,
    DFA_WORK_MAX = 1 << 22 /* states that one conversion visits */
};

struct dfa_edge {
    uint32_t low, high, to;
};

/* State 0 is the start. The edges of state s are edge[first[s]] to edge[first[s + 1] - 1], ascending and disjoint. */
struct dfa {
    uint32_t n_state;
    uint32_t *first; /* [n_state + 1] */
    struct dfa_edge *edge;
    bool *final; /* [n_state] */
};

void dfa_release(struct dfa *d); /* of one that was zeroed or made; zeroes it */

/* What n reads from `start` to `accept` (Rabin and Scott 1959, the subset construction). */
enum mr_status dfa_from_nfa(struct dfa *out, const struct nfa *n, uint32_t start, uint32_t accept, struct mr_error *err);

enum dfa_combine {
    DFA_BOTH, /* what a and b accept */
    DFA_MINUS /* what a accepts and b does not */
};
enum mr_status dfa_combine(struct dfa *out, const struct dfa *a, const struct dfa *b, enum dfa_combine how,
                           struct mr_error *err);

/* Drop calls of rules r with dead_rule[r] (NULL: none), states that lead nowhere, and merge equal ones (Moore 1956) as long
 * as that takes bounded work. */
enum mr_status dfa_minimize(struct dfa *d, const bool *dead_rule, struct mr_error *err);

/* Whether nothing is accepted; d is minimized. */
static inline bool dfa_is_empty(const struct dfa *d) { return d->n_state == 1 && !d->final[0]; }

/* Whether the code points of the UTF-8 text are accepted. */
bool dfa_accepts_text(const struct dfa *d, const char *s, size_t n);

#endif
