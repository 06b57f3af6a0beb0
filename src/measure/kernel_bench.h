/* kernel_bench.h: each matrix product alone, against the limits of the machine. */
#ifndef MEASURE_KERNEL_BENCH_H
#define MEASURE_KERNEL_BENCH_H

#include "kernels/kernels.h"
#include "measure/limits.h"

struct kernel_figure {
    const char *kernel; /* "q4_0_q8_avx2" */
    int n_in, n_out, n_row;
    double seconds; /* of one product by all threads: the best round, as the limits are */
    double gops;
    double gb_s; /* packed weights read */
    double mfu;  /* gops over the peak of the activations' type */
    double mbu;  /* gb_s over the read rate */
};

/* Time every product of the table whose name contains `filter`, for typical shapes, with one row, 8 and 128. The weights of
 * products with few rows are spread over more memory than the caches hold, as a model's are. Panels are shared out to n_threads
 * as they stand. */
typedef void kernel_figure_fn(void *context, const struct kernel_figure *figure);
enum mr_status kernel_bench(const struct kernels *k, const char *filter, const struct limits *limits, kernel_figure_fn *each,
                            void *context, const atomic_bool *stop, struct mr_error *err);

/* The peak that a product with these activations is measured against. */
enum peak_type kernel_peak_type(enum activation activation, enum quant_type type);

#endif
