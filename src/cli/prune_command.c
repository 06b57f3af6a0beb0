/* prune_command.c: `millrace prune`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/read_input.h"
#include "compress/prune_job.h"

struct prune_arguments {
    const char *file, *parts, *params;
    int importance, precision, type, threads, kv_heads, tokens, windows;
    float ratio, threshold;
    double latency;
    bool global, json;
};

static const char *const types[] = {"f32", "f16", "bf16", NULL};
static const enum quant_type quant_of[] = {QUANT_F32, QUANT_F16, QUANT_BF16};
static const char *const precisions[] = {"auto", "fp32", "bf16", "fp16", "int8", "int4", NULL};
static const enum precision precision_of[] = {PRECISION_AUTO, PRECISION_FP32, PRECISION_BF16,
                                              PRECISION_FP16, PRECISION_INT8, PRECISION_INT4};
static const char *const importances[] = {"taylor", "activation", "weight", "removal", NULL};

#define FIELD(f)  .offset = offsetof(struct prune_arguments, f)
#define INT(l, h) .parse = argument_int, .low = (l), .high = (h)

/* "0.7x" or "0.7". */
static enum mr_status argument_times(void *field, const char *given, const struct argument *a, struct mr_error *err)
{
    char *end;
    const double v = strtod(given, &end);
    (void)a;
    if (end == given || (*end != '\0' && strcmp(end, "x") != 0) || !(v >= 0.01 && v <= 0.99))
        return mr_fail(err, MR_BAD_INPUT, "'%s' is not from 0.01x to 0.99x", given);
    *(double *)field = v;
    return MR_OK;
}

static const struct argument target_rows[] = {
    {.name = "ratio",
     .value = "R",
     .help = "Share of all weights that goes, such as 0.2",
     .parse = argument_float,
     .low = 0.0001,
     .high = 0.9999,
     FIELD(ratio)},
    {.name = "params", .value = "N", .help = "Or the weights that stay at most: 100M", .parse = argument_string, FIELD(params)},
    {.name = "threshold",
     .value = "X",
     .help = "Or keep the heads and channels that matter at least X times as much as the best of their layer",
     .parse = argument_float,
     .low = 0.0001,
     .high = 1,
     FIELD(threshold)},
    {.name = "latency",
     .value = "0.7x",
     .help = "Or what makes a token of an answer take so many times as long, measured on this machine",
     .parse = argument_times,
     FIELD(latency)},
    {.name = "precision",
     .value = "P",
     .help = "Precision with which that is measured: auto, fp32, bf16, fp16, int8 or int4 (default: auto)",
     .parse = argument_choice,
     .choice = precisions,
     FIELD(precision)},
    {.name = "parts",
     .value = "LIST",
     .help = "What is pruned, of heads,channels,width,layers, or experts alone (default: channels)",
     .parse = argument_string,
     FIELD(parts)},
    {.name = "global",
     .help = "How much each part loses goes by importance, compared across layers and parts, not by like shares",
     .parse = argument_flag,
     FIELD(global)},
    {.name = "kv-heads",
     .value = "N",
     .help = "Merge key/value heads to N first, each the mean of its neighbours",
     INT(1, 1 << 16),
     FIELD(kv_heads)},
    {0}};

static const struct argument importance_rows[] = {
    {.name = "importance",
     .value = "HOW",
     .help = "taylor (by gradients), activation, weight, or removal: take away and measure (default: taylor, of experts "
             "activation)",
     .parse = argument_choice,
     .choice = importances,
     FIELD(importance)},
    {.name = "file",
     .letter = 'f',
     .value = "FILE",
     .help = "The text, for all but weight; - reads standard input",
     .parse = argument_string,
     FIELD(file)},
    {.name = "tokens", .value = "N", .help = "Tokens of a window of it (default: 256)", INT(2, 1 << 20), FIELD(tokens)},
    {.name = "windows",
     .value = "N",
     .help = "Windows that are read at most; 0: all (default: 128, for removal 4)",
     INT(0, 1 << 30),
     FIELD(windows)},
    {.name = "type",
     .value = "TYPE",
     .help = "Weights of the output: f32, f16 or bf16 (default: f16)",
     .parse = argument_choice,
     .choice = types,
     FIELD(type)},
    {.name = "threads",
     .letter = 't',
     .value = "N",
     .help = "Threads that compute (default: one for each CPU)",
     INT(1, 1024),
     FIELD(threads)},
    {.name = "json", .help = "Print what became of the shape as JSON", .parse = argument_flag, FIELD(json)},
    {0}};

