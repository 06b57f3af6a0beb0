/* grammar.h: a pushdown automaton over bytes.
 * Every rule is a deterministic automaton whose edges read a byte or call a rule; a call pushes the node to come back to.
 * Characters cut in half are nodes like any other. Every node can reach the end of its rule.
 * Immutable after it was made: any number of threads may read it. */
#ifndef SAMPLE_GRAMMAR_H
#define SAMPLE_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define NODE_NONE       UINT32_MAX
#define NODE_NOT_SIMPLE 0x80000000u /* set in grammar.next where the node that it leads to is not simple */

enum {
    GRAMMAR_NODE_MAX = 1 << 18,
    GRAMMAR_TABLE_MAX = 1 << 24, /* entries of the table of byte edges */
    GRAMMAR_STACK_MAX = 512,     /* frames: calls inside calls */
    GRAMMAR_CHAIN_MAX = 128      /* rules that begin with a call of the next */
};

struct byte_set {
    uint64_t word[4];
};

static inline bool byte_set_has(const struct byte_set *s, unsigned byte) { return s->word[byte >> 6] >> (byte & 63) & 1; }

static inline void byte_set_add(struct byte_set *s, unsigned byte) { s->word[byte >> 6] |= (uint64_t)1 << (byte & 63); }

struct grammar_call {
    uint32_t rule;
    uint32_t to; /* the node after the call */
};

struct grammar_node {
    uint32_t call, n_call; /* call[call] to call[call + n_call - 1] */
    uint32_t rule;         /* that it belongs to */
    uint32_t min, max;     /* of a counted node: how often its call is taken; max of a text node: characters, if bounded */
    uint16_t need;         /* frames needed on top of this one to come to the end of the rule */
    uint16_t need_more;    /* of a counted node while its count is below min */
    bool final;            /* the rule may end here */
    bool last;             /* final, and nothing leads on */
    bool simple;           /* reads bytes only, and the rule does not end here */
    bool counted;          /* one call, back to itself; the frame counts */
    bool text; /* ordinary characters (token_trie.h) may follow, and no part of them can end the rule where more may come */
};

struct grammar_rule {
    uint32_t start;         /* node */
    uint16_t max_need;      /* the most that a node of it needs */
    bool is_character;      /* accepts any ordinary character, and one character only */
    struct byte_set first;  /* bytes that a text of the rule can begin with */
    struct byte_set follow; /* bytes that can stand behind one; too many rather than too few */
};

struct grammar {
    uint32_t n_node, n_rule, n_class;
    struct grammar_node *node;
    struct grammar_call *call;
    struct grammar_rule *rule;
    uint32_t *next; /* [n_node][n_class]: the node that a byte of the class leads to and NODE_NOT_SIMPLE, or NODE_NONE */
    unsigned char class[256]; /* of each byte: bytes that no node tells apart share one */
    uint32_t root;            /* rule */
};

void grammar_free(struct grammar *g); /* takes NULL */

static inline uint32_t grammar_next(const struct grammar *g, uint32_t node, unsigned byte)
{
    const uint32_t to = g->next[(size_t)node * g->n_class + g->class[byte]];
    return to == NODE_NONE ? to : to & ~NODE_NOT_SIMPLE;
}

/* Whether no text of up to `length` bytes tells two nodes apart that only read bytes; false also where that takes much to find
 * out. */
bool grammar_nodes_alike(const struct grammar *g, uint32_t a, uint32_t b, uint32_t length);

/* Bytes that can be read at the node inside its rule. */
struct byte_set grammar_node_first(const struct grammar *g, uint32_t node);

#endif
