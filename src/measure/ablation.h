/* ablation.h: what each technique brings: the cases of a benchmark on the plain reference, and again as instruction sets,
 * tiles, threads and fused ops join one after the other. */
#ifndef MEASURE_ABLATION_H
#define MEASURE_ABLATION_H

#include "measure/bench_cases.h"

enum {
    ABLATION_STAGES = 5
};

struct ablation_stage {
    const char *name; /* "scalar", "+ SIMD", ... */
    const char *isa;
    int n_threads;
    bool tiling, fusion;
    struct bench_report report;
};

/* Called before each stage. */
typedef void ablation_fn(void *context, const struct ablation_stage *stage);

/* All stages in turn; the model is opened for each, since each packs weights in its own way. options: as for the last stage,
 * with everything on. On failure the first *n_stage stages are whole. Release them in any case. */
enum mr_status ablation_run(struct ablation_stage stage[ABLATION_STAGES], int *n_stage, const char *path,
                            const struct bench_model_options *options, const struct limits *limits,
                            const struct bench_options *o, struct machine_watch *watch, ablation_fn *each, void *context,
                            struct mr_error *err);
void ablation_release(struct ablation_stage *stage, int n_stage);

#endif
