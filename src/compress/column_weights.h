/* column_weights.h: how much an error in each column of a matrix counts: the mean square of the activations that it met along a
 * text. Read from the files that people exchange: the older .dat form (entries of name, calls, values) and the GGUF form
 * (tensors NAME.in_sum2 and NAME.counts). Threads: immutable after reading. */
#ifndef COMPRESS_COLUMN_WEIGHTS_H
#define COMPRESS_COLUMN_WEIGHTS_H

#include "format/gguf.h"

struct column_weights; /* opaque */

/* Which of both forms it is the file says. BAD_FORMAT names the file and the entry; no value may be negative, NaN or infinite.
 */
enum mr_status column_weights_read(struct column_weights **out, const char *path, struct mr_error *err);
/* One matrix after the other, from elsewhere: mean[n] of a tensor, n its columns times its matrices. */
enum mr_status column_weights_create(struct column_weights **out, struct mr_error *err);
enum mr_status column_weights_add(struct column_weights *m, struct gguf_string tensor, const float *mean, size_t n,
                                  struct mr_error *err);
void column_weights_free(struct column_weights *m); /* takes NULL */
int column_weights_n(const struct column_weights *m);

/* Of each of n_column columns, for the matrix-th matrix of the tensor (of its experts; 0 for one matrix), or for all of them
 * alike where the file has one row only. NULL: the file knows nothing of it; *fits is false where it knows another shape. */
const float *column_weights_find(const struct column_weights *m, struct gguf_string tensor, int64_t n_column, int64_t matrix,
                                 bool *fits);

#endif
