/* arena.h: memory that is freed all at once. Blocks double up to 1 MB; a limit bounds the whole. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *block; /* the newest; the chain behind it */
    char *next;                /* free bytes of the newest block */
    size_t left;
    size_t used, limit; /* bytes taken from malloc, and how many may be */
};

void arena_init(struct arena *a, size_t limit);
void arena_release(struct arena *a);

/* n bytes, aligned for any object, not zeroed; valid until arena_release. NULL: no memory, or past the limit. */
void *arena_alloc(struct arena *a, size_t n);

#endif
