/* spread.c: median and range. */
#include "measure/spread.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct spread spread_of(double *sample, int n)
{
    qsort(sample, (size_t)n, sizeof *sample, compare);
    return (struct spread){(sample[(n - 1) / 2] + sample[n / 2]) / 2, sample[0], sample[n - 1]};
}
