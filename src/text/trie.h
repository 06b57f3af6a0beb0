/* trie.h: a set of byte strings with a number each, walked byte by byte: all prefixes of a text that are in the set.
 * Threads: immutable after creation. */
#ifndef TEXT_TRIE_H
#define TEXT_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/string_table.h"

struct trie_node { /* the children of a node follow each other, ascending by byte */
    uint32_t child;
    int32_t value; /* -1: no string ends here */
    uint16_t n_child;
    uint8_t byte; /* that leads here */
};

struct trie {
    struct trie_node *node; /* node[0] is the root; NULL: the empty set */
    uint32_t root[256];     /* child of the root by byte; 0: none */
};

/* The set of the strings id[0..n) of the table (not empty, no two equal); their numbers are their ids.
 * false: no memory. */
bool trie_init(struct trie *t, const struct string_table *table, const int32_t *id, size_t n);
void trie_release(struct trie *t);

/* The child of `node` by a byte; 0: none. */
uint32_t trie_step(const struct trie *t, uint32_t node, unsigned char byte);

#endif
