/* row_ops.h: what a layer does row by row, forward and backward, spread over the thread pool. A gradient of a weight sums over
 * rows in ascending order, whatever the threads. Gradients named dx may be the memory of dy. */
#ifndef TRAIN_ROW_OPS_H
#define TRAIN_ROW_OPS_H

#include "train/product.h"

/* y = x w / sqrt(mean x^2 + eps), for each of n_row rows of n (Zhang and Sennrich 2019, arXiv:1910.07467). */
void rms_norm_forward(struct compute *c, float *y, const float *x, const float *w, float eps, int n_row, int n);
/* dx = d/dx, dw += d/dw; dw may be NULL. */
void rms_norm_backward(struct compute *c, float *dx, float *dw, const float *dy, const float *x, const float *w, float eps,
                       int n_row, int n);

/* out = f(gate) * up */
void glu_forward(struct compute *c, enum glu_kind kind, float *out, const float *gate, const float *up, int n_row, int n);
/* dgate and dup from dout. */
void glu_backward(struct compute *c, enum glu_kind kind, float *dgate, float *dup, const float *dout, const float *gate,
                  const float *up, int n_row, int n);

/* y = x + silu(u + b) with u[n_row][n], b[n]; what silu reads is left in u. */
void silu_residual_forward(struct compute *c, float *y, const float *x, float *u, const float *b, int n_row, int n);
/* du from dy and the u that the forward pass left; db += its sum over rows. dx is dy itself. */
void silu_residual_backward(struct compute *c, float *du, float *db, const float *dy, const float *u, int n_row, int n);

/* Turn the heads of each row in place by the angles of its place in its sequence: cosine and sine are [n_tok][n_rot / 2];
 * backward by the opposite angles, which is the gradient. Row r stands at place r % n_tok. */
struct rotary {
    const float *cosine, *sine;
    enum rope_style style;
    int n_rot, n_tok;
};
void rotary_turn(struct compute *c, const struct rotary *rotary, float *x, int n_row, int n_head, int head_dim, bool backward);

/* x = w[token] * scale, and dw[token] += dx * scale. */
void embed_forward(struct compute *c, float *x, const float *w, const int32_t *token, float scale, int n_row, int n);
void embed_backward(struct compute *c, float *dw, const float *dx, const int32_t *token, float scale, int n_row, int n);

/* x += y over n_row rows of n */
void rows_add(struct compute *c, float *x, const float *y, int n_row, int n);
/* x += b[n] for each of n_row rows; db[n] += the sum of dx's rows. */
void bias_forward(struct compute *c, float *x, const float *b, int n_row, int n);
void bias_backward(struct compute *c, float *db, const float *dx, int n_row, int n);
/* x *= s over n_row rows of n */
void rows_scale(struct compute *c, float *x, float s, int n_row, int n);

#endif
