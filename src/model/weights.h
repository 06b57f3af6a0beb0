/* weights.h: a model's tensors on their devices, and how they get there.
 * Loading goes in two steps: first each tensor is found, its shape compared with what the hyper-parameters ask for, and its
 * packed size planned; then one buffer a device is made and all are packed. A tensor that nobody asked for is an error. */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "model/hparams.h"
#include "model/model.h"

struct loader;

struct layer_weights {
    struct tensor attn_norm, ffn_norm;
    struct tensor post_attn_norm, post_ffn_norm; /* absent in most families; so are the next ones */
    struct tensor q_norm, k_norm;
    struct tensor q_bias, k_bias, v_bias;
    struct tensor attn_norm_bias, ffn_norm_bias; /* those of a layer norm */
    struct tensor qkv_bias, o_bias, up_bias, down_bias;
    struct weight q, k, v, o;
    struct weight qkv;            /* or one matrix in place of q, k and v */
    struct weight gate, up, down; /* or those of all experts */
    struct weight router;         /* scores of the experts */
};

struct weights {
    struct weight embed;    /* on the embedding device */
    struct weight output;   /* on the layers' device; the same memory as embed where tied and on one device */
    struct weight position; /* of families that learn positions: a row for each */
    struct tensor output_norm;
    struct tensor output_norm_bias; /* that of a layer norm */
    struct layer_weights *layer;    /* [n_layer] */
    struct buffer *buffer;          /* of the layers' device */
    struct buffer *embed_buffer;    /* NULL where there is one device */
    bool has_q8;                    /* some product takes int8 activations */
    bool rounds_bf16;               /* some product rounds its activations to bf16 */
    size_t bytes;
    int64_t n_parameter;
    size_t bytes_used; /* by one token: of a mixture, only its experts; so n_parameter_used */
    int64_t n_parameter_used;
    struct item *item; /* [n_item] what was loaded, in the order of memory (loader.h) */
    size_t n_item;
};

/* Plan, and pack unless plan_only (then only sizes, has_q8 and each matrix's kernel, mean something).
 * On failure everything is released. */
enum mr_status weights_load(struct weights *w, const struct hparams *h, const struct gguf *g,
                            const struct model_options *options, bool plan_only, struct mr_error *err);
void weights_release(struct weights *w);

struct progress { /* f may be NULL; false: do not go on */
    bool (*f)(void *context, size_t done, size_t total);
    void *context;
};

/* Write them as they lie in memory: a file that loads without packing on machines with the same products. g: the file they were
 * loaded from, still open. On the cpu alone. */
enum mr_status weights_write_packed(const struct weights *w, const struct gguf *g, const char *path,
                                    const struct progress *progress, struct mr_error *err);

/* For a family's bind_model. */
enum mr_status loader_matrix(struct loader *l, struct weight *out, const char *name, int n_out, int n_in, struct mr_error *err);
enum mr_status loader_vector(struct loader *l, struct tensor *out, const char *name, int n, struct mr_error *err);
/* For a family's bind_layer: name is below "blk.LAYER."; absence or another shape is an error. */
enum mr_status loader_layer_vector(struct loader *l, struct tensor *out, int layer, const char *name, int n,
                                   struct mr_error *err);
enum mr_status loader_layer_matrix(struct loader *l, struct weight *out, int layer, const char *name, int n_out, int n_in,
                                   struct mr_error *err);
/* The scores of experts: kept as they are unless all is f32, for a rounded score may choose another expert. */
enum mr_status loader_layer_router(struct loader *l, struct weight *out, int layer, const char *name, struct mr_error *err);
/* n_expert matrices. */
enum mr_status loader_layer_experts(struct loader *l, struct weight *out, int layer, const char *name, int n_out, int n_in,
                                    struct mr_error *err);
/* attn_norm, q, k, v, output */
enum mr_status loader_attention(struct loader *l, struct layer_weights *w, int layer, struct mr_error *err);
/* ffn_norm, gate, up, down */
enum mr_status loader_feed_forward(struct loader *l, struct layer_weights *w, int layer, struct mr_error *err);
/* Both: what most families begin with. */
enum mr_status loader_dense_layer(struct loader *l, struct layer_weights *w, int layer, struct mr_error *err);
const struct hparams *loader_hparams(const struct loader *l);

#endif
