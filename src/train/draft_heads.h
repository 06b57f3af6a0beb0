/* draft_heads.h: heads that guess tokens further ahead, trained beside a base model that stays as it is (Medusa: Cai et al.
 * 2024, arXiv:2401.10774, section 2.1). With h(t) the feature of the base at position t, what its output matrix reads there,
 * head k (0 first) guesses token t + 2 + k:
 *   r = h + silu(W h + b), logits = output matrix of the base times r
 * W starts at zero: a head begins as the base's own guess of token t + 1.
 * Threads: one calls; sums have a fixed order, so the bits do not depend on how many compute. */
#ifndef TRAIN_DRAFT_HEADS_H
#define TRAIN_DRAFT_HEADS_H

#include "train/train_model.h"
#include "train/train_pass.h"

enum {
    DRAFT_HEADS_MAX = 8
};

struct draft_heads {
    int n_head, n_embd;
    size_t n_weight; /* floats in w */
    float *w;
};

/* Heads for models of n_embd, as they start. NO_MEMORY; BAD_INPUT: not 1 to DRAFT_HEADS_MAX. */
enum mr_status draft_heads_create(struct draft_heads *out, int n_head, int n_embd, struct mr_error *err);
void draft_heads_release(struct draft_heads *h);                              /* also of a zeroed struct */
struct param_place draft_heads_weight(const struct draft_heads *h, int head); /* [n_embd][n_embd] */
struct param_place draft_heads_bias(const struct draft_heads *h, int head);   /* [n_embd] */

struct head_pass; /* opaque: one forward and backward pass of all heads */

/* For up to n_row rows; heads and base are borrowed. NO_MEMORY. */
enum mr_status head_pass_create(struct head_pass **out, const struct draft_heads *heads, const struct train_model *base,
                                int n_row, struct thread_pool *pool, unsigned cpu_features, struct mr_error *err);
void head_pass_free(struct head_pass *p); /* takes NULL */

/* As the callback of train_loss, for each head. */
struct head_loss {
    double (*logits)(void *context, struct compute *c, int head, float *logits, int first_row, int n_row, bool backward);
    void *context;
};

/* The loss over all heads for feature[n_row][n_embd]; gradients are added to grad[n_weight], NULL: forward alone. */
double head_pass_run(struct head_pass *p, const float *feature, int n_row, const struct head_loss *loss, float *grad);

/* Operations that a token costs, forward and backward: as train_flops_per_token, but the output matrix has no gradient. */
double head_flops_per_token(const struct draft_heads *h, const struct train_model *base);

#endif
