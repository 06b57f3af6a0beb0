/* train_lora.h: low-rank adapters (Hu et al. 2021, arXiv:2106.09685) trained on a model that stands still. A product y = x W^T
 * becomes y = x W^T + alpha / rank (x A^T) B^T with A[rank][n_in], B[n_out][rank]; A and B alone have gradients.
 * A begins uniform within 1 / sqrt(n_in), B at zero: an adapter begins as the model itself, as it does elsewhere.
 * Threads: one calls; sums have a fixed order, so the bits do not depend on how many compute. */
#ifndef TRAIN_TRAIN_LORA_H
#define TRAIN_TRAIN_LORA_H

#include "train/product.h"
#include "train/train_model.h"

enum {
    LORA_RANK_MAX = 1024 /* as model/adapter.h has it */
};

struct lora {
    const struct train_model *base; /* borrowed */
    int rank;
    float alpha;
    unsigned targets; /* 1 << PARAM_Q and so on */
    size_t n_weight;  /* floats in w */
    float *w;
};

/* "q,v" or "q_proj,v_proj": of q, k, v, o, gate, up, down; "all": all of them. BAD_INPUT: names the word. */
enum mr_status lora_targets_parse(unsigned *targets, const char *list, struct mr_error *err);
/* All targets' names, comma between them. */
extern const char lora_targets_all[];

/* An adapter as it starts; the same bits for the same seed everywhere. NO_MEMORY; BAD_INPUT: rank not 1 to LORA_RANK_MAX, alpha
 * not above 0, no target. */
enum mr_status lora_create(struct lora *out, const struct train_model *base, int rank, float alpha, unsigned targets,
                           uint64_t seed, struct mr_error *err);
void lora_release(struct lora *l); /* also of a zeroed struct */

/* Where the parts lie; n_out is 0 where a product is not adapted. */
struct param_place lora_a(const struct lora *l, int layer, enum param which); /* [rank][n_in] */
struct param_place lora_b(const struct lora *l, int layer, enum param which); /* [n_out][rank] */

/* y[n_row][n_out] += what the adapter adds to the product of x[n_row][n_in]; nothing where it is not adapted.
 * u: scratch [n_row][rank]. */
void lora_forward(struct compute *c, const struct lora *l, int layer, enum param which, float *y, const float *x, float *u,
                  int n_row);
/* Adds to grad[n_weight] and to dx[n_row][n_in]; u, du: scratch [n_row][rank]. */
void lora_backward(struct compute *c, const struct lora *l, int layer, enum param which, float *grad, float *dx,
                   const float *dy, const float *x, float *u, float *du, int n_row);

/* Operations that a token costs forward and backward: as train_flops_per_token, without the gradients of the model's weights.
 */
double lora_flops_per_token(const struct lora *l, int n_tok);

#endif
