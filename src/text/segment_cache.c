/* segment_cache.c: segments in buckets, and on a list in the order of their last use. */
#include "text/segment_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    BUCKETS = 4096,
    BYTES_MIN = 32 /* of a segment that is worth a look */
};

struct segment {
    struct segment *chain, *newer, *older;
    uint64_t hash;
    size_t n_text, n_id;
    bool add_space;
    int32_t id[]; /* then the text */
};

struct segment_cache {
    pthread_mutex_t lock;
    size_t capacity, bytes;
    int64_t n_found, n_missed;
    struct segment *newest, *oldest;
    struct segment *bucket[BUCKETS];
};

struct segment_cache *segment_cache_create(size_t bytes)
{
    struct segment_cache *c = mem_zero_array(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->capacity = bytes;
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

void segment_cache_free(struct segment_cache *c)
{
    if (c == NULL)
        return;
    for (struct segment *s = c->newest, *older; s != NULL; s = older) {
        older = s->older;
        free(s);
    }
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* FNV-1a (Fowler, Noll, Vo). */
static uint64_t hash_of(const struct text_segment *segment)
{
    uint64_t hash = segment->add_space ? 0x9e3779b97f4a7c15 : 0xcbf29ce484222325;
    for (size_t i = 0; i < segment->n; i++)
        hash = (hash ^ (unsigned char)segment->s[i]) * 0x100000001b3;
    return hash;
}

static const char *text_of(const struct segment *s) { return (const char *)(s->id + s->n_id); }

static size_t bytes_of(const struct segment *s) { return sizeof *s + s->n_id * sizeof *s->id + s->n_text; }

static struct segment *find(const struct segment_cache *c, const struct text_segment *segment, uint64_t hash)
{
    struct segment *s = c->bucket[hash % BUCKETS];
    while (s != NULL && (s->hash != hash || s->add_space != segment->add_space || s->n_text != segment->n ||
                         memcmp(text_of(s), segment->s, s->n_text) != 0))
        s = s->chain;
    return s;
}

static void unlink_segment(struct segment_cache *c, struct segment *s)
{
    *(s->newer != NULL ? &s->newer->older : &c->newest) = s->older;
    *(s->older != NULL ? &s->older->newer : &c->oldest) = s->newer;
}

static void link_newest(struct segment_cache *c, struct segment *s)
{
    s->newer = NULL;
    s->older = c->newest;
    *(c->newest != NULL ? &c->newest->newer : &c->oldest) = s;
    c->newest = s;
}

static bool append(struct token_list *list, const struct segment *s)
{
    if (!mem_grow(&list->id, &list->capacity, list->n + s->n_id, sizeof *list->id))
        return false;
    memcpy(list->id + list->n, s->id, s->n_id * sizeof *s->id);
    list->n += s->n_id;
    return true;
}

bool segment_cache_find(struct segment_cache *c, const struct text_segment *segment, struct token_list *list)
{
    if (segment->n < BYTES_MIN)
        return false;
    const uint64_t hash = hash_of(segment);
    pthread_mutex_lock(&c->lock);
    struct segment *s = find(c, segment, hash);
    const bool found = s != NULL && append(list, s);
    if (found) {
        unlink_segment(c, s);
        link_newest(c, s);
    }
    c->n_found += found;
    c->n_missed += !found;
    pthread_mutex_unlock(&c->lock);
    return found;
}

static void remove_oldest(struct segment_cache *c)
{
    struct segment *s = c->oldest, **at = &c->bucket[s->hash % BUCKETS];
    while (*at != s)
        at = &(*at)->chain;
    *at = s->chain;
    unlink_segment(c, s);
    c->bytes -= bytes_of(s);
    free(s);
}

void segment_cache_add(struct segment_cache *c, const struct text_segment *segment, const int32_t *id, size_t n)
{
    const size_t bytes = sizeof(struct segment) + n * sizeof *id + segment->n; /* both lie in memory already: no overflow */
    if (segment->n < BYTES_MIN || bytes > c->capacity)
        return;
    struct segment *s = mem_array(bytes, 1);
    if (s == NULL)
        return;
    *s = (struct segment){.hash = hash_of(segment), .n_text = segment->n, .n_id = n, .add_space = segment->add_space};
    if (n > 0)
        memcpy(s->id, id, n * sizeof *id);
    memcpy((char *)(s->id + n), segment->s, segment->n);
    pthread_mutex_lock(&c->lock);
    if (find(c, segment, s->hash) != NULL) { /* another thread was as quick */
        pthread_mutex_unlock(&c->lock);
        free(s);
        return;
    }
    while (c->bytes > c->capacity - bytes)
        remove_oldest(c);
    struct segment **bucket = &c->bucket[s->hash % BUCKETS];
    s->chain = *bucket;
    *bucket = s;
    c->bytes += bytes;
    link_newest(c, s);
    pthread_mutex_unlock(&c->lock);
}

void segment_cache_stats(struct segment_cache *c, struct segment_cache_stats *out)
{
    pthread_mutex_lock(&c->lock);
    *out = (struct segment_cache_stats){.bytes = c->bytes, .n_found = c->n_found, .n_missed = c->n_missed};
    pthread_mutex_unlock(&c->lock);
}
