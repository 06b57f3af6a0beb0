/* train_model.h: a model whose weights change: all of them as f32 in one array, so that gradients, moments and checkpoints are
 * arrays of the same length. Families: llama, qwen3, gemma3. Matrices are [n_out][n_in], as in a file.
 * Threads: none of its own; whoever writes weights is alone. */
#ifndef TRAIN_TRAIN_MODEL_H
#define TRAIN_TRAIN_MODEL_H

#include "format/gguf.h"
#include "model/hparams.h"

enum param {
    PARAM_EMBED,
    PARAM_OUTPUT, /* absent where the embedding serves as output, too */
    PARAM_OUTPUT_NORM,
    N_GLOBAL_PARAMS,
    PARAM_ATTN_NORM = N_GLOBAL_PARAMS,
    PARAM_Q,
    PARAM_K,
    PARAM_V,
    PARAM_O,
    PARAM_Q_NORM, /* absent in some families, as are the norms behind a block */
    PARAM_K_NORM,
    PARAM_POST_ATTN_NORM,
    PARAM_FFN_NORM,
    PARAM_GATE,
    PARAM_UP,
    PARAM_DOWN,
    PARAM_POST_FFN_NORM,
    N_PARAMS
};

struct train_model {
    struct hparams h;
    bool is_block;      /* layers alone: neither embedding nor output nor last norm */
    bool is_tied;       /* the embedding is the output */
    bool has_qk_norm;   /* heads of q and k are normed */
    bool has_post_norm; /* what a block adds is normed */
    enum glu_kind glu;
    float rope_base;
    size_t n_weight; /* floats in w */
    float *w;        /* NULL: the shape alone */
};

/* Where a parameter lies. n_in is 0 for a vector of n_out; n_out 0: the model has none. */
struct param_place {
    size_t at; /* floats from w */
    int n_out, n_in;
};
struct param_place train_param(const struct train_model *m, int layer, enum param which); /* layer is ignored for global ones */
size_t param_floats(struct param_place p);
/* "blk.3.ffn_up.weight" */
struct param_name {
    char s[64];
};
struct param_name train_param_name(int layer, enum param which);

/* A shape without weights: of h, or of a file, whose tensors are those of the family. BAD_INPUT, NO_SUPPORT: a family or trait
 * that training does not know. There is nothing to release. */
enum mr_status train_model_plan(struct train_model *out, const struct hparams *h, bool is_tied, float rope_base,
                                struct mr_error *err);
enum mr_status train_model_plan_file(struct train_model *out, const struct gguf *g, struct mr_error *err);
/* One parameter of that file, decoded to out[param_floats]. BAD_FORMAT: NaN or infinity, a tensor of another shape; by name. */
enum mr_status train_param_read(float *out, const struct train_model *m, const struct gguf *g, int layer, enum param which,
                                struct mr_error *err);

/* Weights of h's shape, not set. Errors as for the shape. */
enum mr_status train_model_create(struct train_model *out, const struct hparams *h, bool is_tied, float rope_base,
                                  struct mr_error *err);
/* The same with a file's weights, all of them decoded. */
enum mr_status train_model_load(struct train_model *out, const struct gguf *g, struct mr_error *err);
/* One layer of m's kind (of its first layer's, where they differ) alone; weights not set. NO_MEMORY. */
enum mr_status train_model_create_block(struct train_model *out, const struct train_model *m, struct mr_error *err);
void train_model_release(struct train_model *m);

/* Random weights of mean zero; matrices with standard deviation 0.02, those that write to the residual stream divided by
 * sqrt(2 n_layer) (Radford et al. 2019, section 2.3); norms are 1. The same bits for the same seed everywhere. */
void train_model_randomize(struct train_model *m, uint64_t seed);

/* Write an ordinary file: metadata of `g` with the shape's keys replaced, matrices as `type` (f32, f16 or bf16), vectors as
 * f32. is_new: the shape does not come from g, of which only the tokenizer is taken. The file appears whole or not at all.
 * BAD_INPUT: a weight is not finite, by tensor. */
enum mr_status train_model_write(const struct train_model *m, const struct gguf *g, bool is_new, enum quant_type type,
                                 const char *path, struct mr_error *err);

/* Where a parameter's floats come from: *out is valid until the next call. */
struct param_source {
    enum mr_status (*read)(void *context, int layer, enum param which, const float **out, struct mr_error *err);
    void *context;
};
/* The same for a shape whose weights come one parameter at a time, each once, in order. */
enum mr_status train_model_write_from(const struct train_model *m, const struct param_source *from, const struct gguf *g,
                                      bool is_new, enum quant_type type, const char *path, struct mr_error *err);

#endif
