/* grammar_nfa.h: nondeterministic automata over ranges of symbols, the common form of regular expressions (symbols are code
 * points), and of the rules of a grammar (symbols are bytes and calls of rules).
 * A failure is remembered, so that a builder checks once, in nfa_check. */
#ifndef SAMPLE_GRAMMAR_NFA_H
#define SAMPLE_GRAMMAR_NFA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    SYMBOL_RULE = 0x110000,    /* a call of rule r is the symbol SYMBOL_RULE + r */
    SYMBOL_MAX = 0x3fffffff,   /* the greatest symbol */
    SYMBOL_EMPTY = 0x40000000, /* taken without reading */
    SYMBOL_TEXT_START,         /* taken without reading, only before the first symbol */
    SYMBOL_TEXT_END,           /* taken without reading, only behind the last symbol */
    NFA_STATE_MAX = 1 << 19,   /* states of one automaton */
    NFA_EDGE_MAX = 1 << 21,
    CODE_POINT_MAX = 0x10ffff
};

struct nfa_edge {
    uint32_t from, low, high, to; /* low to high: the symbols that lead on, both included */
};

struct nfa {
    struct nfa_edge *edge;
    size_t n_edge, capacity;
    uint32_t n_state;
    enum mr_status status;
};

void nfa_init(struct nfa *n);
void nfa_release(struct nfa *n);

uint32_t nfa_state(struct nfa *n);
void nfa_edge(struct nfa *n, uint32_t from, uint32_t low, uint32_t high, uint32_t to);
void nfa_empty(struct nfa *n, uint32_t from, uint32_t to);

/* The code points low to high as UTF-8 bytes. Surrogates, which UTF-8 cannot hold, are left out. */
void nfa_utf8(struct nfa *n, uint32_t from, uint32_t low, uint32_t high, uint32_t to);

/* The code points low to high as they stand in a JSON string: quote, backslash and controls escaped, all else as UTF-8. */
void nfa_json(struct nfa *n, uint32_t from, uint32_t low, uint32_t high, uint32_t to);

/* One character of a JSON string in any spelling: \u escapes too, surrogates only in pairs. */
void nfa_json_any(struct nfa *n, uint32_t from, uint32_t to);

/* BAD_INPUT: more states or edges than the limits; NO_MEMORY. */
enum mr_status nfa_check(const struct nfa *n, struct mr_error *err);

#endif
