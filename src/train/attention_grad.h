/* attention_grad.h: causal attention over whole sequences and its gradient, in memory linear in the sequence: scores are
 * computed for a block of queries at a time, and again in the backward pass (Dao et al. 2022, arXiv:2205.14135, section 3.1).
 * A piece of work is one key/value head of one sequence with its query heads, so that no two pieces add to one gradient. */
#ifndef TRAIN_ATTENTION_GRAD_H
#define TRAIN_ATTENTION_GRAD_H

#include "train/product.h"

struct attention_shape {
    int n_seq, n_tok; /* row s * n_tok + t is token t of sequence s */
    int n_head, n_head_kv, head_dim;
    int window; /* keys that a query sees, itself among them; 0: all up to itself */
    float scale;
};

/* Floats of scratch for each thread. */
size_t attention_scratch(const struct attention_shape *s);

/* out, q: [n_seq * n_tok][n_head * head_dim]; k, v: [n_seq * n_tok][n_head_kv * head_dim]; scratch: [n_thread] times the above.
 */
void attention_forward(struct compute *c, const struct attention_shape *s, float *out, const float *q, const float *k,
                       const float *v, float *scratch);
void attention_backward(struct compute *c, const struct attention_shape *s, float *dq, float *dk, float *dv, const float *dout,
                        const float *out, const float *q, const float *k, const float *v, float *scratch);

#endif
