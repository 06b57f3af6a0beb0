/* bench_report.h: the figures of a benchmark as JSON and as tables. docs/benchmarking.md says how to read them. */
#ifndef MEASURE_BENCH_REPORT_H
#define MEASURE_BENCH_REPORT_H

#include <jansson.h>

#include "base/string_buffer.h"
#include "measure/ablation.h"
#include "measure/bench_cases.h"
#include "measure/kernel_bench.h"
#include "measure/pipeline_bench.h"

struct bench_summary {
    const struct limits *limits;
    struct machine_report machine;
    const struct kernel_figure *kernel; /* n_kernel of them */
    int n_kernel;
    const struct pipeline_figure *pipeline; /* n_pipeline of them */
    int n_pipeline;
    const struct ablation_stage *ablation; /* n_ablation of them */
    int n_ablation;
    const struct bench_model *model; /* NULL: there was none, and what follows is empty */
    size_t resident_bytes;           /* after the cases */
    size_t peak_bytes;               /* since before the model was loaded */
    const struct bench_report *report;
};

/* {"limits", "machine", "results", "model"}, and "kernels", "pipelines" and "ablation" where they were measured. NULL: no
 * memory. */
json_t *bench_json(const struct bench_summary *s);

/* Tables with units, in columns. */
void bench_text(const struct bench_summary *s, struct string_buffer *out);

/* What a profile's rows reach of the limits: the larger of the shares of peak and read rate. */
double bench_row_share(const struct op_work *work, const struct limits *l);

/* Indices of the profile's rows, the longest time first; n_row of them. */
void bench_rows_by_time(const struct op_profile *p, int order[OP_ROWS_MAX]);

#endif
