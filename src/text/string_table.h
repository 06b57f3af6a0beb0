/* string_table.h: many byte strings in one block, and an index from a string to its number.
 * Threads: immutable after creation. */
#ifndef TEXT_STRING_TABLE_H
#define TEXT_STRING_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct string_table {
    char *bytes;
    uint32_t *start; /* [n + 1]; string i is bytes[start[i]] to bytes[start[i + 1]] */
    size_t n;
};

/* Room for n strings of n_bytes bytes in all (below 4 GiB). false: no memory. */
bool string_table_init(struct string_table *t, size_t n, size_t n_bytes);
void string_table_release(struct string_table *t);

static inline const char *string_table_at(const struct string_table *t, size_t i, size_t *n)
{
    *n = t->start[i + 1] - t->start[i];
    return t->bytes + t->start[i];
}

/* Open addressing with linear probing, at most half full. */
struct string_index {
    const struct string_table *table; /* borrowed */
    int32_t *slot;                    /* -1: free */
    size_t mask;
};

/* Room for n strings. false: no memory. */
bool string_index_init(struct string_index *index, const struct string_table *table, size_t n);
void string_index_release(struct string_index *index);

/* Add string i of the table. Returns i, or the number of the equal string that is there already. */
int32_t string_index_add(struct string_index *index, int32_t i);

/* -1: none. */
int32_t string_index_find(const struct string_index *index, const char *s, size_t n);

#endif
