/* bench.c: `millrace bench`: the speed of a model as a share of what the machine can do. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/cpu_limit.h"
#include "base/memory.h"
#include "base/memory_free.h"
#include "cli/adapter_list.h"
#include "cli/arguments.h"
#include "cli/bench_constraints.h"
#include "cli/bench_list.h"
#include "cli/bench_replay.h"
#include "cli/bench_speculation.h"
#include "cli/bench_engine.h"
#include "cli/command.h"
#include "cli/model_arguments.h"
#include "measure/bench_report.h"

enum {
    EXIT_INTERRUPTED = 130, /* as a shell says of a program that Ctrl-C ended */
    BATCH_MAX = 512,
    TOKENS_MAX = 1 << 20
};

struct options {
    struct model_arguments model;
    struct bench_options bench;
    bool json, kernels, engine, constraints, ablate;
    const char *replay; /* shown here alone */
    const char *kernel; /* part of the names of products to time alone; NULL: all */
};

#define FIELD(name) offsetof(struct options, name)
static const struct argument rows[] = {
    {.name = "prompt",
     .value = "N",
     .help = "Tokens of the prompt case; 0: none (default: 512)",
     .parse = argument_int,
     .offset = FIELD(bench.prompt),
     .high = TOKENS_MAX},
    {.name = "gen",
     .value = "N",
     .help = "Tokens that each sequence generates; 0: no such cases (default: 64)",
     .parse = argument_int,
     .offset = FIELD(bench.gen),
     .high = TOKENS_MAX},
    {.name = "batch",
     .value = "1,8,32",
     .help = "Sequences that generate at a time, a case for each number (default: 1)",
     .parse = argument_list_of_int,
     .offset = FIELD(bench.batch),
     .low = 1,
     .high = BATCH_MAX},
    {.name = "depth",
     .value = "0,4096",
     .help = "Tokens in the cache before the first generated one, a case for each number; 0 means a single one (default: 0)",
     .parse = argument_list_of_int,
     .offset = FIELD(bench.depth),
     .high = TOKENS_MAX},
    {.name = "repeat",
     .value = "R",
     .help = "Repetitions of each case; the median and the range are shown (default: 5)",
     .parse = argument_int,
     .offset = FIELD(bench.repeat),
     .low = 1,
     .high = BENCH_REPEAT_MAX},
    {.name = "profile",
     .help = "Show time, operations and bytes of each op and layer, from one more repetition",
     .parse = argument_flag,
     .offset = FIELD(bench.profile)},
    {.name = "kernels",
     .help = "Time each matrix product alone, and LayerNorm and GELU in front of one; needs no model",
     .parse = argument_flag,
     .offset = FIELD(kernels)},
    {.name = "kernel",
     .value = "TEXT",
     .help = "As --kernels, for those whose name contains TEXT: q4_k",
     .parse = argument_string,
     .offset = FIELD(kernel)},
    {.name = "ablate",
     .help = "Run the cases on the scalar reference, and again as SIMD, tiles, threads and fused ops join, to show what each "
             "brings",
     .parse = argument_flag,
     .offset = FIELD(ablate)},
    {.name = "replay",
     .value = "FILE",
     .help = "Measure what guesses bring on a text instead; --replay FILE --help shows its options, and --speculation --help "
             "those of what they bring by task",
     .parse = argument_string,
     .offset = FIELD(replay)},
    {.name = "engine",
     .help = "Run a load of many requests instead; --engine --help shows its options",
     .parse = argument_flag,
     .offset = FIELD(engine)},
    {.name = "constraints",
     .help = "Measure constraints instead: compiling, masks, the rate of an answer; --constraints --help shows its options",
     .parse = argument_flag,
     .offset = FIELD(constraints)},
    {.name = "json", .help = "Print JSON", .parse = argument_flag, .offset = FIELD(json)},
    {0}};

static atomic_bool interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    atomic_store(&interrupted, true);
}

/* Where the run stands, on a terminal alone. */
static void show(const char *what)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s", what);
}

static void show_case(void *context, const struct bench_result *r, bool is_done)
{
    char line[128];
    (void)context;
    if (is_done)
        return;
    snprintf(line, sizeof line, "%s, batch %d, %d tokens, depth %d ...", bench_test_name(r->test), r->batch, r->n_tokens,
             r->depth);
    show(line);
}

struct kernel_figures {
    struct kernel_figure *figure;
    size_t n, capacity;
    bool failed;
};

