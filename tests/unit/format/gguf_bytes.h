/* gguf_bytes.h: GGUF files in memory, right or wrong on purpose, piece by piece. */
#ifndef TESTS_GGUF_BYTES_H
#define TESTS_GGUF_BYTES_H

#include <stdint.h>
#include <string.h>

#include "base/string_buffer.h"
#include "format/gguf.h"

static inline void put_u32(struct string_buffer *b, uint32_t v) { string_buffer_add(b, (const char *)&v, sizeof v); }

static inline void put_u64(struct string_buffer *b, uint64_t v) { string_buffer_add(b, (const char *)&v, sizeof v); }

static inline void put_text(struct string_buffer *b, const char *s)
{
    put_u64(b, strlen(s));
    string_buffer_puts(b, s);
}

static inline void put_header(struct string_buffer *b, uint32_t version, uint64_t n_tensor, uint64_t n_value)
{
    string_buffer_init(b);
    string_buffer_puts(b, "GGUF");
    put_u32(b, version);
    put_u64(b, n_tensor);
    put_u64(b, n_value);
}

static inline void put_key(struct string_buffer *b, const char *key, uint32_t type)
{
    put_text(b, key);
    put_u32(b, type);
}

static inline void put_array(struct string_buffer *b, const char *key, uint32_t type, uint64_t n)
{
    put_key(b, key, GGUF_ARRAY);
    put_u32(b, type);
    put_u64(b, n);
}

static inline void put_tensor(struct string_buffer *b, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                              uint64_t offset)
{
    put_text(b, name);
    put_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims && i < 16; i++)
        put_u64(b, dims[i]);
    put_u32(b, type);
    put_u64(b, offset);
}

/* Zeros to the default alignment, then n bytes of data. */
static inline void put_data(struct string_buffer *b, size_t n)
{
    while (b->n % 32 != 0)
        string_buffer_add(b, "", 1);
    for (size_t i = 0; i < n; i++)
        string_buffer_add(b, "\x01", 1);
}

#endif
