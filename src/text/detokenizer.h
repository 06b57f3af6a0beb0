/* detokenizer.h: a stream of token ids to a stream of UTF-8: never half a character, never a lost tail.
 * Bytes that can never become a character give one U+FFFD for each maximal ill-formed subpart (Unicode 15, 3.9). */
#ifndef TEXT_DETOKENIZER_H
#define TEXT_DETOKENIZER_H

#include <stdbool.h>

#include "base/string_buffer.h"
#include "text/tokenizer.h"

struct detokenizer {
    const struct tokenizer *t;
    bool special;  /* control tokens give their text */
    bool at_start; /* nothing came yet: SentencePiece drops the first blank where the file adds one */
    char held[3];  /* the start of a character */
    int n_held;
};

void detokenizer_init(struct detokenizer *d, const struct tokenizer *t, bool special);

/* Append what token id completes to out (which may be nothing). */
void detokenizer_push(struct detokenizer *d, int32_t id, struct string_buffer *out);

/* The end: flush what is held, as U+FFFD. */
void detokenizer_finish(struct detokenizer *d, struct string_buffer *out);

/* Strings that end an answer. Output never holds a stop string; text that may be the start of one is held back until
 * the next bytes decide. Work per byte does not depend on how much came before. */
struct stop_matcher; /* opaque */
enum mr_status stop_matcher_create(struct stop_matcher **out, const char *const *stop, int n_stop, struct mr_error *err);
void stop_matcher_free(struct stop_matcher *m); /* takes NULL */
/* Feed n bytes; what is certain is appended to out. true: a stop string is complete, out ends before it. */
bool stop_matcher_push(struct stop_matcher *m, const char *s, size_t n, struct string_buffer *out);
/* The end without a match: what was held is appended. */
void stop_matcher_finish(struct stop_matcher *m, struct string_buffer *out);

#endif
