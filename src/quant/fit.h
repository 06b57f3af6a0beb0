/* fit.h: encoders that search: of the blocks of a type those that leave the least sum of weight * error^2, as far as a search
 * over scales finds them. */
#ifndef QUANT_FIT_H
#define QUANT_FIT_H

#include "quant/quant.h"

/* n weights, a multiple of the block, of which the i-th counts weight[i], 0 or more. */
typedef void quant_fit_fn(void *out, const float *in, const float *weight, size_t n);

/* NULL: the type has no scales, or so fine levels that there is nothing to search; its encode does. */
quant_fit_fn *quant_fit_of(enum quant_type type);

#endif
