/* hessian.h: for SparseGPT: of each matrix the products of all pairs of columns of the activations that met it along a text,
 * which is the Hessian of the product's squared error, and the factor of its inverse (inverse_factor.h). A matrix of n columns
 * takes 4 n^2 bytes; as many as fit into the memory that is given are collected in one reading of the text, the next ones,
 * in the order of the file, when one of them is asked for. The activations are those of the whole model. */
#ifndef COMPRESS_HESSIAN_H
#define COMPRESS_HESSIAN_H

#include "compress/sparsify.h"
#include "measure/perplexity.h"

struct hessians; /* opaque */

struct hessian_text {
    struct mr_model *model; /* computes with floats (fp32) */
    const int32_t *token;
    int64_t n;
    const struct perplexity_options *windows;
    size_t memory; /* bytes; one matrix at least */
    int threads;
};

/* BAD_INPUT: the text is too short (CALIBRATE_TOKENS_MIN). Everything in text stays borrowed. */
enum mr_status hessians_create(struct hessians **out, const struct hessian_text *text, struct mr_error *err);
void hessians_free(struct hessians *h); /* takes NULL */

/* struct sparsify_factors: context is struct hessians. NO_SUPPORT: the matrices of experts. */
enum mr_status hessians_find(void *context, const float **out, const struct gguf_tensor *t, struct mr_error *err);

#endif
