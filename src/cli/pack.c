/* pack.c: `millrace pack`. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cli/command.h"
#include "cli/load.h"
#include "cli/output.h"

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static enum mr_status pack(const struct model_arguments *m, const char *path, struct mr_error *err)
{
    struct mr_model *model;
    struct mr_options options;
    load_options(&options, m);
    MR_TRY(load_model(&model, m, &options, err));
    const enum mr_status status = load_pack(model, path, err);
    mr_model_close(model);
    return status;
}

int command_pack(int argc, char **argv)
{
    const char *operand[2] = {NULL, NULL};
    struct model_arguments m = {0};
    const struct argument_group groups[] = {{.rows = compute_argument, .into = &m}};
    const struct command_line line = {
        .operands = "IN OUT",
        .summary = "Write a model to a file that starts at once: its weights lie as the products of this machine read them at "
                   "this precision, and are mapped. Other machines and precisions refuse it.",
        .example = "  millrace pack models/SmolLM2-135M-Instruct.Q4_1.gguf packed.gguf\n"
                   "  millrace run -m packed.gguf -p Hello",
        .operand = operand,
        .min_operands = 2,
        .max_operands = 2,
        .group = groups,
        .n_groups = 1};
    const int stop = arguments_parse(argc, argv, &line);
    if (stop != ARGUMENTS_GO_ON)
        return stop;
    if (same_file(operand[0], operand[1]))
        return arguments_fail(argv[0], "OUT is the file IN; give it another name");
    struct mr_error err = {{0}};
    m.model = operand[0];
    const int64_t start = clock_us();
    const enum mr_status status = pack(&m, operand[1], &err);
    if (status != MR_OK)
        return output_fail_status(argv[0], status, &err);
    fprintf(stderr, "packed in %.1f s\n", (double)(clock_us() - start) * 1e-6);
    return EXIT_SUCCESS;
}
