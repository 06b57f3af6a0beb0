/* pipeline_bench.h: input, LayerNorm, GELU, Linear: with the first two as one kernel in front of the product, and step by
 * step with what lies between in memory of its own. */
#ifndef MEASURE_PIPELINE_BENCH_H
#define MEASURE_PIPELINE_BENCH_H

#include "kernels/kernels.h"
#include "measure/limits.h"

struct pipeline_figure {
    const char *kernel; /* of the product: "q8_0_q8_avx2" */
    int n_row;
    int n;                             /* inputs, and outputs */
    double fused_s, unfused_s;         /* of all rows by all threads: the best of rounds in turn */
    size_t fused_bytes, unfused_bytes; /* input, output and all between them, at their peak */
};

enum {
    PIPELINE_FIGURES_MAX = 4
};

/* Those whose name "layer_norm_gelu KERNEL" contains `filter`. */
enum mr_status pipeline_bench(struct pipeline_figure figure[PIPELINE_FIGURES_MAX], int *n_figure, const struct kernels *k,
                              const char *filter, int n_threads, const atomic_bool *stop, struct mr_error *err);

#endif
