/* eagle.h: a head that guesses the feature of the next position from that of this one and the token in between (EAGLE: Li et
 * al. 2024, arXiv:2401.15077, section 4), trained beside a base model that stands still. With h(t) the feature of the base at
 * position t, what its output matrix reads there, and e(t) the embedding of token t as the base's first layer reads it:
 *   x(t) = fc [h(t); e(t + 1)] + bias, one layer of the base's kind over all x up to t, and what leaves it guesses h(t + 1);
 *   the base's output matrix times that guess, without a norm, gives logits of token t + 2
 * fc begins as [identity; 0]: the head begins near to what the base says of token t + 1.
 * Threads: one calls; sums have a fixed order, so the bits do not depend on how many compute. */
#ifndef TRAIN_EAGLE_H
#define TRAIN_EAGLE_H

#include "train/train_model.h"
#include "train/train_pass.h"

struct eagle {
    const struct train_model *base; /* borrowed */
    struct train_model block;       /* one layer; its weights are the first of w */
    size_t n_weight;                /* floats in w */
    float *w;
};

/* A head as it starts; the same bits for the same seed everywhere. NO_MEMORY. */
enum mr_status eagle_create(struct eagle *out, const struct train_model *base, uint64_t seed, struct mr_error *err);
void eagle_release(struct eagle *e);                    /* also of a zeroed struct */
struct param_place eagle_weight(const struct eagle *e); /* fc: [n_embd][2 n_embd] */
struct param_place eagle_bias(const struct eagle *e);   /* [n_embd] */

struct eagle_pass; /* opaque */

/* options: n_seq, n_tok, memory, pool and features count. Head and base are borrowed. NO_MEMORY. */
enum mr_status eagle_pass_create(struct eagle_pass **out, const struct eagle *e, const struct train_pass_options *options,
                                 struct mr_error *err);
void eagle_pass_free(struct eagle_pass *p); /* takes NULL */

/* feature[rows][n_embd] of n_seq sequences; next[rows]: the token behind each row, -1: there is none. The loss sees logits of
 * the token after next, and as `hidden` of layer 1 the guesses of features. Gradients are added to grad[n_weight], NULL:
 * forward alone. */
double eagle_pass_run(struct eagle_pass *p, const float *feature, const int32_t *next, int n_seq, const struct train_loss *loss,
                      float *grad);
struct compute *eagle_pass_compute(struct eagle_pass *p);

/* Operations that a token costs, forward and backward, as head_flops_per_token. */
double eagle_flops_per_token(const struct eagle *e, int n_tok);

#endif
