/* prefix_index.h: full blocks of past and present sequences by what stands in them, so that a prompt that begins like another
 * one shares its blocks.
 * A block's key is the SHA-256 of the key of the block before it and its own tokens, the first one's of a seed: equal keys
 * mean equal tokens from position 0 on under the same seed, which names all else that decides the bits (model, precision,
 * type of the cache, tenant). The index is one more owner of its blocks. Where memory is needed the least recently used
 * block that no sequence holds is given back, the end of a sequence before its beginning; its key stays a while, so that a
 * miss can say why. A group with a window needs only the blocks that the next token reads.
 * Threads: owned by the engine thread. */
#ifndef CACHE_PREFIX_INDEX_H
#define CACHE_PREFIX_INDEX_H

#include "cache/kv_cache.h"

struct prefix_key {
    uint8_t byte[32];
};

/* Key in front of the first block: of n bytes that name all that decides the contents besides the tokens. */
void prefix_key_seed(struct prefix_key *out, const void *bytes, size_t n);
/* Key of a block of KV_BLOCK tokens behind `before`. out may be before. */
void prefix_key_next(struct prefix_key *out, const struct prefix_key *before, const int32_t *token);

struct prefix_index; /* opaque */

/* For the blocks of kv, which outlives it. */
enum mr_status prefix_index_create(struct prefix_index **out, struct kv_cache *kv, struct mr_error *err);
void prefix_index_free(struct prefix_index *p); /* takes NULL; gives all blocks back */

enum prefix_miss {
    PREFIX_WHOLE,    /* all that was asked for is there */
    PREFIX_UNKNOWN,  /* the tokens behind have not been seen: the first one that differs is in the next block */
    PREFIX_EVICTED,  /* they have been seen, but their blocks were given back */
    PREFIX_NO_WINDOW /* blocks that the next token would read through a window were given back */
};

/* Blocks of the longest prefix of key[0..n) that a sequence can continue; *why it is not n. */
int prefix_index_match(const struct prefix_index *p, const struct prefix_key *key, int n, enum prefix_miss *why);
/* Let an empty sequence begin with the n blocks that a match found. */
void prefix_index_adopt(struct prefix_index *p, kv_seq seq, const struct prefix_key *key, int n);

/* Block b of the sequence, full and never written again, has the key key[b]. */
void prefix_index_add(struct prefix_index *p, kv_seq seq, const struct prefix_key *key, int b);
/* These n blocks have just been used. */
void prefix_index_touch(struct prefix_index *p, const struct prefix_key *key, int n);

/* Called with each block that is about to be given back, while its contents stand. */
typedef void prefix_block_fn(void *context, const struct prefix_key *key, int group, uint32_t block);
void prefix_index_on_evict(struct prefix_index *p, prefix_block_fn *evicted, void *context);
/* Keep the blocks that a sequence behind key[0..n) reads from now on: they are never given back. false: they are not all
 * there. */
bool prefix_index_pin(struct prefix_index *p, const struct prefix_key *key, int n);
int prefix_index_n_pinned(const struct prefix_index *p, int group); /* blocks */
/* Call visit for each block that the index has, the least recently used first. */
void prefix_index_each(const struct prefix_index *p, prefix_block_fn *visit, void *context);

/* Give back a block of the group that nobody else holds, the least recently used one. false: there is none. */
bool prefix_index_evict(struct prefix_index *p, int group);
/* Blocks of the group that evict could give back. */
int prefix_index_n_idle(const struct prefix_index *p, int group);

#endif
