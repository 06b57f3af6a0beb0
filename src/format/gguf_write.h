/* gguf_write.h: writes GGUF files (version 3, little endian).
 * The order of calls: create; put each key and declare each tensor; begin_data; data of each tensor in the order of
 * their declarations, in pieces of any size; finish; free. Tensors are streamed: memory holds the metadata only.
 * A file appears at its path when it is complete and on the disk, or not at all: it is written beside the target and
 * renamed at the end. Calls out of order, bytes too many or too few: BAD_INPUT.
 * Threads: one writer, one thread. */
#ifndef FORMAT_GGUF_WRITE_H
#define FORMAT_GGUF_WRITE_H

#include "format/gguf.h"

struct gguf_writer; /* opaque */

enum mr_status gguf_writer_create(struct gguf_writer **out, const char *path, struct mr_error *err);

/* Takes NULL. Without a successful finish nothing is left of the file, and what stood at the path before stands still. */
void gguf_writer_free(struct gguf_writer *w);

/* Metadata. key: 1 to 65535 bytes. general.alignment (a u32) counts for the tensors, too.
 * An integer must fit its type. */
enum mr_status gguf_put_int(struct gguf_writer *w, const char *key, enum gguf_type type, int64_t value, struct mr_error *err);
enum mr_status gguf_put_f32(struct gguf_writer *w, const char *key, float value, struct mr_error *err);
enum mr_status gguf_put_bool(struct gguf_writer *w, const char *key, bool value, struct mr_error *err);
enum mr_status gguf_put_string(struct gguf_writer *w, const char *key, struct gguf_string s, struct mr_error *err);
/* n elements of a fixed size, packed, little endian. */
enum mr_status gguf_put_array(struct gguf_writer *w, const char *key, enum gguf_type type, const void *elements, size_t n,
                              struct mr_error *err);
enum mr_status gguf_put_strings(struct gguf_writer *w, const char *key, const struct gguf_string *s, size_t n,
                                struct mr_error *err);
/* Copy a key and its value from an open file. split.no, split.count and split.tensors.count are left out, and that is
 * OK: what is written is one file. */
enum mr_status gguf_put_value(struct gguf_writer *w, const struct gguf_value *v, struct mr_error *err);

/* Declare the next tensor; dims as in struct gguf_tensor. */
enum mr_status gguf_declare_tensor(struct gguf_writer *w, struct gguf_string name, const struct quant *quant, int n_dims,
                                   const int64_t *dims, struct mr_error *err);

/* Declare a tensor whose data is what `product` packed from the given one: `bytes` bytes, a multiple of 4. A file with such
 * tensors says for each of them what it was; gguf_open gives that back. */
enum mr_status gguf_declare_packed(struct gguf_writer *w, const struct gguf_tensor *original, const char *product, size_t bytes,
                                   struct mr_error *err);

/* Check and write the header. BAD_INPUT or BAD_FORMAT: a key or tensor that no reader would accept, by name. */
enum mr_status gguf_begin_data(struct gguf_writer *w, struct mr_error *err);

/* The next n bytes of the present tensor; when it is complete the next one begins. */
enum mr_status gguf_write_data(struct gguf_writer *w, const void *bytes, size_t n, struct mr_error *err);

/* All tensors are written: flush to the disk and put the file in its place. */
enum mr_status gguf_writer_finish(struct gguf_writer *w, struct mr_error *err);

#endif
