/* arena.c: memory that is freed all at once. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdlib.h>

#include "base/memory.h"

enum {
    ALIGN = alignof(max_align_t),
    BLOCK_MIN = 4096,
    BLOCK_MAX = 1 << 20
};

struct arena_block {
    struct arena_block *before;
    size_t size;
};

void arena_init(struct arena *a, size_t limit) { *a = (struct arena){.limit = limit}; }

void arena_release(struct arena *a)
{
    while (a->block != NULL) {
        struct arena_block *before = a->block->before;
        free(a->block);
        a->block = before;
    }
    arena_init(a, a->limit);
}

/* A new block with room for n bytes (a multiple of ALIGN, below the limit). */
static char *add_block(struct arena *a, size_t n)
{
    const size_t header = size_align(sizeof(struct arena_block), ALIGN);
    size_t size = a->block == NULL ? BLOCK_MIN : 2 * a->block->size;
    size = size > BLOCK_MAX ? BLOCK_MAX : size;
    size = size < n + header ? n + header : size;
    if (size > a->limit - a->used)
        size = n + header;
    if (size > a->limit - a->used)
        return NULL;
    struct arena_block *b = malloc(size);
    if (b == NULL)
        return NULL;
    a->used += size;
    b->size = size;
    b->before = a->block;
    a->block = b;
    a->next = (char *)b + header;
    a->left = size - header;
    return a->next;
}

void *arena_alloc(struct arena *a, size_t n)
{
    if (n > a->limit || a->limit - n < 2 * ALIGN)
        return NULL;
    n = size_align(n > 0 ? n : 1, ALIGN);
    if (n > a->left && add_block(a, n) == NULL)
        return NULL;
    void *p = a->next;
    a->next += n;
    a->left -= n;
    return p;
}
