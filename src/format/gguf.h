/* gguf.h: GGUF files (versions 2 and 3, little endian), read through mmap, and written.
 * Specification: docs/gguf.md of the ggml project. Everything in a file is hostile: each length, offset, product and
 * nesting is checked against the bytes left before use; after gguf_open succeeds every tensor's data lies in the map.
 * Metadata is a copy in memory; a file that is cut while it is mapped hurts only who touches tensor data through the map,
 * which gguf_read does not; the loader maps packed files alone (docs/formats.md).
 * Split files (-00001-of-00003): open the first, the others are found beside it.
 * Threads: immutable after open. */
#ifndef FORMAT_GGUF_H
#define FORMAT_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "quant/quant.h"

enum gguf_type { /* value types, ids in a file */
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64
};

enum {
    GGUF_MAX_DIMS = 4
};

struct gguf; /* opaque */

struct gguf_string { /* borrowed until gguf_close; may hold any bytes, no NUL behind */
    const char *s;
    size_t n;
};

struct gguf_tensor {
    struct gguf_string name;
    const struct quant *quant; /* never NULL */
    int n_dims;
    int64_t dims[GGUF_MAX_DIMS]; /* dims[0] is the row length (columns); missing ones are 1; all >= 1 */
    const void *data;            /* borrowed from the map, until gguf_close */
    size_t bytes;                /* of data */
    struct gguf_string product;  /* n 0: data is blocks of quant; else what this product packed from them */
    int split;                   /* which file of a split set holds it */
    uint64_t file_offset;        /* in that file */
};

/* Map and check a file. *out is NULL on failure; the message names the file, the key or tensor and the byte. What is no
 * GGUF file at all: BAD_FORMAT with what it seems to be instead (file_kind.h). */
enum mr_status gguf_open(struct gguf **out, const char *path, struct mr_error *err);

/* The same over memory that the caller keeps until gguf_close (tests, fuzzing); split files are refused. */
enum mr_status gguf_open_memory(struct gguf **out, const void *bytes, size_t n, struct mr_error *err);
void gguf_close(struct gguf *g); /* takes NULL */

uint32_t gguf_version(const struct gguf *g);
bool gguf_is_packed(const struct gguf *g);      /* some tensors are packed for a product (gguf_declare_packed) */
uint64_t gguf_file_bytes(const struct gguf *g); /* of all splits */
int gguf_n_splits(const struct gguf *g);

/* What the system says of the i-th file of the set, which changes when the file does. */
struct gguf_stamp {
    uint64_t device, inode, bytes;
    int64_t modified_ns, changed_ns;
};
bool gguf_stamp(const struct gguf *g, int i, struct gguf_stamp *out); /* false: it is memory */
/* n bytes of the i-th file, whatever they are. */
enum mr_status gguf_read_file(const struct gguf *g, int i, uint64_t offset, void *out, size_t n, struct mr_error *err);

/* Copy n bytes of a tensor's data, from byte `offset` of it, by reading the file: a file that was cut since it was
 * opened gives IO and never a signal. */
enum mr_status gguf_read(const struct gguf *g, const struct gguf_tensor *t, size_t offset, void *out, size_t n,
                         struct mr_error *err);

/* Tensors, in file order. */
int gguf_n_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, int i);
const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name); /* NULL: none; O(log n) */

/* Metadata, in file order. A value is scalar, string or array of scalars or strings (nested arrays are refused). */
struct gguf_value {
    struct gguf_string key;
    enum gguf_type type; /* of the elements where is_array */
    bool is_array;
    size_t n; /* 1 for a scalar */
};
int gguf_n_values(const struct gguf *g);
const struct gguf_value *gguf_value_at(const struct gguf *g, int i);
const struct gguf_value *gguf_value_find(const struct gguf *g, const char *key); /* NULL: none */

const char *gguf_type_name(enum gguf_type type); /* "u32"; never NULL */

/* Element i < v->n, converted; the caller has checked the type class with the predicates below. */
bool gguf_is_integer(const struct gguf_value *v);
bool gguf_is_number(const struct gguf_value *v);
uint64_t gguf_as_u64(const struct gguf_value *v, size_t i); /* two's complement of negative values */
int64_t gguf_as_i64(const struct gguf_value *v, size_t i);
double gguf_as_f64(const struct gguf_value *v, size_t i);
struct gguf_string gguf_as_string(const struct gguf_value *v, size_t i); /* O(1) */

/* Scalar look-ups with checks. A key of another type, or an integer outside low..high: BAD_FORMAT with the key and
 * the value. A missing key: NOT_FOUND with the key, or *out = fallback and OK in the _or forms. */
enum mr_status gguf_get_int(const struct gguf *g, const char *key, int64_t low, int64_t high, int64_t *out,
                            struct mr_error *err);
enum mr_status gguf_get_int_or(const struct gguf *g, const char *key, int64_t low, int64_t high, int64_t fallback, int64_t *out,
                               struct mr_error *err);
enum mr_status gguf_get_f32(const struct gguf *g, const char *key, float *out, struct mr_error *err); /* finite */
enum mr_status gguf_get_f32_or(const struct gguf *g, const char *key, float fallback, float *out, struct mr_error *err);
enum mr_status gguf_get_bool_or(const struct gguf *g, const char *key, bool fallback, bool *out, struct mr_error *err);
enum mr_status gguf_get_string(const struct gguf *g, const char *key, struct gguf_string *out, struct mr_error *err);
/* An array; its element type is checked by the caller. */
enum mr_status gguf_get_array(const struct gguf *g, const char *key, const struct gguf_value **out, struct mr_error *err);

#endif
