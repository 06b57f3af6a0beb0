/* train_layer.c: a layer forward and backward. */
#include <string.h>

#include "train/row_ops.h"
#include "train/train_pass_state.h"

/* One layer's weights, or their gradients: NULL where it has none. */
struct layer_params {
    int layer;
    float *p[N_PARAMS];
};

static struct layer_params layer_params(const struct train_pass *p, float *base, int layer)
{
    struct layer_params l = {.layer = layer};
    for (enum param i = 0; i < N_PARAMS; i++) {
        const struct param_place at = train_param(p->m, layer, i);
        l.p[i] = at.n_out > 0 && base != NULL ? base + at.at : NULL;
    }
    return l;
}

static struct attention_shape shape_of(const struct run *r, int layer)
{
    struct attention_shape s = r->shape;
    s.window = hparams_layer_has_window(r->h, layer) ? r->h->window : 0;
    return s;
}

static struct rotary rotary_of(const struct run *r, int layer)
{
    const int i = r->h->n_rope > 1 && hparams_layer_has_window(r->h, layer);
    return (struct rotary){r->p->cosine[i], r->p->sine[i], r->h->rope[i].style, r->h->rope[i].n_rot, r->shape.n_tok};
}

static void linear(const struct run *r, const struct layer_params *w, enum param which, float *y, const float *x, int n_out,
                   int n_in)
{
    product_forward(r->c, y, x, w->p[which], r->n, n_out, n_in, false);
    if (r->p->lora != NULL)
        lora_forward(r->c, r->p->lora, w->layer, which, y, x, r->p->narrow, r->n);
}

static void tell_branch(const struct run *r, int layer, enum param which, float *x)
{
    if (r->loss->branch != NULL)
        r->loss->branch(r->loss->context, layer, which, x, r->n);
}

static void attention_block(const struct run *r, int layer, const struct layer_params *w, struct kept *k)
{
    const struct hparams *h = r->h;
    const struct attention_shape shape = shape_of(r, layer);
    const struct rotary rotary = rotary_of(r, layer);
    rms_norm_forward(r->c, k->normed, train_state(r->p, layer), w->p[PARAM_ATTN_NORM], h->norm_eps, r->n, h->n_embd);
    linear(r, w, PARAM_Q, k->q_raw, k->normed, r->q, h->n_embd);
    linear(r, w, PARAM_K, k->k_raw, k->normed, r->kv, h->n_embd);
    linear(r, w, PARAM_V, k->v, k->normed, r->kv, h->n_embd);
    if (r->p->m->has_qk_norm) {
        rms_norm_forward(r->c, k->q, k->q_raw, w->p[PARAM_Q_NORM], h->norm_eps, r->n * h->n_head, h->head_dim);
        rms_norm_forward(r->c, k->k, k->k_raw, w->p[PARAM_K_NORM], h->norm_eps, r->n * h->n_head_kv, h->head_dim);
    }
    rotary_turn(r->c, &rotary, k->q, r->n, h->n_head, h->head_dim, false);
    rotary_turn(r->c, &rotary, k->k, r->n, h->n_head_kv, h->head_dim, false);
    attention_forward(r->c, &shape, k->attended, k->q, k->k, k->v, r->p->attention);
    tell_branch(r, layer, PARAM_O, k->attended);
    linear(r, w, PARAM_O, k->o, k->attended, h->n_embd, r->q);
}

/* out = x + branch, or x + norm(branch) */
static void join(const struct run *r, float *out, const float *x, const float *branch, const float *norm)
{
    const size_t bytes = (size_t)r->n * (size_t)r->h->n_embd * sizeof *out;
    if (norm != NULL)
        rms_norm_forward(r->c, out, branch, norm, r->h->norm_eps, r->n, r->h->n_embd);
    else
        memcpy(out, branch, bytes);
    rows_add(r->c, out, x, r->n, r->h->n_embd);
}

void train_layer_forward(const struct run *r, int layer)
{
    const struct hparams *h = r->h;
    const struct layer_params w = layer_params(r->p, r->p->m->w, layer);
    struct kept *k = kept_of(r, layer);
    attention_block(r, layer, &w, k);
    join(r, k->middle, train_state(r->p, layer), k->o, w.p[PARAM_POST_ATTN_NORM]);
    rms_norm_forward(r->c, k->normed2, k->middle, w.p[PARAM_FFN_NORM], h->norm_eps, r->n, h->n_embd);
    linear(r, &w, PARAM_GATE, k->gate, k->normed2, h->n_ff, h->n_embd);
    linear(r, &w, PARAM_UP, k->up, k->normed2, h->n_ff, h->n_embd);
    glu_forward(r->c, r->p->m->glu, k->gated, k->gate, k->up, r->n, h->n_ff);
    tell_branch(r, layer, PARAM_DOWN, k->gated);
    linear(r, &w, PARAM_DOWN, k->down, k->gated, h->n_embd, h->n_ff);
    join(r, train_state(r->p, layer + 1), k->middle, k->down, w.p[PARAM_POST_FFN_NORM]);
}

