/* sparsify.h: a model file again whose layers' matrices have lost weights: half of each small group, stored in types that keep
 * the others only (quant/sparse.h), or any share of them, stored as zeros. Tensors are streamed; the output does not depend on
 * the number of threads, and appears under its name when it is whole and on the disk. */
#ifndef COMPRESS_SPARSIFY_H
#define COMPRESS_SPARSIFY_H

#include "compress/column_weights.h"
#include "compress/sparse_mask.h"
#include "format/gguf.h"

struct sparsify_step {
    struct gguf_string name; /* borrowed */
    const struct quant *from, *to;
    bool is_sparse; /* it lost weights */
    bool is_unfit;  /* it would have, but its rows are no multiple of 32 */
    double error;   /* root of sum (x - y)^2 over sum x^2 */
    uint64_t bytes;
    int done, n; /* tensors */
};

/* Where sparsegpt finds the factor of a matrix's inverse Hessian (sparse_mask.h); it stays until the next call. */
struct sparsify_factors {
    enum mr_status (*find)(void *context, const float **out, const struct gguf_tensor *t, struct mr_error *err);
    void *context;
};

struct sparsify_options {
    enum sparse_method method;
    int kept, of;             /* of 0: no pattern, which only dense storage takes */
    double ratio;             /* without a pattern: the share that goes */
    const struct quant *type; /* of the values that stay; NULL: bf16 of wider types, q8_0 of 8 bits, q4_0 of fewer */
    bool is_dense;            /* zeros are stored, too */
    const struct column_weights *statistics;                        /* wanda; q4_0's scales where there are any */
    const struct sparsify_factors *factors;                         /* sparsegpt */
    int threads;                                                    /* 0: all */
    bool (*go_on)(void *context, const struct sparsify_step *step); /* after each tensor; false: stop */
    void *context;
};

struct sparsify_result {
    uint64_t bytes_in, bytes_out; /* of tensors */
    int n_tensor, n_sparse, n_unfit;
};

/* BAD_INPUT: in is packed, has types with a pattern already, or statistics lack a matrix; FULL: the disk has no room, told
 * before the work begins; BAD_FORMAT: a weight is NaN or infinite. CANCELLED: go_on said so. */
enum mr_status sparsify(struct sparsify_result *out, const char *in, const char *to, const struct sparsify_options *options,
                        struct mr_error *err);

/* The tensors that lose weights. */
bool sparsify_takes(const struct gguf_tensor *t);

#endif
