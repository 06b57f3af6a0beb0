/* inverse_factor.h: the upper Cholesky factor of an inverse: U with H^-1 = U^T U, for symmetric positive H. Nothing is inverted
 * but a triangle: with the order of rows and columns reversed H = L L^T, and U is L^-1 reversed again.
 * Every number is one ascending sum: the bits depend neither on threads nor on pieces of work. */
#ifndef COMPRESS_INVERSE_FACTOR_H
#define COMPRESS_INVERSE_FACTOR_H

#include "train/product.h"

/* h[n][n], symmetric, becomes U (only j >= i of U[i][j] means something). `damping` times the mean of the diagonal is added to
 * it, and ten times as much after each failure; all zero is taken for the unit matrix. BAD_FORMAT: h is not finite, or far from
 * positive. */
enum mr_status inverse_factor(struct compute *c, float *h, int n, float damping, struct mr_error *err);

#endif
