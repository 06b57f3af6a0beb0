/* gguf_cursor.h: reads a header front to back, never past the end of the file. */
#ifndef FORMAT_GGUF_CURSOR_H
#define FORMAT_GGUF_CURSOR_H

#include <stdbool.h>

#include "format/gguf_internal.h"

/* A place in the file, and whose it is, for messages. */
struct gguf_cursor {
    const unsigned char *bytes;
    size_t at, n;      /* the first n bytes of the file are here */
    size_t file_bytes; /* n <= file_bytes */
    bool starved;      /* asked for bytes between n and file_bytes */
    const char *kind;  /* "key", "tensor"; NULL: neither */
    struct gguf_string name;
    struct mr_error *err;
};

/* Fail with the key or tensor, the byte and the reason. A cursor that starves gives FULL instead, so that the caller
 * comes back with more bytes. */
enum mr_status gguf_cursor_fail(const struct gguf_cursor *c, enum mr_status status, const char *fmt, ...) MR_PRINTF(3, 4);

/* The file ends here: what gguf_take and its kin mean by NULL and false. */
enum mr_status gguf_cursor_fail_end(const struct gguf_cursor *c);

static inline size_t gguf_left(const struct gguf_cursor *c) { return c->file_bytes - c->at; }

/* The next n bytes; NULL: the file ends before, or the cursor starves. */
const unsigned char *gguf_take(struct gguf_cursor *c, uint64_t n);
bool gguf_take_u32(struct gguf_cursor *c, uint32_t *out);
bool gguf_take_u64(struct gguf_cursor *c, uint64_t *out);

/* A string of at most `longest` bytes; `what` names it in a message. */
enum mr_status gguf_take_string(struct gguf_cursor *c, const char *what, uint64_t longest, struct gguf_string *out);

/* Append n tensor descriptions to h, which starts with none; then the data of each must lie in the file. */
enum mr_status gguf_take_tensors(struct gguf_cursor *c, struct gguf_header *h, uint64_t n, uint32_t alignment);

#endif
