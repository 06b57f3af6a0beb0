/* grammar_dfa_build.h: a deterministic automaton while its states appear one by one. */
#ifndef SAMPLE_GRAMMAR_DFA_BUILD_H
#define SAMPLE_GRAMMAR_DFA_BUILD_H

#include "sample/grammar_dfa.h"

struct dfa_build {
    struct dfa dfa;
    size_t first_capacity, edge_capacity, final_capacity;
    uint32_t n_edge;
};

/* The next state's edges begin. */
enum mr_status dfa_build_state(struct dfa_build *b, bool final);

/* Of the present state; joined with the edge before where both lead to the same place and neither calls a rule. */
enum mr_status dfa_build_edge(struct dfa_build *b, uint32_t low, uint32_t high, uint32_t to);

/* Give the result to *out, or free it and say why: BAD_INPUT is too many states. */
enum mr_status dfa_build_end(struct dfa_build *b, enum mr_status status, struct dfa *out, struct mr_error *err);

#endif