/* dx through a product whose weight's gradient is wanted, too. */
static void linear_backward(const struct run *r, const struct layer_params *w, const struct layer_params *g, enum param which,
                            float *dx, const float *dy, const float *x, int n_out, int n_in, bool add)
{
    if (g->p[which] != NULL)
        product_weight_grad(r->c, g->p[which], dy, x, r->n, n_out, n_in);
    product_input_grad(r->c, dx, dy, w->p[which], r->n, n_out, n_in, add);
    if (r->p->lora != NULL)
        lora_backward(r->c, r->p->lora, w->layer, which, r->grad, dx, dy, x, r->p->narrow, r->p->dnarrow, r->n);
}

/* Gradient of what the block added, from that of the sum. */
static const float *branch_gradient(const struct run *r, const float *dx, const float *branch, const float *norm, float *dnorm)
{
    if (norm == NULL)
        return dx;
    rms_norm_backward(r->c, r->p->dbranch, dnorm, dx, branch, norm, r->h->norm_eps, r->n, r->h->n_embd);
    return r->p->dbranch;
}

static void feed_forward_backward(const struct run *r, const struct layer_params *w, const struct layer_params *g,
                                  const struct kept *k)
{
    struct train_pass *p = r->p;
    const struct hparams *h = r->h;
    const float *d = branch_gradient(r, p->dx, k->down, w->p[PARAM_POST_FFN_NORM], g->p[PARAM_POST_FFN_NORM]);
    linear_backward(r, w, g, PARAM_DOWN, p->dgate, d, k->gated, h->n_embd, h->n_ff, false);
    glu_backward(r->c, p->m->glu, p->dgate, p->dup, p->dgate, k->gate, k->up, r->n, h->n_ff);
    linear_backward(r, w, g, PARAM_GATE, p->dnormed, p->dgate, k->normed2, h->n_ff, h->n_embd, false);
    linear_backward(r, w, g, PARAM_UP, p->dnormed, p->dup, k->normed2, h->n_ff, h->n_embd, true);
    rms_norm_backward(r->c, p->dnormed, g->p[PARAM_FFN_NORM], p->dnormed, k->middle, w->p[PARAM_FFN_NORM], h->norm_eps, r->n,
                      h->n_embd);
    rows_add(r->c, p->dx, p->dnormed, r->n, h->n_embd);
}

static void attention_block_backward(const struct run *r, int layer, const struct layer_params *w, const struct layer_params *g,
                                     const struct kept *k)
{
    struct train_pass *p = r->p;
    const struct hparams *h = r->h;
    const struct attention_shape shape = shape_of(r, layer);
    const struct rotary rotary = rotary_of(r, layer);
    const float *d = branch_gradient(r, p->dx, k->o, w->p[PARAM_POST_ATTN_NORM], g->p[PARAM_POST_ATTN_NORM]);
    linear_backward(r, w, g, PARAM_O, p->dattended, d, k->attended, h->n_embd, r->q, false);
    attention_backward(r->c, &shape, p->dq, p->dk, p->dv, p->dattended, k->attended, k->q, k->k, k->v, p->attention);
    rotary_turn(r->c, &rotary, p->dq, r->n, h->n_head, h->head_dim, true);
    rotary_turn(r->c, &rotary, p->dk, r->n, h->n_head_kv, h->head_dim, true);
    if (p->m->has_qk_norm) {
        rms_norm_backward(r->c, p->dq, g->p[PARAM_Q_NORM], p->dq, k->q_raw, w->p[PARAM_Q_NORM], h->norm_eps, r->n * h->n_head,
                          h->head_dim);
        rms_norm_backward(r->c, p->dk, g->p[PARAM_K_NORM], p->dk, k->k_raw, w->p[PARAM_K_NORM], h->norm_eps,
                          r->n * h->n_head_kv, h->head_dim);
    }
    linear_backward(r, w, g, PARAM_Q, p->dnormed, p->dq, k->normed, r->q, h->n_embd, false);
    linear_backward(r, w, g, PARAM_K, p->dnormed, p->dk, k->normed, r->kv, h->n_embd, true);
    linear_backward(r, w, g, PARAM_V, p->dnormed, p->dv, k->normed, r->kv, h->n_embd, true);
    rms_norm_backward(r->c, p->dnormed, g->p[PARAM_ATTN_NORM], p->dnormed, train_state(p, layer), w->p[PARAM_ATTN_NORM],
                      h->norm_eps, r->n, h->n_embd);
    rows_add(r->c, p->dx, p->dnormed, r->n, h->n_embd);
}

void train_layer_backward(const struct run *r, int layer)
{
    const struct layer_params w = layer_params(r->p, r->p->m->w, layer), g = layer_params(r->p, r->base_grad, layer);
    if (r->p->n_kept == 1 && layer + 1 < r->h->n_layer) /* the last layer is still there */
        train_layer_forward(r, layer);
    feed_forward_backward(r, &w, &g, kept_of(r, layer));
    attention_block_backward(r, layer, &w, &g, kept_of(r, layer));
}
