/* special_matcher.h: finds in a text the tokens that are matched as they are spelled, before all else: control tokens
 * where the text is the template's, user-defined tokens everywhere. The leftmost match, the longest among them.
 * Threads: immutable after creation. */
#ifndef TEXT_SPECIAL_MATCHER_H
#define TEXT_SPECIAL_MATCHER_H

#include "text/trie.h"
#include "text/vocabulary.h"

struct special_matcher {
    struct trie trie; /* of pieces */
    const bool *is_guarded;
};

/* The text to search, and up to where control tokens may match. */
struct special_text {
    const char *s;
    size_t n;
    const size_t *border; /* ascending ends of stretches that are by turns the caller's and the template's; the first is
                             the caller's (and may be empty); the last ends at n */
    size_t n_border;
    size_t stretch; /* index of the stretch of the present position */
};

struct special_match {
    size_t start, n;
    int32_t id; /* -1: none, start == end of text */
};

/* false: no memory. */
bool special_matcher_init(struct special_matcher *m, const struct vocabulary *v);
void special_matcher_release(struct special_matcher *m);

/* The next match at `from` or later; from never falls from call to call on one text. */
struct special_match special_matcher_next(const struct special_matcher *m, struct special_text *text, size_t from);

#endif
