/* trainee.h: what a run of training moves: the student itself, an adapter on it, or heads for speculation beside it; in the
 * two latter cases the student stands still. */
#ifndef COMPRESS_TRAINEE_H
#define COMPRESS_TRAINEE_H

#include "train/adamw.h"
#include "train/draft_heads.h"
#include "train/eagle.h"
#include "train/train_lora.h"

struct trainee {
    struct train_model *student;
    struct lora *lora; /* only one of these is given, the others are NULL */
    struct draft_heads *heads;
    struct eagle *eagle;
};

float *trainee_weights(const struct trainee *t);
size_t trainee_n_weight(const struct trainee *t);
/* A sum over its shape and the weights that it starts from. */
uint64_t trainee_digest(const struct trainee *t, uint64_t sum);
/* Operations of a token, forward and backward. */
double trainee_flops_per_token(const struct trainee *t, int n_tok);
/* One step of AdamW, as adamw_step. */
void trainee_step(const struct trainee *t, struct compute *c, const struct adamw *a, const float *grad, double norm,
                  float *first, float *second, int64_t step, float rate);

#endif
