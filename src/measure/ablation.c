/* ablation.c: runs a benchmark's cases with one technique more each time. */
#include "measure/ablation.h"

#include "ops/cpu_device.h"

/* What is on in a stage beside what is on in those before it. */
static const struct technique {
    const char *name;
    bool simd, tiling, threads, fusion;
} technique[ABLATION_STAGES] = {
    {"scalar", false, false, false, false}, {"+ SIMD", true, false, false, false}, {"+ tiles", true, true, false, false},
    {"+ threads", true, true, true, false}, {"+ fusion", true, true, true, true},
};

static void ignore_case(void *context, const struct bench_result *result, bool is_done)
{
    (void)context;
    (void)result;
    (void)is_done;
}

static enum mr_status run_stage(struct ablation_stage *s, const struct technique *t, const char *path,
                                const struct bench_model_options *options, const struct limits *limits,
                                const struct bench_options *o, struct machine_watch *watch, struct mr_error *err)
{
    struct bench_model model;
    struct bench_model_options mine = *options;
    mine.n_threads = s->n_threads;
    mine.cpu_features = t->simd ? options->cpu_features : 0;
    mine.untiled = !t->tiling;
    mine.unfused = !t->fusion;
    enum mr_status status = bench_model_open(&model, path, &mine, err);
    if (status == MR_OK) {
        s->isa = cpu_device_isa(model.device);
        status = bench_run(&s->report, &model, limits, o, watch, ignore_case, NULL, err);
    }
    bench_model_release(&model);
    return status;
}

enum mr_status ablation_run(struct ablation_stage stage[ABLATION_STAGES], int *n_stage, const char *path,
                            const struct bench_model_options *options, const struct limits *limits,
                            const struct bench_options *o, struct machine_watch *watch, ablation_fn *each, void *context,
                            struct mr_error *err)
{
    for (*n_stage = 0; *n_stage < ABLATION_STAGES;) {
        const struct technique *t = &technique[*n_stage];
        struct ablation_stage *s = &stage[*n_stage];
        *s = (struct ablation_stage){
            .name = t->name, .n_threads = t->threads ? options->n_threads : 1, .tiling = t->tiling, .fusion = t->fusion};
        each(context, s);
        const enum mr_status status = run_stage(s, t, path, options, limits, o, watch, err);
        if (status != MR_OK) {
            bench_report_release(&s->report);
            return status;
        }
        (*n_stage)++;
    }
    return MR_OK;
}

void ablation_release(struct ablation_stage *stage, int n_stage)
{
    for (int i = 0; i < n_stage; i++)
        bench_report_release(&stage[i].report);
}
