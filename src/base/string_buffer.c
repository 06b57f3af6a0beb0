/* string_buffer.c: bytes that grow. */
#include "base/string_buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void string_buffer_init(struct string_buffer *b) { *b = (struct string_buffer){0}; }

void string_buffer_release(struct string_buffer *b)
{
    free(b->s);
    *b = (struct string_buffer){0};
}

static bool reserve(struct string_buffer *b, size_t more)
{
    size_t need;
    if (!b->failed && (!size_add(&need, b->n, more) || !size_add(&need, need, 1) || !mem_grow(&b->s, &b->capacity, need, 1)))
        b->failed = true;
    return !b->failed;
}

void string_buffer_add(struct string_buffer *b, const char *s, size_t n)
{
    if (!reserve(b, n))
        return;
    if (n > 0)
        memcpy(b->s + b->n, s, n);
    b->n += n;
    b->s[b->n] = '\0';
}

void string_buffer_puts(struct string_buffer *b, const char *s) { string_buffer_add(b, s, strlen(s)); }

void string_buffer_printf(struct string_buffer *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0 || !reserve(b, (size_t)n))
        return;
    va_start(args, fmt);
    vsnprintf(b->s + b->n, (size_t)n + 1, fmt, args);
    va_end(args);
    b->n += (size_t)n;
}

void string_buffer_quote(struct string_buffer *b, const char *text)
{
    string_buffer_puts(b, "\"");
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            string_buffer_printf(b, "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            string_buffer_printf(b, "\\u%04x", c);
        else
            string_buffer_add(b, text, 1);
    }
    string_buffer_puts(b, "\"");
}

void string_buffer_clear(struct string_buffer *b)
{
    b->n = 0;
    if (b->s != NULL)
        b->s[0] = '\0';
}
