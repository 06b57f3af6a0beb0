/* adamw.h: AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101), the gradient's norm clipped, and the schedule of its rate.
 * Threads: one calls; elements are spread over the pool, sums are taken over parts of fixed length in order. */
#ifndef TRAIN_ADAMW_H
#define TRAIN_ADAMW_H

#include "train/product.h"
#include "train/train_model.h"

struct adamw {
    float beta1, beta2, epsilon;
    float decay; /* of matrices; vectors are not decayed */
    float clip;  /* largest norm of a gradient; 0: any */
};

/* 0.9, 0.95, 1e-8, 0.1, 1: what is common for language models (Touvron et al. 2023, arXiv:2302.13971, section 2.3). */
struct adamw adamw_defaults(void);

/* Rate at step (0 first) of n_step: rising over n_warmup, then along half a cosine to floor * rate. */
float adamw_rate(float rate, float floor, int64_t step, int64_t n_warmup, int64_t n_step);

/* Norm of grad[n]. */
double gradient_norm(struct compute *c, const float *grad, size_t n);

/* One step: m's weights, and the moments first[n_weight], second[n_weight]. step counts from 1. norm: that of grad. */
void adamw_step(struct compute *c, const struct adamw *a, struct train_model *m, const float *grad, double norm, float *first,
                float *second, int64_t step, float rate);
/* The same for n places of an array of weights of any kind. */
void adamw_step_places(struct compute *c, const struct adamw *a, float *w, const struct param_place *place, int n,
                       const float *grad, double norm, float *first, float *second, int64_t step, float rate);

#endif
