/* bench_constraints.c: `millrace bench --constraints`: what constraints cost. */
#include "cli/bench_constraints.h"

#include <stdlib.h>

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/output.h"
#include "measure/constraint_bench.h"

struct constraint_bench_arguments {
    bool constraints, json;
    int repeat;
};

#define FIELD(name) offsetof(struct constraint_bench_arguments, name)
static const struct argument rows[] = {
    {.name = "constraints", .help = "Measure constraints", .parse = argument_flag, .offset = FIELD(constraints)},
    {.name = "repeat",
     .value = "R",
     .help = "Rounds of answers (default: 5)",
     .parse = argument_int,
     .offset = FIELD(repeat),
     .low = 1,
     .high = CONSTRAINT_ROUNDS_MAX},
    {.name = "json", .help = "Print JSON", .parse = argument_flag, .offset = FIELD(json)},
    {0}};

static enum mr_status run(const struct model_arguments *m, int n_round, struct constraint_figures *figures,
                          struct mr_error *err)
{
    struct mr_options options;
    struct mr_model *model;
    load_options(&options, m);
    enum mr_status status = load_model(&model, m, &options, err);
    if (status == MR_OK)
        status = constraint_bench_masks(figures, model->tokenizer, err);
    if (status == MR_OK)
        status = constraint_bench_rates(figures, model, &options, n_round, interrupt_seen, err);
    mr_model_close(model);
    return status;
}

int bench_constraints(int argc, char **argv)
{
    struct constraint_bench_arguments a = {.repeat = 5};
    struct model_arguments m = {0};
    const struct argument_group groups[] = {
        {"Model:", model_argument, &m}, {NULL, compute_argument, &m}, {"Constraints:", rows, &a}};
    const struct command_line line = {
        .summary = "Measure what constraints cost: compiling, masks, and the rate of an answer beside that of a free one.",
        .example = "  millrace bench --constraints -m models/SmolLM2-135M-Instruct.Q4_1.gguf",
        .group = groups,
        .n_groups = sizeof groups / sizeof *groups};
    int status = arguments_parse(argc, argv, &line);
    if (status == ARGUMENTS_GO_ON)
        status = model_arguments_check(&m, argv[0]);
    if (status != ARGUMENTS_GO_ON)
        return status;
    struct constraint_figures figures = {0};
    struct mr_error err = {{0}};
    const enum mr_status failed = run(&m, a.repeat, &figures, &err);
    if (failed != MR_OK)
        return output_fail_status(argv[0], failed, &err);
    if (a.json)
        return output_json(argv[0], constraint_figures_json(&figures), JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    struct string_buffer text;
    string_buffer_init(&text);
    constraint_figures_text(&figures, &text);
    status = output_text(argv[0], &text);
    string_buffer_release(&text);
    return status;
}
