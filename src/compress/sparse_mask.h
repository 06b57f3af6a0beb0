/* sparse_mask.h: which weights of a row go, row by row, so that rows are independent of each other.
 * magnitude  the smallest
 * wanda      the smallest by |w| times the norm of the activations that meet the column (Sun et al. 2024, arXiv:2306.11695),
 *            compared within the row
 * sparsegpt  those whose going costs least by the inverse Hessian, chosen 128 columns at a time; what each one's going changes
 *            in the product is made good by the columns to its right (Frantar & Alistarh 2023, arXiv:2301.00774). Without a
 *            pattern the columns compared are those of 128, of one row. */
#ifndef COMPRESS_SPARSE_MASK_H
#define COMPRESS_SPARSE_MASK_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum sparse_method {
    SPARSE_MAGNITUDE,
    SPARSE_WANDA,
    SPARSE_SPARSEGPT
};

enum {
    SPARSE_COLUMNS = 128 /* that SparseGPT looks at together */
};

struct sparse_mask {
    enum sparse_method method;
    int kept, of;        /* of every `of` weights `kept` stay; of 0: no pattern */
    double ratio;        /* without a pattern: the share that goes */
    const float *mean;   /* [n] mean squares of the activations, for wanda */
    const float *factor; /* [n][n] for sparsegpt: the upper Cholesky factor of the inverse Hessian, by rows */
    float *scratch;      /* of this thread, sparse_mask_scratch(n) floats */
};

size_t sparse_mask_scratch(size_t n);

/* Zero what goes of x[n], and with sparsegpt mend the rest. n is a multiple of `of`. */
void sparse_mask_row(const struct sparse_mask *m, float *x, size_t n);

#endif
