/* gguf_internal.h: what the files of the GGUF reader share. */
#ifndef FORMAT_GGUF_INTERNAL_H
#define FORMAT_GGUF_INTERNAL_H

#include <string.h>

#include "format/gguf.h"

enum {
    GGUF_DEFAULT_ALIGNMENT = 32,
    GGUF_MAX_KEY = 65535, /* bytes (specification) */
    GGUF_MAX_NAME = 64    /* bytes of a tensor's name (specification) */
};

struct gguf_entry {
    struct gguf_value value; /* first: the public pointer is also this one's */
    const unsigned char *bytes;
    const unsigned char **string; /* owned; of a string or an array of them: where each one's length stands */
};

/* The metadata and tensor descriptions of one file. Pointers go into the bytes it was parsed from. */
struct gguf_header {
    uint32_t version;
    struct gguf_entry *entry;
    size_t n_entry, entry_capacity;
    struct gguf_tensor *tensor; /* without data; file_offset is absolute */
    size_t n_tensor, tensor_capacity;
    size_t bytes; /* how far the header reaches */
};

/* Parse the header of a file of file_bytes bytes, of which the first n are at `bytes`.
 * FULL: n is too small, nothing else is known. */
enum mr_status gguf_header_parse(struct gguf_header *h, const unsigned char *bytes, size_t n, size_t file_bytes,
                                 struct mr_error *err);
void gguf_header_release(struct gguf_header *h);

/* Bytes of a value of this type; 0: a string, an array or no type. */
size_t gguf_type_bytes(uint32_t type);

static inline int gguf_string_compare(struct gguf_string a, struct gguf_string b)
{
    const int order = memcmp(a.s, b.s, a.n < b.n ? a.n : b.n);
    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

/* Keys of a file with packed tensors. In the list of tensors each of those is a row of f32 of its size. Arrays have one
 * element for each tensor, in that list's order: the product that packed it ("": none did), the type id and the shape (four
 * dimensions) of what it packed. */
#define GGUF_PACK_VERSION_KEY  "millrace.pack.version"
#define GGUF_PACK_PRODUCTS_KEY "millrace.pack.products"
#define GGUF_PACK_TYPES_KEY    "millrace.pack.types"
#define GGUF_PACK_SHAPES_KEY   "millrace.pack.shapes"
enum {
    GGUF_PACK_VERSION = 1 /* a change of any packed layout or of these keys makes it another one */
};

struct gguf_part { /* one file of a set */
    int fd;        /* -1: bytes belong to the caller */
    const unsigned char *map;
    size_t bytes;
    unsigned char *header; /* owned copy of the header; NULL: parsed in place */
};

/* Open, read and map one file; *part is zero but for fd -1. Close also what was opened half. */
enum mr_status gguf_part_open(struct gguf_part *part, struct gguf_header *h, const char *path, struct mr_error *err);
void gguf_part_close(struct gguf_part *part);

/* Read exactly n bytes. */
enum mr_status gguf_read_at(int fd, void *out, size_t n, uint64_t offset, struct mr_error *err);
enum mr_status gguf_check_magic(const unsigned char *bytes, size_t n, struct mr_error *err);

struct gguf {
    struct gguf_part *part;
    int n_part;
    struct gguf_header header;               /* of the first file, with the tensors of all */
    const struct gguf_entry **entry_order;   /* by key */
    const struct gguf_tensor **tensor_order; /* by name */
};

/* Open the file at path, and where it is the first of a split set the others beside it. */
enum mr_status gguf_open_set(struct gguf *g, const char *path, struct mr_error *err);

/* The header must not belong to a split set. */
enum mr_status gguf_check_whole(const struct gguf_header *h, struct mr_error *err);

/* Sort the names for the look-ups; none may stand twice. */
enum mr_status gguf_index_names(struct gguf *g, struct mr_error *err);

/* Give packed tensors the type and shape that they were made from. */
enum mr_status gguf_read_packing(struct gguf *g, struct mr_error *err);

/* Make g->part n long, the new ones closed. */
bool gguf_grow_parts(struct gguf *g, int n);

#endif
