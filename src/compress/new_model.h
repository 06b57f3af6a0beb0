/* new_model.h: a model that has learned nothing: a shape of the llama family with random weights, and the tokenizer of a file.
 */
#ifndef COMPRESS_NEW_MODEL_H
#define COMPRESS_NEW_MODEL_H

#include "train/train_model.h"

struct new_model {
    const char *tokenizer; /* a GGUF file; its vocabulary and chat template are taken */
    const char *out;
    int n_layer, n_embd, n_head, n_head_kv, head_dim, n_ff, n_ctx; /* head_dim 0: n_embd / n_head */
    float rope_base, norm_eps;
    bool is_untied; /* an output matrix of its own */
    uint64_t seed;
    enum quant_type type;
};

/* BAD_INPUT: the shape, by the number that does not fit. *n_weight: weights written. */
enum mr_status new_model_write(const struct new_model *n, size_t *n_weight, struct mr_error *err);

#endif
