/* metrics_histogram.c: buckets. One set of bounds for all times: an inter-token time of a millisecond and a request of minutes
 * are both told within a third of their size. */
#include <stddef.h>

#include "server/metrics_state.h"

static const double second_bounds[] = {0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04,
                                       0.05,  0.075, 0.1,   0.15,  0.2,    0.3,  0.5,   0.75, 1,    1.5,
                                       2,     3,     5,     7.5,   10,     20,   30,    60,   120,  300};
static const double token_bounds[] = {1,   2,    4,    8,    16,   32,    64,    128,   256,
                                      512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};
static const double row_bounds[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024, 2048};

_Static_assert(sizeof second_bounds <= HISTOGRAM_BOUNDS_MAX * sizeof *second_bounds, "bounds");

const double *histogram_bounds(enum histogram_id id, int *n)
{
    if (id < HISTOGRAM_N_SECONDS) {
        *n = sizeof second_bounds / sizeof *second_bounds;
        return second_bounds;
    }
    if (id == HISTOGRAM_STEP_ROWS) {
        *n = sizeof row_bounds / sizeof *row_bounds;
        return row_bounds;
    }
    *n = sizeof token_bounds / sizeof *token_bounds;
    return token_bounds;
}

void histogram_observe(struct histogram *h, enum histogram_id id, double value)
{
    int n, i = 0;
    const double *bound = histogram_bounds(id, &n);
    const double counted = value > 0 ? value : 0; /* a clock that another thread read a moment earlier */
    while (i < n && counted > bound[i])
        i++;
    h->n[i]++;
    h->sum += counted;
}
