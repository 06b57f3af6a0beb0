/* loss.h: what a model is trained for at each row: the token that follows, and a teacher's distribution over it.
 *   loss = ce_weight * -log q(label) + kl_weight * T^2 * KL(p || q_T)      (Hinton et al. 2015, arXiv:1503.02531, section 2)
 * q is the softmax of the row's logits, q_T that of the logits over the temperature T. Of the teacher's distribution p (at the
 * same T) the k largest probabilities are known, and the sum of the rest, which counts as one class more: with k the whole
 * vocabulary this is the KL divergence, with fewer a lower bound whose minimum is not moved.
 * Threads: rows are spread over the pool; each row's figures go to a place of its own. */
#ifndef TRAIN_LOSS_H
#define TRAIN_LOSS_H

#include "train/product.h"

enum {
    LOSS_K_MAX = 256
};

struct loss_targets {
    const int32_t *label; /* [n_row]; -1: the row counts for nothing */
    int k;                /* 0: there is no teacher; at most LOSS_K_MAX, and the vocabulary */
    const int32_t *id;    /* [n_row][k], the most probable first; all different */
    const float *p;       /* [n_row][k] */
    float ce_weight, kl_weight, temperature;
    float scale; /* of gradients: one over the rows that count in a step */
};

struct row_loss {
    float cross_entropy, divergence; /* not weighted; divergence at the temperature, without its square */
    bool counts, is_right, agrees;   /* the best logit is the label; is the teacher's best */
};

/* For logits[n_row][n_vocab]: out[n_row], and, where backward, scale * d loss / d logits in the logits' place. The targets are
 * those of these rows. */
void loss_rows(struct compute *c, struct row_loss *out, const struct loss_targets *targets, float *logits, int n_row,
               int n_vocab, bool backward);

/* The teacher's side: the k most probable ids of each row of logits and their probabilities at the temperature; ties to the
 * lower id. */
void loss_best(struct compute *c, int32_t *id, float *p, const float *logits, int n_row, int n_vocab, int k, float temperature);

/* Over n_row rows of n the sum of their means of |d| - 1/2, or d^2 / 2 where |d| < 1, with d = x - target (Girshick 2015,
 * arXiv:1504.08083, section 2.3), times weight; dx as below. */
double loss_smooth_absolute(const float *x, const float *target, float *dx, int n_row, int n, float weight, float scale);

/* Over n_row rows of n the sum of their mean squares of x - target, times weight; dx (NULL: forward alone) += its gradient
 * times scale. */
double loss_mean_square(struct compute *c, const float *x, const float *target, float *dx, int n_row, int n, float weight,
                        float scale);

#endif
