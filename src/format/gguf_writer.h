/* gguf_writer.h: what the files behind gguf_write.h share. */
#ifndef FORMAT_GGUF_WRITER_H
#define FORMAT_GGUF_WRITER_H

#include <string.h>

#include "base/string_buffer.h"
#include "format/gguf_write.h"

struct gguf_writer {
    char *path, *partial; /* the target, and what is written */
    int fd;
    bool exists; /* partial is there */
    uint32_t alignment;
    struct string_buffer values, tensors; /* the two parts of the header */
    bool is_packed;
    struct string_buffer products, types, shapes; /* elements of the arrays that a packed file has */
    uint64_t n_value;
    size_t *bytes; /* of each declared tensor */
    size_t n_tensor, capacity;
    size_t offset; /* where the next declared tensor begins in the data */
    bool in_data;
    bool broken;             /* a write failed: nobody knows what is in the file */
    size_t current, written; /* tensor, and its bytes so far */
};

static inline enum mr_status gguf_fail_memory(struct mr_error *err)
{
    return mr_fail(err, MR_NO_MEMORY, "no memory to write a file");
}

static inline void gguf_add_u32(struct string_buffer *b, uint32_t v) { string_buffer_add(b, (const char *)&v, sizeof v); }

static inline void gguf_add_u64(struct string_buffer *b, uint64_t v) { string_buffer_add(b, (const char *)&v, sizeof v); }

static inline void gguf_add_string(struct string_buffer *b, struct gguf_string s)
{
    gguf_add_u64(b, s.n);
    string_buffer_add(b, s.s, s.n);
}

static inline enum mr_status gguf_check_buffer(const struct string_buffer *b, struct mr_error *err)
{
    return b->failed ? gguf_fail_memory(err) : MR_OK;
}

static inline struct gguf_string gguf_c_string(const char *s) { return (struct gguf_string){s, strlen(s)}; }

/* Key and type; an array's length follows its element type, and its elements behind that. BAD_INPUT: the header is written. */
enum mr_status gguf_begin_value(struct gguf_writer *w, struct gguf_string key, enum gguf_type type, bool is_array, size_t n,
                                struct mr_error *err);

#endif
