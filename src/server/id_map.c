/* id_map.c: open addressing with linear steps; what follows a removed entry moves up. */
#include "server/id_map.h"

#include <stdlib.h>

#include "base/memory.h"

enum {
    CAPACITY_MIN = 64
};

void id_map_init(struct id_map *m) { *m = (struct id_map){0}; }

void id_map_release(struct id_map *m)
{
    free(m->entry);
    *m = (struct id_map){0};
}

/* Fibonacci hashing: numbers that follow each other spread (Knuth, The Art of Computer Programming 3, section 6.4). */
static size_t home(const struct id_map *m, uint64_t id) { return (size_t)(id * 0x9e3779b97f4a7c15u >> 20) & (m->capacity - 1); }

/* Where the id is, or the free place that ends the search. */
static size_t place(const struct id_map *m, uint64_t id)
{
    size_t i = home(m, id);
    while (m->entry[i].id != 0 && m->entry[i].id != id)
        i = (i + 1) & (m->capacity - 1);
    return i;
}

static bool grow(struct id_map *m)
{
    struct id_map bigger = {.capacity = m->capacity > 0 ? m->capacity * 2 : CAPACITY_MIN, .n = m->n};
    bigger.entry = mem_zero_array(bigger.capacity, sizeof *bigger.entry);
    if (bigger.entry == NULL)
        return false;
    for (size_t i = 0; i < m->capacity; i++)
        if (m->entry[i].id != 0)
            bigger.entry[place(&bigger, m->entry[i].id)] = m->entry[i];
    free(m->entry);
    *m = bigger;
    return true;
}

bool id_map_add(struct id_map *m, uint64_t id, void *value)
{
    if (2 * (m->n + 1) > m->capacity && !grow(m))
        return false;
    m->entry[place(m, id)] = (struct id_entry){.id = id, .value = value};
    m->n++;
    return true;
}

void *id_map_find(const struct id_map *m, uint64_t id) { return m->n > 0 ? m->entry[place(m, id)].value : NULL; }

void *id_map_remove(struct id_map *m, uint64_t id)
{
    if (m->n == 0)
        return NULL;
    size_t gap = place(m, id);
    void *value = m->entry[gap].value;
    if (m->entry[gap].id == 0)
        return NULL;
    const size_t mask = m->capacity - 1;
    for (size_t i = (gap + 1) & mask; m->entry[i].id != 0; i = (i + 1) & mask) {
        if (((i - home(m, m->entry[i].id)) & mask) < ((i - gap) & mask))
            continue; /* its home lies behind the gap */
        m->entry[gap] = m->entry[i];
        gap = i;
    }
    m->entry[gap] = (struct id_entry){0};
    m->n--;
    return value;
}