/* Bits of enum prune_part; 0: a word that is none. */
static unsigned read_parts(const char *list)
{
    static const char *const words[] = {"heads", "channels", "width", "layers", "experts"};
    unsigned parts = 0;
    for (const char *at = list;;) {
        const size_t n = strcspn(at, ",");
        unsigned bit = 0;
        for (unsigned i = 0; i < 5; i++)
            if (strlen(words[i]) == n && strncmp(words[i], at, n) == 0)
                bit = 1u << i;
        if (bit == 0)
            return 0;
        parts |= bit;
        if (at[n] == '\0')
            return parts;
        at += n + 1;
    }
}

/* 100M, 1.5B, 90000000; 0: no such number. */
static int64_t read_count(const char *text)
{
    char *end;
    double n = strtod(text, &end);
    n *= *end == 'K' ? 1e3 : *end == 'M' ? 1e6 : *end == 'B' ? 1e9 : 1;
    end += *end == 'K' || *end == 'M' || *end == 'B';
    return *end == '\0' && n >= 1 && n < 1e15 ? (int64_t)n : 0;
}

static bool go_on(void *context, const char *what, int64_t done, int64_t total)
{
    return total > 0 ? progress_bar_show(context, what, done, total) : !interrupt_seen();
}

static json_t *shape_json(const struct prune_shape *s, size_t n_weight)
{
    return json_pack("{s:I, s:i, s:i, s:i, s:i, s:o*}", "weights", (json_int_t)n_weight, "layers", s->n_layer, "kv_heads",
                     s->n_group, "channels", s->n_ff, "width", s->n_embd, "experts",
                     s->n_expert > 0 ? json_integer(s->n_expert) : NULL);
}

static int show(const struct prune_result *r, bool json, const char *command)
{
    if (json)
        return output_json(command,
                           json_pack("{s:o, s:o, s:o*}", "before", shape_json(&r->before, r->n_weight_before), "after",
                                     shape_json(&r->after, r->n_weight_after), "latency",
                                     r->latency > 0 ? json_real(r->latency) : NULL),
                           JSON_INDENT(1));
    if (r->latency > 0)
        fprintf(stderr, "a token of an answer takes %.2f times as long\n", r->latency);
    if (r->before.n_expert > 0)
        fprintf(stderr, "experts of a layer: %d became %d\n", r->before.n_expert, r->after.n_expert);
    fprintf(stderr,
            "%zu weights became %zu (%.1f %% less): layers %d to %d, key/value heads %d to %d, channels %d to %d, width %d to "
            "%d\n",
            r->n_weight_before, r->n_weight_after, 100 * (1 - (double)r->n_weight_after / (double)r->n_weight_before),
            r->before.n_layer, r->after.n_layer, r->before.n_group, r->after.n_group, r->before.n_ff, r->after.n_ff,
            r->before.n_embd, r->after.n_embd);
    return EXIT_SUCCESS;
}

static int run(struct prune_job *job, const struct prune_arguments *a, const char *command)
{
    struct string_buffer text;
    struct prune_result result;
    struct mr_error err = {{0}};
    enum mr_status status = MR_OK;
    struct progress_bar bar;
    string_buffer_init(&text);
    if (a->file != NULL)
        status = read_input(&text, a->file, &err);
    job->text = text.s != NULL ? text.s : "";
    job->n_text = text.n;
    progress_bar_begin(&bar);
    job->context = &bar;
    if (status == MR_OK)
        status = prune_job_run(&result, job, &err);
    progress_bar_end(&bar);
    string_buffer_release(&text);
    return status == MR_OK ? show(&result, a->json, command) : output_fail_status(command, status, &err);
}

