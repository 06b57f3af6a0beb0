/* charsmap.h: SentencePiece's precompiled table of replacements (tokenizer.ggml.precompiled_charsmap): a double-array
 * trie (Aoe 1989) of what is replaced, then the replacements, each with a NUL behind.
 * Threads: immutable after creation. */
#ifndef TEXT_CHARSMAP_H
#define TEXT_CHARSMAP_H

#include "format/gguf.h"

struct charsmap {
    uint32_t *unit; /* NULL: nothing is replaced */
    size_t n_unit;
    char *text;
    size_t n_text; /* text[n_text - 1] is NUL */
};

/* Read the key, which may be missing. */
enum mr_status charsmap_init(struct charsmap *c, const struct gguf *g, struct mr_error *err);
void charsmap_release(struct charsmap *c);

/* The longest prefix of s that is replaced: its length, 0: none; *with is its replacement, NUL-terminated. */
size_t charsmap_match(const struct charsmap *c, const char *s, size_t n, const char **with);

#endif
