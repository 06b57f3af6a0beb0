/* memory.c: checked sizes, growing arrays. */
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

void *mem_array(size_t n, size_t size)
{
    size_t bytes;
    if (!size_mul(&bytes, n, size))
        return NULL;
    return malloc(bytes > 0 ? bytes : 1);
}

void *mem_zero_array(size_t n, size_t size) { return calloc(n > 0 ? n : 1, size > 0 ? size : 1); }

bool mem_grow(void *array, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity)
        return true;
    size_t grown = *capacity + *capacity / 2;
    if (grown < need)
        grown = need;
    if (grown < 8)
        grown = 8;
    size_t bytes;
    if (!size_mul(&bytes, grown, size))
        return false;
    void *old;
    memcpy(&old, array, sizeof old); /* the caller's T * read as a pointer object */
    void *p = realloc(old, bytes);
    if (p == NULL)
        return false;
    memcpy(array, &p, sizeof p);
    *capacity = grown;
    return true;
}

char *mem_string(const char *s, size_t n)
{
    char *copy = n < SIZE_MAX ? malloc(n + 1) : NULL;
    if (copy == NULL)
        return NULL;
    if (n > 0)
        memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

void *mem_aligned(size_t align, size_t bytes)
{
    void *p;
    return posix_memalign(&p, align, bytes > 0 ? bytes : align) == 0 ? p : NULL;
}