/* Options that do not fit each other. */
static int check(const struct prune_arguments *a, const struct prune_job *job, const char *command)
{
    const int n_target = (a->ratio > 0) + (a->params != NULL) + (a->threshold > 0) + (a->latency > 0);
    if (n_target > 1)
        return arguments_fail(command, "--ratio, --params, --threshold and --latency exclude each other");
    if (n_target == 0 && a->kv_heads == 0)
        return arguments_fail(command, "a target is required: --ratio, --params, --threshold, --latency or --kv-heads");
    if (a->params != NULL && job->n_weight == 0)
        return arguments_fail(command, "--params: '%s' is no number of weights such as 100M", a->params);
    if (job->parts == 0)
        return arguments_fail(command, "--parts: '%s' is no list of heads, channels, width, layers, nor experts", a->parts);
    if ((job->parts & PRUNE_EXPERTS) != 0 && (job->parts != PRUNE_EXPERTS || a->kv_heads > 0 || a->latency > 0))
        return arguments_fail(command, "--parts: experts are pruned alone, without --kv-heads and --latency");
    if (a->global && (job->parts == PRUNE_EXPERTS || !(a->ratio > 0 || a->params != NULL)))
        return arguments_fail(command, "--global: --ratio or --params says how much goes, of parts other than experts");
    if (a->global && job->importance != IMPORTANCE_TAYLOR && job->importance != IMPORTANCE_REMOVAL)
        return arguments_fail(command, "--global: only taylor and removal measure all parts alike, by the loss");
    if (a->threshold > 0 && (job->parts & (unsigned)(PRUNE_WIDTH | PRUNE_LAYERS)) != 0)
        return arguments_fail(command, "--threshold: only heads and channels are compared within their layer");
    if (n_target > 0 && job->importance != IMPORTANCE_WEIGHT && a->file == NULL)
        return arguments_fail(command, "-f, --file: a text is required, or --importance weight");
    return ARGUMENTS_GO_ON;
}

int command_prune(int argc, char **argv)
{
    const char *operand[2] = {NULL, NULL};
    struct prune_arguments a = {.parts = "channels", .importance = -1, .type = 1, .tokens = 256, .windows = -1};
    const struct argument_group groups[] = {{"Target:", target_rows, &a}, {"Importance:", importance_rows, &a}};
    const struct command_line line = {
        .operands = "IN OUT",
        .summary =
            "Make a model smaller by leaving out what matters least: heads, channels, dimensions of the width, layers. The "
            "result is an ordinary file; `millrace distill` teaches it again what it lost.",
        .example = "  millrace prune models/SmolLM2-135M-Instruct.Q4_1.gguf pruned.gguf --ratio 0.2 -f text.txt\n"
                   "  millrace prune model.gguf small.gguf --params 100M --parts channels,width --importance weight\n"
                   "  millrace prune model.gguf fast.gguf --latency 0.7x --precision int4 --parts heads,channels -f text.txt",
        .operand = operand,
        .min_operands = 2,
        .max_operands = 2,
        .group = groups,
        .n_groups = 2};
    int status = arguments_parse(argc, argv, &line);
    if (status != ARGUMENTS_GO_ON)
        return status;
    struct prune_job job = {.in = operand[0],
                            .out = operand[1],
                            .parts = read_parts(a.parts),
                            .ratio = (double)a.ratio,
                            .n_weight = a.params != NULL ? read_count(a.params) : 0,
                            .threshold = a.threshold,
                            .latency = a.latency,
                            .precision = precision_of[a.precision],
                            .is_global = a.global,
                            .n_head_kv = a.kv_heads,
                            .n_tok = a.tokens,
                            .n_window = a.windows >= 0                       ? a.windows
                                        : a.importance == IMPORTANCE_REMOVAL ? 4
                                                                             : 128,
                            .type = quant_of[a.type],
                            .threads = a.threads,
                            .cpu = getenv("MILLRACE_CPU"),
                            .go_on = go_on};
    job.importance = a.importance >= 0            ? (enum importance)a.importance
                     : job.parts == PRUNE_EXPERTS ? IMPORTANCE_ACTIVATION
                                                  : IMPORTANCE_TAYLOR;
    status = check(&a, &job, argv[0]);
    if (status != ARGUMENTS_GO_ON)
        return status;
    interrupt_install();
    return run(&job, &a, argv[0]);
}
