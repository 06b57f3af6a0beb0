/* memory.h: checked sizes, growing arrays. Plain malloc underneath: the fault tests wrap it at link time. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* *out = a + b, a * b; false (and *out = SIZE_MAX) where it does not fit. */
static inline bool size_add(size_t *out, size_t a, size_t b)
{
    const bool fits = a <= SIZE_MAX - b;
    *out = fits ? a + b : SIZE_MAX;
    return fits;
}

static inline bool size_mul(size_t *out, size_t a, size_t b)
{
    const bool fits = b == 0 || a <= SIZE_MAX / b;
    *out = fits ? a * b : SIZE_MAX;
    return fits;
}

static inline size_t size_align(size_t n, size_t align) /* align: a power of two; n far below SIZE_MAX */
{
    return (n + align - 1) & ~(align - 1);
}

/* malloc(n * size) with the product checked; n == 0 gives a block that may be freed. NULL: no memory. */
void *mem_array(size_t n, size_t size);

/* Zeroed. */
void *mem_zero_array(size_t n, size_t size);

/* Make room in *array (elements of `size` bytes, *capacity of them) for `need` elements, growing by half or
 * more. false: no memory, nothing changed. */
bool mem_grow(void *array, size_t *capacity, size_t need, size_t size);

/* Copy of n bytes with a NUL behind. NULL: no memory. */
char *mem_string(const char *s, size_t n);

/* Memory aligned to `align` bytes (a power of two, a multiple of sizeof(void *)); free with free(). */
void *mem_aligned(size_t align, size_t bytes);

#endif
