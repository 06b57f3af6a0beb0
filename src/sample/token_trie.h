/* token_trie.h: the bytes of all tokens as a trie in preorder, so that a walk over it is one pass over an array.
 * Threads: immutable after it was made. */
#ifndef SAMPLE_TOKEN_TRIE_H
#define SAMPLE_TOKEN_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    TOKEN_BYTES_MAX = 1024, /* longer tokens are never allowed under a constraint */
    TOKEN_TEXT_MAX = 64     /* longer ones get no help from being ordinary text */
};

/* One token, by the bytes it stands for in running text. */
struct token_piece {
    const char *s;
    size_t n;
    bool is_control; /* never part of a constrained text */
    bool is_end;     /* ends the answer */
};

struct token_node {
    uint32_t end;   /* the node after the last one below this: where a walk goes on that has no business below */
    int32_t token;  /* that ends here, the first of a chain (token_trie.next_token); -1: none */
    uint16_t depth; /* bytes up to and with this node's; the root's is 0 */
    unsigned char byte;
    bool text : 1;    /* every token here and below is made of whole ordinary characters */
    bool chained : 1; /* token_trie.next_token has more tokens of these bytes */
};

/* An ordinary character stands for itself in JSON strings and most patterns: U+0020 to U+007E without quote and backslash,
 * U+00A0 and above without U+2028 and U+2029. */
struct token_trie {
    struct token_node *node; /* node[0] is the root */
    uint32_t n_node;
    int32_t n_token;
    size_t n_word;              /* 64-bit words of a mask: bit t % 64 of word t / 64 belongs to token t */
    uint32_t max_depth;         /* bytes of the longest token */
    int32_t *next_token;        /* [n_token]: another token of the same bytes, or -1 */
    unsigned char *n_character; /* [n_token]: ordinary characters of a token made of 1 to 64 of them alone, else 0 */
    uint32_t n_text;            /* the most of these */
    uint64_t *text;             /* [n_text][n_word]: in row k the tokens with 1 to k + 1 of them */
    uint64_t *end;              /* [n_word]: tokens that end the answer */
    char *bytes; /* of token t: bytes[offset[t]] to bytes[offset[t + 1] - 1]; nothing for control and end tokens */
    size_t *offset;
};

/* piece[n_token] is copied. Tokens without bytes are never allowed. NO_MEMORY. */
enum mr_status token_trie_create(struct token_trie **out, const struct token_piece *piece, int32_t n_token,
                                 struct mr_error *err);
void token_trie_free(struct token_trie *t); /* takes NULL */

static inline bool mask_has(const uint64_t *mask, int32_t token) { return mask[token / 64] >> (token % 64) & 1; }

static inline void mask_add(uint64_t *mask, int32_t token) { mask[token / 64] |= (uint64_t)1 << (token % 64); }

/* The longest token that the text begins with; -1: none. *length: its bytes. */
int32_t token_trie_longest(const struct token_trie *t, const char *s, size_t n, size_t *length);

/* The nodes [begin, end) of the tokens that begin with a text of at least one byte; none: begin == end. */
struct token_stretch {
    uint32_t begin, end;
};
struct token_stretch token_trie_stretch(const struct token_trie *t, const char *s, size_t n);

/* A string and the token it belongs to. */
struct token_entry {
    uint64_t key; /* see token_entry */
    const char *s;
    uint32_t n;
    int32_t token;
};
struct token_entry token_entry(const char *s, size_t n, int32_t token); /* s is borrowed */

/* The nodes of a trie of entry[n_entry], which are sorted in place. next_token: that of the token ids. Of entries with equal
 * strings each but the first gets a node of its own, entered like a sibling. false: no memory. */
bool token_nodes(struct token_node **node, uint32_t *n_node, struct token_entry *entry, size_t n_entry,
                 const int32_t *next_token);

#endif
