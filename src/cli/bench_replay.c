/* bench_replay.c: `millrace bench --replay FILE`: what guesses bring on a text. */
#include "cli/bench_replay.h"

#include <stdlib.h>

#include "cli/bench_list.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/model_arguments.h"
#include "cli/output.h"
#include "cli/read_input.h"
#include "measure/replay_bench.h"

struct replay_arguments {
    struct replay_options o;
    const char *file;
    bool json;
};

#define FIELD(name) offsetof(struct replay_arguments, name)
static const struct argument rows[] = {
    {.name = "replay", .value = "FILE", .help = "The text", .parse = argument_string, .offset = FIELD(file)},
    {.name = "acceptance",
     .value = "0,50,70,100",
     .help = "Not a method of --speculation, but who knows the text guesses, and is right in so many of 100 tokens; a case for "
             "each number",
     .parse = argument_list_of_int,
     .offset = FIELD(o.acceptance),
     .high = 100},
    {.name = "batch",
     .value = "1,8,32",
     .help = "Answers at a time, a case for each number (default: 1)",
     .parse = argument_list_of_int,
     .offset = FIELD(o.streams),
     .low = 1,
     .high = REPLAY_STREAMS_MAX},
    {.name = "prompt",
     .value = "N",
     .help = "Tokens of the text in front of each answer (default: 64)",
     .parse = argument_int,
     .offset = FIELD(o.prompt),
     .low = 1,
     .high = 1 << 20},
    {.name = "gen",
     .value = "N",
     .help = "Tokens of each answer (default: 128)",
     .parse = argument_int,
     .offset = FIELD(o.gen),
     .low = 2,
     .high = 1 << 20},
    {.name = "repeat",
     .value = "R",
     .help = "Rounds without and with guesses, in turn (default: 5)",
     .parse = argument_int,
     .offset = FIELD(o.repeat),
     .low = 1,
     .high = REPLAY_ROUNDS_MAX},
    {.name = "json", .help = "Print JSON", .parse = argument_flag, .offset = FIELD(json)},
    {0}};

static enum mr_status run_on(struct replay_figures *figures, struct mr_model *model, const struct mr_options *options,
                             const struct replay_arguments *a, struct mr_error *err)
{
    struct string_buffer text;
    int32_t *ids = NULL, n = 0;
    string_buffer_init(&text);
    enum mr_status status = read_file(&text, a->file, err);
    if (status == MR_OK)
        status = mr_tokenize(model, text.s != NULL ? text.s : "", text.n, false, &ids, &n, err);
    if (status == MR_OK)
        status = replay_bench_run(figures, model, options, &a->o, ids, n, err);
    mr_tokens_free(ids);
    string_buffer_release(&text);
    return status;
}

static enum mr_status run(struct replay_figures *figures, const struct model_arguments *m, const struct replay_arguments *a,
                          struct mr_error *err)
{
    struct mr_options options;
    struct mr_model *model;
    load_options(&options, m);
    options.speculation = MR_SPECULATION_AUTO; /* each request says its own */
    MR_TRY(load_model(&model, m, &options, err));
    const enum mr_status status = run_on(figures, model, &options, a, err);
    mr_model_close(model);
    return status;
}

static int print(const struct replay_figures *f, const struct replay_arguments *a, const char *method, const char *command)
{
    struct string_buffer text;
    if (a->json)
        return output_json(command, replay_figures_json(f, &a->o, method), JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    string_buffer_init(&text);
    replay_figures_text(f, method, &text);
    const int status = output_text(command, &text);
    string_buffer_release(&text);
    return status;
}

int bench_replay(int argc, char **argv)
{
    struct replay_arguments a = {.o = {.streams = {{1}, 1}, .prompt = 64, .gen = 128, .repeat = 5, .stopped = interrupt_seen}};
    struct model_arguments m = {0};
    const struct argument_group groups[] = {
        {"Model:", model_argument, &m}, {NULL, compute_argument, &m}, {"Replay:", rows, &a}};
    const struct command_line line = {
        .summary = "Measure what guesses bring on a text: answers go as the text does, whatever the model says, so that the "
                   "share of right guesses "
                   "belongs to the text.",
        .example =
            "  millrace bench --replay README.md -m models/SmolLM2-135M-Instruct.Q4_1.gguf --speculation ngram --batch 1,8\n"
            "  millrace bench --replay README.md -m models/SmolLM2-135M-Instruct.Q4_1.gguf --acceptance 0,50,70,90,100",
        .group = groups,
        .n_groups = sizeof groups / sizeof *groups};
    int status = arguments_parse(argc, argv, &line);
    if (status == ARGUMENTS_GO_ON)
        status = model_arguments_check(&m, argv[0]);
    if (status != ARGUMENTS_GO_ON)
        return status;
    a.o.method = (enum mr_speculation)m.speculation;
    struct replay_figures figures;
    struct mr_error err = {{0}};
    const enum mr_status failed = run(&figures, &m, &a, &err);
    if (failed != MR_OK)
        return output_fail_status(argv[0], failed, &err);
    return print(&figures, &a, model_speculation_name(m.speculation), argv[0]);
}