static void keep_figure(void *context, const struct kernel_figure *f)
{
    struct kernel_figures *k = context;
    char line[128];
    snprintf(line, sizeof line, "kernel %s, %d inputs, %d outputs, %d rows", f->kernel, f->n_in, f->n_out, f->n_row);
    show(line);
    if (!mem_grow(&k->figure, &k->capacity, k->n + 1, sizeof *k->figure))
        k->failed = true;
    else
        k->figure[k->n++] = *f;
}

/* All that a run holds. */
struct run {
    const struct options *o;
    unsigned features;
    struct limits limits;
    struct peaks peaks;
    struct machine_watch watch;
    struct kernel_figures kernels;
    struct pipeline_figure pipeline[PIPELINE_FIGURES_MAX];
    struct bench_model model;
    struct bench_report report;
    struct ablation_stage ablation[ABLATION_STAGES];
    struct bench_summary summary;
};

static enum mr_status run_kernels(struct run *r, struct mr_error *err)
{
    struct kernels *k = malloc(sizeof *k);
    if (k == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the table of kernels");
    kernels_select(k, r->features);
    const char *filter = r->o->kernel != NULL ? r->o->kernel : "";
    enum mr_status status = kernel_bench(k, filter, &r->limits, keep_figure, &r->kernels, &interrupted, err);
    if (status == MR_OK)
        status = pipeline_bench(r->pipeline, &r->summary.n_pipeline, k, filter, r->limits.n_threads, &interrupted, err);
    r->summary.pipeline = r->pipeline;
    free(k);
    watch_sample(&r->watch);
    r->summary.kernel = r->kernels.figure;
    r->summary.n_kernel = (int)r->kernels.n;
    if (status == MR_OK && r->kernels.n == 0 && r->summary.n_pipeline == 0 && !r->kernels.failed)
        return mr_fail(err, MR_BAD_INPUT, "--kernel: '%.60s' is in no kernel's name", r->o->kernel);
    return r->kernels.failed ? mr_fail(err, MR_NO_MEMORY, "no memory for the figures of kernels") : status;
}

static enum mr_status load_adapters(struct run *r, struct mr_error *err)
{
    char path[ADAPTER_PATH_MAX];
    float scale;
    enum mr_status status = MR_OK;
    for (int i = 0; (status = adapter_list_at(&r->o->model, i, path, &scale, err)) == MR_OK; i++)
        MR_TRY(bench_model_adapter(&r->model, path, scale, err));
    return status == MR_NOT_FOUND ? MR_OK : status;
}

static struct bench_model_options model_options(const struct run *r)
{
    const struct bench_options *o = &r->o->bench;
    const int batch = bench_max_batch(o);
    return (struct bench_model_options){
        .n_threads = r->limits.n_threads,
        .cpu_features = r->features,
        .precision = (enum precision)r->o->model.precision,
        .kv_int8 = r->o->model.kv_type != 0,
        .pin = r->o->model.pin,
        .unfused = r->o->model.fusion != 0,
        .max_row = o->chunk > batch ? o->chunk : batch,
        .max_logits = batch,
        .n_seq = bench_max_sequences(o),
        .max_token = bench_max_tokens(o),
        .n_ctx = r->o->model.ctx_size,
        .stop = &interrupted,
    };
}

static enum mr_status run_model(struct run *r, struct mr_error *err)
{
    const struct bench_options *o = &r->o->bench;
    const struct bench_model_options options = model_options(r);
    memory_peak_reset();
    show("loading the model ...");
    MR_TRY(bench_model_open(&r->model, r->o->model.model, &options, err));
    MR_TRY(load_adapters(r, err));
    r->summary.model = &r->model;
    r->summary.report = &r->report;
    const enum mr_status status = bench_run(&r->report, &r->model, &r->limits, o, &r->watch, show_case, NULL, err);
    r->summary.resident_bytes = memory_resident_bytes();
    r->summary.peak_bytes = memory_peak_bytes();
    return status;
}

static void show_stage(void *context, const struct ablation_stage *stage)
{
    char line[128];
    (void)context;
    snprintf(line, sizeof line, "%s, %d thread%s ...", stage->name, stage->n_threads, stage->n_threads == 1 ? "" : "s");
    show(line);
}

static enum mr_status run_ablation(struct run *r, struct mr_error *err)
{
    const struct bench_model_options options = model_options(r);
    r->summary.ablation = r->ablation;
    return ablation_run(r->ablation, &r->summary.n_ablation, r->o->model.model, &options, &r->limits, &r->o->bench, &r->watch,
                        show_stage, NULL, err);
}

static enum mr_status run_all(struct run *r, struct mr_error *err)
{
    MR_TRY(cpu_features(&r->features, getenv("MILLRACE_CPU"), err));
    const int n_threads = r->o->model.threads > 0 ? r->o->model.threads : cpu_limit();
    show("measuring the limits of the machine ...");
    MR_TRY(limits_measure(&r->limits, n_threads, r->features, &interrupted, err));
    peaks_select(&r->peaks, r->features);
    watch_begin(&r->watch, &r->peaks);
    r->summary.limits = &r->limits;
    if (r->o->kernels)
        MR_TRY(run_kernels(r, err));
    if (r->o->model.model != NULL)
        MR_TRY(r->o->ablate ? run_ablation(r, err) : run_model(r, err));
    r->summary.machine = watch_end(&r->watch);
    return MR_OK;
}

static bool print_report(const struct run *r)
{
    struct string_buffer text;
    string_buffer_init(&text);
    if (r->o->json) {
        json_t *root = bench_json(&r->summary);
        char *dump = root != NULL ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;
        if (dump != NULL)
            string_buffer_printf(&text, "%s\n", dump);
        free(dump);
        json_decref(root);
    } else {
        bench_text(&r->summary, &text);
    }
    const bool ok = !text.failed && text.n > 0 && fwrite(text.s, 1, text.n, stdout) == text.n && fflush(stdout) == 0;
    string_buffer_release(&text);
    return ok;
}

static int finish(const struct run *r, enum mr_status status, const struct mr_error *err, const char *command)
{
    show("");
    if (status == MR_CANCELLED) {
        fprintf(stderr, "%s: interrupted\n", command);
        return EXIT_INTERRUPTED;
    }
    if (status != MR_OK) {
        fprintf(stderr, "%s: %s\n", command, err->message);
        return status == MR_BAD_INPUT ? EXIT_USAGE_ERROR : EXIT_FAILURE;
    }
    if (!print_report(r)) {
        fprintf(stderr, "%s: cannot write the report\n", command);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

static int run(const struct options *o, const char *command)
{
    struct mr_error err = {{0}};
    struct run *r = mem_zero_array(1, sizeof *r);
    if (r == NULL) {
        fprintf(stderr, "%s: out of memory\n", command);
        return EXIT_FAILURE;
    }
    r->o = o;
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND}; /* a second Ctrl-C ends at once */
    sigaction(SIGINT, &action, NULL);
    const enum mr_status status = run_all(r, &err);
    const int result = finish(r, status, &err, command);
    ablation_release(r->ablation, r->summary.n_ablation);
    bench_report_release(&r->report);
    bench_model_release(&r->model);
    free(r->kernels.figure);
    free(r);
    return result;
}

int command_bench(int argc, char **argv)
{
    if (arguments_hold(argc, argv, "--engine"))
        return bench_engine(argc, argv);
    if (arguments_hold(argc, argv, "--constraints"))
        return bench_constraints(argc, argv);
    if (arguments_hold(argc, argv, "--replay"))
        return bench_replay(argc, argv);
    if (bench_speculation_is_meant(argc, argv))
        return bench_speculation(argc, argv);
    struct options o = {.bench = {.prompt = 512, .gen = 64, .batch = {{1}, 1}, .depth = {{0}, 1}, .repeat = 5}};
    const struct argument_group groups[] = {{.rows = model_argument, .into = &o.model},
                                            {.rows = rows, .into = &o},
                                            {.rows = compute_argument, .into = &o.model},
                                            {"Adapters, which sequences take in turn:", adapter_argument, &o.model}};
    const struct command_line line = {
        .summary = "Measure the speed of a model as a share of what this machine can do.",
        .example = "  millrace bench -m models/SmolLM2-135M-Instruct.Q4_1.gguf --batch 1,8 --depth 0,1024",
        .group = groups,
        .n_groups = 4};
    const int status = arguments_parse(argc, argv, &line);
    if (status != ARGUMENTS_GO_ON)
        return status;
    o.kernels |= o.kernel != NULL;
    if (o.ablate && o.model.lora.n + o.model.lora_scaled.n > 0)
        return arguments_fail(argv[0], "--ablate measures the plain model: --lora does not go with it");
    if (o.ablate && o.model.fusion != 0)
        return arguments_fail(argv[0], "--ablate runs without and with fused ops: --fusion off does not go with it");
    if (!o.kernels || o.model.model != NULL) {
        const int checked = model_arguments_check(&o.model, argv[0]);
        if (checked != ARGUMENTS_GO_ON)
            return checked;
    }
    if (o.model.model != NULL && o.bench.prompt == 0 && o.bench.gen == 0)
        return arguments_fail(argv[0], "--prompt 0 and --gen 0 leave nothing to measure");
    o.bench.chunk = o.model.prompt_chunk > 0 ? o.model.prompt_chunk : BENCH_CHUNK;
    o.bench.stop = &interrupted;
    return run(&o, argv[0]);
}
