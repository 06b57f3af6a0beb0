/* embedding_cache.h: vectors by the content that they are of, the least recently used of which go when there are too many
 * bytes. Threads: any. */
#ifndef SERVER_API_EMBEDDING_CACHE_H
#define SERVER_API_EMBEDDING_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EMBEDDING_KEY_BYTES = 32
};

struct embedding_cache;

struct embedding_cache *embedding_cache_create(size_t bytes); /* NULL: no memory */
void embedding_cache_free(struct embedding_cache *c);         /* takes NULL */

/* Of all that a vector depends on: the model, how it is pooled, the tokens. */
void embedding_cache_key(uint8_t key[EMBEDDING_KEY_BYTES], const char *model, int pooling, const int32_t *ids, size_t n);

/* Copies the vector of n floats. false: not there. */
bool embedding_cache_get(struct embedding_cache *c, const uint8_t key[EMBEDDING_KEY_BYTES], float *out, int n);
/* Without memory it is not kept. */
void embedding_cache_put(struct embedding_cache *c, const uint8_t key[EMBEDDING_KEY_BYTES], const float *vector, int n);

#endif
