/* bench_speculation.c: `millrace bench --speculation`: what each method of guessing brings by task. */
#include "cli/bench_speculation.h"

#include <stdlib.h>
#include <string.h>

#include "cli/bench_list.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/model_arguments.h"
#include "cli/output.h"
#include "measure/speculation_bench.h"

enum {
    COMPUTE_ROWS_MAX = 64
};

struct speculation_arguments {
    struct speculation_options o;
    bool is_meant, json;
};

#define FIELD(name) offsetof(struct speculation_arguments, name)
static const struct argument rows[] = {
    {.name = "speculation", .help = "This benchmark", .parse = argument_flag, .offset = FIELD(is_meant)},
    {.name = "batch",
     .value = "1,4,16",
     .help = "Answers at a time, cases for each number (default: 1)",
     .parse = argument_list_of_int,
     .offset = FIELD(o.streams),
     .low = 1,
     .high = SPECULATION_STREAMS_MAX},
    {.name = "gen",
     .value = "N",
     .help = "Tokens of each answer at most (default: 200 to 1000, by task)",
     .parse = argument_int,
     .offset = FIELD(o.gen),
     .low = 2,
     .high = 2048},
    {.name = "repeat",
     .value = "R",
     .help = "Rounds without and with guesses, in turn (default: 3)",
     .parse = argument_int,
     .offset = FIELD(o.repeat),
     .low = 1,
     .high = SPECULATION_ROUNDS_MAX},
    {.name = "json", .help = "Print JSON", .parse = argument_flag, .offset = FIELD(json)},
    {0}};

bool bench_speculation_is_meant(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--speculation") == 0)
            return i + 1 == argc || argv[i + 1][0] == '-';
    return false;
}

static enum mr_status run(struct speculation_figures *figures, const struct model_arguments *m,
                          const struct speculation_arguments *a, struct mr_error *err)
{
    struct mr_options options;
    struct mr_model *model;
    struct chat_prompt *chat = NULL;
    load_options(&options, m);
    MR_TRY(load_model(&model, m, &options, err));
    enum mr_status status = load_chat_prompt(&chat, model, m, err);
    if (status == MR_OK)
        status = speculation_bench_run(figures, model, chat, &options, &a->o, err);
    chat_prompt_free(chat);
    mr_model_close(model);
    return status;
}

static int print(const struct speculation_figures *f, const struct speculation_arguments *a, const char *command)
{
    struct string_buffer text;
    if (a->json)
        return output_json(command, speculation_figures_json(f, &a->o), JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    string_buffer_init(&text);
    speculation_figures_text(f, &text);
    const int status = output_text(command, &text);
    string_buffer_release(&text);
    return status;
}

/* Those of every command that runs a model, but for the method. */
static void compute_rows(struct argument out[COMPUTE_ROWS_MAX])
{
    int n = 0;
    for (const struct argument *a = compute_argument; a->name != NULL && n < COMPUTE_ROWS_MAX - 1; a++)
        if (strcmp(a->name, "speculation") != 0)
            out[n++] = *a;
    out[n] = (struct argument){0};
}

int bench_speculation(int argc, char **argv)
{
    static struct speculation_figures figures;
    struct speculation_arguments a = {.o = {.streams = {{1}, 1}, .repeat = 3, .stopped = interrupt_seen}};
    struct model_arguments m = {0};
    struct argument compute[COMPUTE_ROWS_MAX];
    compute_rows(compute);
    const struct argument_group groups[] = {
        {"Model:", model_argument, &m}, {NULL, compute, &m}, {NULL, template_argument, &m}, {"Speculation:", rows, &a}};
    const struct command_line line = {
        .summary = "Measure what each method of guessing brings: quotes, edited code, JSON, an answer that is foretold, a "
                   "chat, a long answer; each beside a plain round that must give the same tokens.",
        .example = "  millrace bench --speculation -m models/SmolLM2-135M-Instruct.Q4_1.gguf --batch 1,4,16 --json",
        .group = groups,
        .n_groups = sizeof groups / sizeof *groups};
    int status = arguments_parse(argc, argv, &line);
    if (status == ARGUMENTS_GO_ON)
        status = model_arguments_check(&m, argv[0]);
    if (status != ARGUMENTS_GO_ON)
        return status;
    a.o.has_draft_model = m.draft_model != NULL;
    struct mr_error err = {{0}};
    const enum mr_status failed = run(&figures, &m, &a, &err);
    if (failed != MR_OK)
        return output_fail_status(argv[0], failed, &err);
    return print(&figures, &a, argv[0]);
}
