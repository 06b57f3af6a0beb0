/* train_pass_state.h: what train_pass.c (the ends of a model) and train_layer.c (its layers) share. */
#ifndef TRAIN_TRAIN_PASS_STATE_H
#define TRAIN_TRAIN_PASS_STATE_H

#include "train/attention_grad.h"
#include "train/train_pass.h"

/* What a layer computes inside; [rows] of each. */
struct kept {
    float *normed, *q_raw, *k_raw, *q, *k, *v, *attended, *o, *middle, *normed2, *gate, *up, *gated, *down;
};

struct train_pass {
    const struct train_model *m;
    const struct train_model *output; /* has the output matrix: m, but for a block */
    struct compute c;
    const struct lora *lora; /* NULL: none */
    struct attention_shape shape;
    int n_row, head_rows, n_kept;
    size_t bytes;
    float *memory;
    float *x;          /* [n_layer + 1][rows][n_embd] */
    struct kept *kept; /* [n_kept]: n_layer, or 1 */
    float *cosine[MAX_ROPES], *sine[MAX_ROPES];
    float *normed, *logits;                       /* of the output */
    float *dx, *dbranch, *dnormed, *dq, *dk, *dv; /* gradients of rows */
    float *dattended, *dgate, *dup, *attention;
    float *narrow, *dnarrow; /* of an adapter: [rows][rank] */
};

/* One run: the rows of this micro-batch. */
struct run {
    struct train_pass *p;
    const struct hparams *h;
    struct compute *c;
    const struct train_loss *loss;
    struct attention_shape shape;
    float *grad;      /* of what moves */
    float *base_grad; /* of the model; NULL: an adapter moves, or nothing does */
    int n, q, kv;     /* rows; widths of queries, and of keys */
};

/* The state behind `layer` blocks. */
static inline float *train_state(const struct train_pass *p, int layer)
{
    return p->x + (size_t)layer * (size_t)p->n_row * (size_t)p->m->h.n_embd;
}

static inline struct kept *kept_of(const struct run *r, int layer) { return &r->p->kept[r->p->n_kept > 1 ? layer : 0]; }

/* From the state behind `layer` blocks to the next one; and p->dx back through it. */
void train_layer_forward(const struct run *r, int layer);
void train_layer_backward(const struct run *r, int layer);

#endif
