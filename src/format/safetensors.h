/* safetensors.h: safetensors files: a length, a JSON header, the data. Specification: docs of the safetensors project.
 * Everything in a file is hostile: header, names, types, shapes and offsets are checked against each other and the file
 * before use; as the specification says, the tensors cover the data without holes or overlaps. Data is read from the file and
 * never mapped.
 * Threads: immutable after open. */
#ifndef FORMAT_SAFETENSORS_H
#define FORMAT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    SAFETENSORS_MAX_DIMS = 8,
    SAFETENSORS_MAX_HEADER = 100 << 20 /* bytes, as other readers have it */
};

struct safetensors; /* opaque */

struct safetensor {
    const char *name; /* UTF-8; borrowed until safetensors_close, as the type */
    const char *type; /* "F32", "F16", "BF16", ... as in the file */
    int n_dims;
    int64_t dims[SAFETENSORS_MAX_DIMS]; /* the last one varies fastest; 0 is possible */
    uint64_t offset;                    /* in the data */
    uint64_t bytes;
};

/* *out is NULL on failure; the message names the file and the tensor. */
enum mr_status safetensors_open(struct safetensors **out, const char *path, struct mr_error *err);
/* The same over memory that the caller keeps until safetensors_close. */
enum mr_status safetensors_open_memory(struct safetensors **out, const void *bytes, size_t n, struct mr_error *err);
void safetensors_close(struct safetensors *s); /* takes NULL */

/* In the order of their data. */
int safetensors_n(const struct safetensors *s);
const struct safetensor *safetensors_at(const struct safetensors *s, int i);

/* All bytes of a tensor. IO: the file was cut meanwhile. */
enum mr_status safetensors_read(const struct safetensors *s, const struct safetensor *t, void *out, struct mr_error *err);

#endif
