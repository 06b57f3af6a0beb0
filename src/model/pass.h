/* pass.h: one run of rows through a model, and the steps that families write their forward pass with.
 * Between steps the residual stream is x + delta, where delta is what the last product gave; the next norm adds it. */
#ifndef MODEL_PASS_H
#define MODEL_PASS_H

#include "model/adapter_state.h"
#include "model/weights.h"

/* The rows of a sequence's first positions are fine (ops/device.h). All later positions attend to them, most of all to the
 * first ones (Xiao et al. 2023, arXiv:2309.17453; Liu et al. 2024, arXiv:2403.01241), so that their rounding reaches
 * everything, while they cost a long prompt next to nothing. */
enum {
    FINE_POSITIONS = 32
};

/* The first step that gave NaN or infinity, where one is looked for, and in which row of the batch. */
struct pass_fault {
    const char *step; /* NULL: none so far */
    int layer;
    int row;
};

/* Views of the activation memory, cut to the rows of the present call. */
struct pass {
    const struct hparams *h;
    const struct weights *w;
    struct device *device; /* of the layers */
    const struct ops *ops;

    int layer;                /* at hand; -1: outside of them */
    struct pass_fault *fault; /* NULL: steps are not looked at */

    int n_row;
    const int32_t *token;             /* [n_row] */
    const int32_t *position;          /* [n_row] */
    const uint32_t *const *blocks[2]; /* block tables of the rows: of layers without and with a window */
    const struct kv_view *kv;         /* [n_layer] */
    int n_logits;
    const int32_t *logits_row; /* [n_logits] */
    int n_hidden;
    const int32_t *hidden_row;     /* [n_hidden] */
    float *hidden;                 /* [n_hidden][n_embd] host memory */
    int picked_room;               /* rows of the picked views */
    struct adapter_work *adapters; /* NULL: no row has one */

    struct tensor x;
    struct tensor delta;
    bool has_delta;
    struct tensor delta_weight;    /* absent, or the norm of delta that its addition waits for */
    struct activation_view normed; /* [n_row][n_embd]; its floats are delta's memory where ops are fused: read before the next
                                      delta is written */
    struct tensor qkv;
    struct tensor q, k, v;           /* parts of it */
    struct activation_view attended; /* [n_row][n_head * head_dim] */
    struct tensor gate, up;
    struct activation_view gated;   /* [n_row][n_ff] */
    struct activation_view slot_in; /* [n_row * n_expert_used][n_embd]; gate, up and gated then have so many rows, too */
    struct tensor slot_out;
    struct tensor score; /* [n_row][n_expert] */
    struct routing routing;
    struct tensor angles[MAX_ROPES];
    struct tensor picked_x, picked_delta; /* [n_logits][n_embd] */
    struct activation_view picked;
    struct tensor logits;

    struct device *embed_device;
    struct tensor embedded; /* on the embedding device; the same as x where that is the layers' device */
    float *host;            /* [n_row][n_embd], to carry rows from device to device */
};

/* x = rows of the embedding times the family's scale; the angles of all rows. */
void pass_embed(struct pass *p);
/* Then delta = the rows of the position table. */
void pass_embed_positions(struct pass *p);
/* normed = rms_norm(x += delta) * weight */
void pass_norm(struct pass *p, const struct tensor *weight);
/* normed = layer_norm(x += delta) * weight + bias */
void pass_layer_norm(struct pass *p, const struct tensor *weight, const struct tensor *bias);
/* q, k, v of normed; turned, written to the cache; delta = output product of the attention. */
void pass_attention(struct pass *p, int layer, const struct rope *rope, const struct tensor *angles);
/* delta = down(f(gate) * up) of normed */
void pass_feed_forward(struct pass *p, int layer, enum glu_kind kind);
/* delta = down(gelu(up + its bias)) + its bias, of normed */
void pass_plain_feed_forward(struct pass *p, int layer);
/* delta = sum over the row's experts of weight * down(f(gate) * up) of normed */
void pass_experts(struct pass *p, int layer, enum glu_kind kind);
/* Hidden states, behind the last norm, of the rows that ask for them. */
void pass_hidden(struct pass *p);
/* Logits of the rows that ask for them. */
void pass_head(struct pass *p);

#endif
