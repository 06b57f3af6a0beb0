/* string_table.c: many byte strings in one block, and an index from a string to its number. */
#include "text/string_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

bool string_table_init(struct string_table *t, size_t n, size_t n_bytes)
{
    *t = (struct string_table){.n = n};
    if (n_bytes > UINT32_MAX || n == SIZE_MAX)
        return false;
    t->bytes = mem_array(n_bytes, 1);
    t->start = mem_zero_array(n + 1, sizeof *t->start);
    return t->bytes != NULL && t->start != NULL;
}

void string_table_release(struct string_table *t)
{
    free(t->bytes);
    free(t->start);
    *t = (struct string_table){0};
}

/* Multiply and fold, eight bytes at a step; the constants are odd numbers with well-mixed bits (the golden ratio and
 * the square root of 3 in binary). */
static uint64_t hash_bytes(const char *s, size_t n)
{
    const uint64_t m = 0x9e3779b97f4a7c15u;
    uint64_t h = n * 0xbb67ae8584caa73bu;
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, s, 8);
        h = (h ^ word) * m;
        h ^= h >> 29;
        s += 8;
        n -= 8;
    }
    uint64_t tail = 0;
    for (size_t i = 0; i < n; i++)
        tail = tail << 8 | (unsigned char)s[i];
    h = (h ^ tail) * m;
    return h ^ h >> 32;
}

bool string_index_init(struct string_index *index, const struct string_table *table, size_t n)
{
    size_t slots = 16;
    while (slots / 2 < n)
        slots *= 2;
    *index = (struct string_index){.table = table, .mask = slots - 1, .slot = mem_array(slots, sizeof *index->slot)};
    if (index->slot == NULL)
        return false;
    memset(index->slot, 0xff, slots * sizeof *index->slot);
    return true;
}

void string_index_release(struct string_index *index)
{
    free(index->slot);
    *index = (struct string_index){0};
}

/* The slot that holds the string, or the free one where it belongs. */
static size_t probe(const struct string_index *index, const char *s, size_t n)
{
    size_t at = hash_bytes(s, n) & index->mask;
    while (index->slot[at] >= 0) {
        size_t len;
        const char *have = string_table_at(index->table, (size_t)index->slot[at], &len);
        if (len == n && memcmp(have, s, n) == 0)
            break;
        at = (at + 1) & index->mask;
    }
    return at;
}

int32_t string_index_add(struct string_index *index, int32_t i)
{
    size_t n;
    const char *s = string_table_at(index->table, (size_t)i, &n);
    const size_t at = probe(index, s, n);
    if (index->slot[at] < 0)
        index->slot[at] = i;
    return index->slot[at];
}

int32_t string_index_find(const struct string_index *index, const char *s, size_t n)
{
    return index->slot == NULL ? -1 : index->slot[probe(index, s, n)];
}
