/* calibrate_command.c: `millrace calibrate`. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/calibrate_text.h"
#include "cli/command.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/read_input.h"

struct calibrate_arguments {
    const char *file;
    int window, n_tokens;
    bool json;
};

#define FIELD(f) offsetof(struct calibrate_arguments, f)

static const struct argument calibrate_argument[] = {
    {.name = "file",
     .letter = 'f',
     .value = "FILE",
     .help = "The text, of the kind that the model will be used for; - reads standard input",
     .parse = argument_string,
     .offset = FIELD(file)},
    {.name = "window",
     .value = "N",
     .help = "Tokens that are read at a time (default 512)",
     .parse = argument_int,
     .offset = FIELD(window),
     .low = 16,
     .high = 1 << 20},
    {.name = "tokens",
     .value = "N",
     .help = "Read no more than so many tokens of the text",
     .parse = argument_int,
     .offset = FIELD(n_tokens),
     .low = CALIBRATE_TOKENS_MIN,
     .high = 1 << 30},
    {.name = "json", .help = "Print what was measured as JSON", .parse = argument_flag, .offset = FIELD(json)},
    {0}};

struct outcome {
    struct perplexity text;
    int n_matrix;
};

static enum mr_status run_model(struct outcome *out, struct mr_model *model, const struct calibrate_arguments *a,
                                const struct string_buffer *text, const char *to, struct mr_error *err)
{
    struct calibration *c;
    enum mr_status status = calibrate_text(&c, &out->text, model, text, a->window, a->n_tokens, err);
    if (status == MR_OK) {
        out->n_matrix = calibration_n(c);
        status = calibration_write(c, to, a->file, err);
    }
    calibration_free(c);
    return status;
}

static enum mr_status run(struct outcome *out, const struct calibrate_arguments *a, struct model_arguments *m, const char *to,
                          struct mr_error *err)
{
    struct string_buffer text;
    struct mr_model *model = NULL;
    struct mr_options options;
    string_buffer_init(&text);
    m->precision = MR_PRECISION_FP32;
    load_options(&options, m);
    enum mr_status status = read_input(&text, a->file, err);
    if (status == MR_OK)
        status = load_model(&model, m, &options, err);
    if (status == MR_OK)
        status = run_model(out, model, a, &text, to, err);
    mr_model_close(model);
    string_buffer_release(&text);
    return status;
}

static int report(const struct outcome *o, bool json, const char *command)
{
    if (json)
        return output_json(command,
                           json_pack("{s:i,s:I,s:f}", "n_matrices", o->n_matrix, "n_tokens", (json_int_t)o->text.n_tokens,
                                     "perplexity", o->text.perplexity),
                           0);
    printf("%d matrices met %lld tokens; the text's perplexity is %.4f\n", o->n_matrix, (long long)o->text.n_tokens,
           o->text.perplexity);
    return EXIT_SUCCESS;
}

int command_calibrate(int argc, char **argv)
{
    const char *to[1] = {NULL};
    struct calibrate_arguments a = {.window = 512};
    struct model_arguments m = {0};
    static const struct argument threads[] = {{.name = "threads",
                                               .letter = 't',
                                               .value = "N",
                                               .help = "Threads that compute (default: one for each CPU)",
                                               .parse = argument_int,
                                               .offset = offsetof(struct model_arguments, threads),
                                               .low = 1,
                                               .high = 1024},
                                              {0}};
    const struct argument_group groups[] = {
        {"Model:", model_argument, &m}, {NULL, threads, &m}, {"Text:", calibrate_argument, &a}};
    const struct command_line line = {
        .operands = "OUT",
        .summary = "Write statistics of the activations along a text, for `millrace quantize --imatrix`: the older form where "
                   "OUT ends with .dat, else GGUF. The model is computed in fp32.",
        .example = "  millrace calibrate -m model-f16.gguf -f text.txt statistics.gguf\n"
                   "  millrace quantize model-f16.gguf small.gguf --imatrix statistics.gguf",
        .operand = to,
        .min_operands = 1,
        .max_operands = 1,
        .group = groups,
        .n_groups = 3};
    int status = arguments_parse(argc, argv, &line);
    if (status != ARGUMENTS_GO_ON)
        return status;
    if (a.file == NULL)
        return arguments_fail(argv[0], "-f, --file: a text is required");
    status = model_arguments_check(&m, argv[0]);
    if (status != ARGUMENTS_GO_ON)
        return status;
    struct mr_error err = {{0}};
    struct outcome o;
    const enum mr_status failed = run(&o, &a, &m, to[0], &err);
    return failed == MR_OK ? report(&o, a.json, argv[0]) : output_fail_status(argv[0], failed, &err);
}
