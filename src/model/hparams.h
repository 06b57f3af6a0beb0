/* hparams.h: a model's hyper-parameters, read from a GGUF file and checked. */
#ifndef MODEL_HPARAMS_H
#define MODEL_HPARAMS_H

#include <stdbool.h>

#include "format/gguf.h"
#include "ops/ops.h"

struct family;

enum {
    MAX_ROPES = 2,
    MAX_LAYERS = 4096,
    MAX_WIDTH = 1 << 20
};

struct hparams {
    const struct family *family;
    const char *arch; /* prefix of the file's keys */
    int n_vocab;
    int n_ctx_train;
    int n_layer;
    int n_embd;
    int pooling; /* ARCH.pooling_type; 0: none */
    int n_ff;
    int n_head;
    int n_head_kv;
    int head_dim;
    int n_expert;      /* 0: every row meets the same feed-forward block of n_ff; else so many of n_ff each */
    int n_expert_used; /* of a row */
    bool expert_weights_sum_to_1;
    int n_position; /* positions that the model knows; 0: any */
    float norm_eps;
    struct rope rope[MAX_ROPES]; /* window layers of a family that has two turn by rope[1] */
    int n_rope;
    float embed_scale;
    float attention_scale;
    float attention_cap; /* 0: none; so for final_cap */
    float final_cap;
    int window;        /* tokens that a window layer sees; 0: there is none */
    int window_period; /* every window_period-th layer sees everything; 0: all are window layers */
};

/* Everything that the families share, then what the family adds. Errors name the key and its value.
 * NO_SUPPORT: the architecture, or a key of it, is not one that this build understands. */
enum mr_status hparams_read(struct hparams *out, const struct gguf *g, struct mr_error *err);

bool hparams_layer_has_window(const struct hparams *h, int layer);

/* Key "ARCH.name" of the present file; never cut. */
struct hparams_key {
    char s[128];
};
struct hparams_key hparams_key(const struct hparams *h, const char *name);

enum mr_status hparams_int(const struct hparams *h, const struct gguf *g, const char *name, int64_t low, int64_t high, int *out,
                           struct mr_error *err);
enum mr_status hparams_int_or(const struct hparams *h, const struct gguf *g, const char *name, int64_t low, int64_t high,
                              int fallback, int *out, struct mr_error *err);
/* A finite number above 0. */
enum mr_status hparams_positive(const struct hparams *h, const struct gguf *g, const char *name, float *out,
                                struct mr_error *err);
enum mr_status hparams_positive_or(const struct hparams *h, const struct gguf *g, const char *name, float fallback, float *out,
                                   struct mr_error *err);
/* ARCH.attention.sliding_window, where it is there, to h->window. */
enum mr_status hparams_read_window(struct hparams *h, const struct gguf *g, struct mr_error *err);

#endif
