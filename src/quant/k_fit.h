/* k_fit.h: encoders of the K types: 6-bit (or 4-bit, 8-bit) scales of sub-blocks under binary16 scales of a super-block.
 * Each sub-block is fitted by least squares on the unweighted squared error, from a few starting scales; the scales are
 * then rounded, and the levels chosen again for the rounded ones. */
#ifndef QUANT_K_FIT_H
#define QUANT_K_FIT_H

#include <stdint.h>

#include "quant/blocks.h"

enum {
    K_MAX_SUB = 16 /* sub-blocks in a super-block */
};

/* x ~ (d * scale) * q - (dmin * min) */
struct k_affine {
    uint16_t d, dmin;
    uint8_t scale[K_MAX_SUB], min[K_MAX_SUB];
    uint8_t q[QK_K];
};

/* n_sub: 8 or 16; levels 0..max_q; scales and minima 0..max_scale. */
void k_affine_fit(struct k_affine *out, const float x[QK_K], int n_sub, int max_q, int max_scale);

/* x ~ (d * scale) * q, sixteen sub-blocks */
struct k_symmetric {
    uint16_t d;
    int8_t scale[K_MAX_SUB];
    int8_t q[QK_K];
};

/* levels -half_q..half_q - 1; scales -half_scale..half_scale - 1. */
void k_symmetric_fit(struct k_symmetric *out, const float x[QK_K], int half_q, int half_scale);

#endif
