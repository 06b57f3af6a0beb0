/* gguf_cursor.c: reads a header front to back, never past the end of the file. */
#include "format/gguf_cursor.h"

#include <stdarg.h>
#include <stdio.h>

enum mr_status gguf_cursor_fail(const struct gguf_cursor *c, enum mr_status status, const char *fmt, ...)
{
    char reason[MR_ERROR_MAX];
    va_list args;
    if (c->starved)
        return MR_FULL;
    va_start(args, fmt);
    vsnprintf(reason, sizeof reason, fmt, args);
    va_end(args);
    if (c->kind == NULL)
        return mr_fail(c->err, status, "byte %zu: %s", c->at, reason);
    const int n = c->name.n < 128 ? (int)c->name.n : 128;
    return mr_fail(c->err, status, "%s '%.*s', byte %zu: %s", c->kind, n, c->name.s, c->at, reason);
}

enum mr_status gguf_cursor_fail_end(const struct gguf_cursor *c)
{
    return gguf_cursor_fail(c, MR_BAD_FORMAT, "the file ends here");
}

const unsigned char *gguf_take(struct gguf_cursor *c, uint64_t n)
{
    if (n > gguf_left(c))
        return NULL;
    if (n > c->n - c->at) {
        c->starved = true;
        return NULL;
    }
    c->at += (size_t)n;
    return c->bytes + c->at - n;
}

bool gguf_take_u32(struct gguf_cursor *c, uint32_t *out)
{
    const unsigned char *p = gguf_take(c, sizeof *out);
    if (p != NULL)
        memcpy(out, p, sizeof *out);
    return p != NULL;
}

bool gguf_take_u64(struct gguf_cursor *c, uint64_t *out)
{
    const unsigned char *p = gguf_take(c, sizeof *out);
    if (p != NULL)
        memcpy(out, p, sizeof *out);
    return p != NULL;
}

enum mr_status gguf_take_string(struct gguf_cursor *c, const char *what, uint64_t longest, struct gguf_string *out)
{
    uint64_t n;
    if (!gguf_take_u64(c, &n))
        return gguf_cursor_fail_end(c);
    if (n > gguf_left(c))
        return gguf_cursor_fail(c, MR_BAD_FORMAT, "%s of %llu bytes, but only %zu bytes are left", what, (unsigned long long)n,
                                gguf_left(c));
    if (n > longest)
        return gguf_cursor_fail(c, MR_BAD_FORMAT, "%s of %llu bytes is longer than %llu", what, (unsigned long long)n,
                                (unsigned long long)longest);
    const unsigned char *s = gguf_take(c, n);
    if (s == NULL)
        return gguf_cursor_fail_end(c);
    *out = (struct gguf_string){(const char *)s, (size_t)n};
    return MR_OK;
}
