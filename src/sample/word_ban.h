/* word_ban.h: texts that an answer never contains, whatever tokens they are cut into: the token that would complete one is
 * excluded.
 * A token completes a word in two ways: it contains the whole of it, or it begins with the rest of a word whose beginning the
 * answer ends with. The first kind is one set of tokens; of the second, each rest of a word is a stretch of the trie, and the
 * answer's end is followed by the automaton of Knuth, Morris and Pratt (1977), one for each word.
 * Threads: a ban is immutable; a state belongs to one answer. */
#ifndef SAMPLE_WORD_BAN_H
#define SAMPLE_WORD_BAN_H

#include "sample/token_trie.h"

enum {
    BAN_WORDS_MAX = 64,
    BAN_WORD_BYTES_MAX = 256
};

struct word_ban; /* opaque */

/* words: 1 to BAN_WORDS_MAX texts of 1 to BAN_WORD_BYTES_MAX bytes, each with its NUL, n_bytes in all. The trie lives longer.
 */
enum mr_status word_ban_create(struct word_ban **out, const struct token_trie *trie, const char *words, size_t n_bytes,
                               struct mr_error *err);
void word_ban_free(struct word_ban *b); /* takes NULL */

/* Where an answer is: of each word, how many bytes its end has. Begins as zeros. */
struct word_ban_state {
    uint16_t matched[BAN_WORDS_MAX];
};

/* Take out of a mask (token_trie.h) what would complete a word. */
void word_ban_exclude(const struct word_ban *b, const struct word_ban_state *s, uint64_t *mask);
void word_ban_accept(const struct word_ban *b, struct word_ban_state *s, int32_t token);

#endif
