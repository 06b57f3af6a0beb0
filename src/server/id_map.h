/* id_map.h: pointers by a number. Threads: owned by one, or behind its owner's lock. */
#ifndef SERVER_ID_MAP_H
#define SERVER_ID_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct id_entry {
    uint64_t id; /* 0: free */
    void *value;
};

struct id_map {
    struct id_entry *entry; /* capacity of them, a power of two, at most half of them in use */
    size_t capacity, n;
};

void id_map_init(struct id_map *m);
void id_map_release(struct id_map *m); /* what it points to is the caller's */

/* id: not 0, not in the map. false: no memory, nothing changed. */
bool id_map_add(struct id_map *m, uint64_t id, void *value);
void *id_map_find(const struct id_map *m, uint64_t id); /* NULL: not there */
void *id_map_remove(struct id_map *m, uint64_t id);     /* what was there; NULL: nothing */

#endif
