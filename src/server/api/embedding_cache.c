/* embedding_cache.c: a hash table whose entries stand in order of use. */
#include "server/api/embedding_cache.h"

#include <nettle/sha2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    N_BUCKET = 1 << 14
};

struct entry {
    struct entry *next;          /* of its bucket */
    struct entry *newer, *older; /* by use */
    uint8_t key[EMBEDDING_KEY_BYTES];
    int n;
    float vector[];
};

struct embedding_cache {
    pthread_mutex_t lock;
    size_t bytes, budget;
    struct entry *newest, *oldest;
    struct entry *bucket[N_BUCKET];
};

struct embedding_cache *embedding_cache_create(size_t bytes)
{
    struct embedding_cache *c = mem_zero_array(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->budget = bytes;
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

static struct entry **bucket_of(struct embedding_cache *c, const uint8_t *key)
{
    return &c->bucket[((unsigned)key[0] << 8 | key[1]) % N_BUCKET];
}

static size_t bytes_of(const struct entry *e) { return sizeof *e + (size_t)e->n * sizeof *e->vector; }

static void unlink_use(struct embedding_cache *c, struct entry *e)
{
    *(e->newer != NULL ? &e->newer->older : &c->newest) = e->older;
    *(e->older != NULL ? &e->older->newer : &c->oldest) = e->newer;
}

static void link_use(struct embedding_cache *c, struct entry *e)
{
    e->newer = NULL;
    e->older = c->newest;
    *(c->newest != NULL ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
}

static void evict(struct embedding_cache *c, struct entry *e)
{
    struct entry **at = bucket_of(c, e->key);
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    unlink_use(c, e);
    c->bytes -= bytes_of(e);
    free(e);
}

void embedding_cache_free(struct embedding_cache *c)
{
    if (c == NULL)
        return;
    while (c->oldest != NULL)
        evict(c, c->oldest);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void embedding_cache_key(uint8_t key[EMBEDDING_KEY_BYTES], const char *model, int pooling, const int32_t *ids, size_t n)
{
    struct sha256_ctx hash;
    const uint8_t how = (uint8_t)pooling;
    sha256_init(&hash);
    sha256_update(&hash, strlen(model) + 1, (const uint8_t *)model);
    sha256_update(&hash, sizeof how, &how);
    sha256_update(&hash, n * sizeof *ids, (const uint8_t *)ids);
    sha256_digest(&hash, EMBEDDING_KEY_BYTES, key);
}

/* The lock is held. */
static struct entry *find(struct embedding_cache *c, const uint8_t *key)
{
    struct entry *e = *bucket_of(c, key);
    while (e != NULL && memcmp(e->key, key, EMBEDDING_KEY_BYTES) != 0)
        e = e->next;
    return e;
}

bool embedding_cache_get(struct embedding_cache *c, const uint8_t key[EMBEDDING_KEY_BYTES], float *out, int n)
{
    pthread_mutex_lock(&c->lock);
    struct entry *e = find(c, key);
    const bool found = e != NULL && e->n == n;
    if (found) {
        memcpy(out, e->vector, (size_t)n * sizeof *out);
        unlink_use(c, e);
        link_use(c, e);
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

void embedding_cache_put(struct embedding_cache *c, const uint8_t key[EMBEDDING_KEY_BYTES], const float *vector, int n)
{
    struct entry *e = mem_array(sizeof *e + (size_t)n * sizeof *vector, 1);
    if (e == NULL)
        return;
    memcpy(e->key, key, EMBEDDING_KEY_BYTES);
    memcpy(e->vector, vector, (size_t)n * sizeof *vector);
    e->n = n;
    pthread_mutex_lock(&c->lock);
    struct entry *before = find(c, key);
    if (before != NULL)
        evict(c, before);
    struct entry **bucket = bucket_of(c, key);
    e->next = *bucket;
    *bucket = e;
    link_use(c, e);
    c->bytes += bytes_of(e);
    while (c->bytes > c->budget)
        evict(c, c->oldest);
    pthread_mutex_unlock(&c->lock);
}
