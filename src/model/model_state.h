/* model_state.h: what the files behind model.h share. */
#ifndef MODEL_MODEL_STATE_H
#define MODEL_MODEL_STATE_H

#include "model/adapter_state.h"
#include "model/model.h"
#include "model/pass.h"

/* Rows of a batch that are fine (ops/device.h), ascending. */
struct fine_rows {
    int32_t *row;
    int n;
};

/* Activation memory for max_row rows, cut once; a pass takes its first rows. */
struct activations {
    struct buffer *buffer;
    struct buffer *embed_buffer; /* NULL where there is one device */
    struct pass whole;           /* its views span max_row and max_logits rows */
    float *host;                 /* [max_row][n_embd] where there are two devices */
    size_t bytes;
};

struct model {
    struct hparams h;
    struct weights w;
    struct model_options options;
    struct activations act;
    struct model_info info;
    enum kv_type kv_type;
    int32_t *position;   /* [max_row] */
    int32_t *logits_row; /* [max_logits] */
    struct fine_rows fine, fine_logits;
    const uint32_t **blocks[2]; /* [max_row] */
    float *logits;              /* [max_logits][n_vocab] */
    int n_logits;
    int32_t *hidden_row;               /* [max_row] */
    float *hidden;                     /* [max_row][n_embd] */
    int fault_row;                     /* of the last call; -1: none */
    struct adapter_work *adapter_work; /* NULL: no adapter has been loaded yet */
};

struct model_kv {
    struct model *model;
    struct kv_cache *cache;
    struct kv_config config;
    struct buffer *buffer[KV_MAX_GROUPS];
    size_t stride[KV_MAX_GROUPS]; /* bytes of a block */
    int group_of_window[2];       /* group of the layers without, and with, a window; -1: none */
    struct kv_view *view;         /* [n_layer] */
    int *run_length;              /* [n_seq] rows of each sequence in the batch at hand, 0 between calls */
};

/* Plan the views; make the memory unless plan_only. */
enum mr_status activations_create(struct activations *a, const struct hparams *h, const struct weights *w,
                                  const struct model_options *options, bool plan_only, struct mr_error *err);
void activations_release(struct activations *a);

/* The views of a pass over n_row rows of which n_logits ask for logits. fine_logits: among those, by their own numbers. */
struct pass activations_pass(const struct activations *a, int n_row, const struct fine_rows *fine, int n_logits,
                             const struct fine_rows *fine_logits);

/* The cache's groups for n_seq sequences of max_token tokens, n_token in all. */
void model_kv_plan(struct kv_config *out, const struct hparams *h, enum kv_type type, int max_row, int n_seq, int max_token,
                   int64_t n_token);
enum kv_type model_kv_type(const struct model_options *options);

#endif
