/* weighted_sub.h: fits of one sub-block, nothing rounded (weighted_fit.h). */
#ifndef QUANT_WEIGHTED_SUB_H
#define QUANT_WEIGHTED_SUB_H

#include <stdbool.h>

#include "quant/weighted_sums.h"

/* x ~ scale * q, q from -half to half - 1. */
float weighted_sub_symmetric(const float *x, const float *w, int n, int half);

/* x ~ scale * q - min, q from 0 to max_q; min is 0 or more unless any_min. */
void weighted_sub_affine(const float *x, const float *w, int n, int max_q, bool any_min, float *scale, float *min);

#endif
