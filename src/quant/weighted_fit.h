/* weighted_fit.h: scales that leave the least weighted squared error. The weight of a column says how much an error there
 * changes what the product gives: the mean square of the activation that meets it is the diagonal of the Hessian of the
 * product's squared error (LeCun et al. 1990, "Optimal brain damage"; Frantar & Alistarh 2022, arXiv:2208.11580).
 * Given the levels the best scale is that of least squares, and given the scale the best levels are the nearest: the two are
 * taken in turn (Lloyd 1982), from several starting scales, because either step only finds what is near.
 * n is a multiple of 8; weights are 0 or more. */
#ifndef QUANT_WEIGHTED_FIT_H
#define QUANT_WEIGHTED_FIT_H

#include "quant/k_fit.h"

/* x ~ scale * q with levels -half .. half - 1. The scale is rounded to binary16. */
float weighted_scale_16(const float *x, const float *weight, int n, int half);

/* x ~ scale * q + min with levels 0 .. max_q; both rounded to binary16. */
void weighted_affine_16(const float *x, const float *weight, int n, int max_q, float *scale, float *min);

/* As k_affine_fit and k_symmetric_fit (k_fit.h). */
void weighted_k_affine(struct k_affine *out, const float x[QK_K], const float weight[QK_K], int n_sub, int max_q,
                       int max_scale);
void weighted_k_symmetric(struct k_symmetric *out, const float x[QK_K], const float weight[QK_K], int half_q, int half_scale);

#endif
