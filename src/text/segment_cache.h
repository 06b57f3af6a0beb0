/* segment_cache.h: ids of pieces of text that were encoded before, such as the messages of a chat that goes on. A tokenizer
 * encodes what lies between two special tokens by itself, so that equal segments have equal ids wherever they stand. Bounded;
 * the least recently used segment goes first.
 * Threads: any; a lock is held while ids are copied. */
#ifndef TEXT_SEGMENT_CACHE_H
#define TEXT_SEGMENT_CACHE_H

#include "text/tokenizer_model.h"

struct segment_cache; /* opaque */

/* bytes: of texts and ids. NULL: no memory. */
struct segment_cache *segment_cache_create(size_t bytes);
void segment_cache_free(struct segment_cache *c); /* takes NULL */

/* Append the ids of a segment that is known. false: it is not, or no memory; nothing was appended. */
bool segment_cache_find(struct segment_cache *c, const struct text_segment *segment, struct token_list *list);
/* These are its ids. Without memory it is not kept. */
void segment_cache_add(struct segment_cache *c, const struct text_segment *segment, const int32_t *id, size_t n);

struct segment_cache_stats {
    size_t bytes;
    int64_t n_found, n_missed;
};
void segment_cache_stats(struct segment_cache *c, struct segment_cache_stats *out);

#endif
