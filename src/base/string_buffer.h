/* string_buffer.h: bytes that grow. An allocation that fails is remembered, so that a writer checks once at the end. */
#ifndef BASE_STRING_BUFFER_H
#define BASE_STRING_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct string_buffer {
    char *s; /* NUL-terminated where not NULL */
    size_t n;
    size_t capacity;
    bool failed; /* an append ran out of memory and left no trace */
};

void string_buffer_init(struct string_buffer *b);
void string_buffer_release(struct string_buffer *b);
void string_buffer_add(struct string_buffer *b, const char *s, size_t n);
void string_buffer_puts(struct string_buffer *b, const char *s);
void string_buffer_printf(struct string_buffer *b, const char *fmt, ...) MR_PRINTF(2, 3);
void string_buffer_quote(struct string_buffer *b, const char *text); /* in quotes, as JSON and YAML read them alike */
void string_buffer_clear(struct string_buffer *b);                   /* n = 0, memory kept */

#endif
