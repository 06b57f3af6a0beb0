/* tune_command.c: millrace tune: measures this machine and writes a deployment file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/read_input.h"
#include "measure/tune.h"

struct tune_arguments {
    const char *model, *output, *text;
    int latency_target_ms, itl_target_ms, seconds;
    float max_kl;
    bool quiet;
};

#define FIELD(name) offsetof(struct tune_arguments, name)

static const struct argument rows[] = {
    {.name = "model",
     .letter = 'm',
     .value = "FILE",
     .help = "GGUF file of the model",
     .parse = argument_string,
     .offset = FIELD(model)},
    {.name = "latency-target-ms",
     .value = "MS",
     .help = "First token behind a prompt of 128 tokens within this time (default: 500)",
     .parse = argument_int,
     .offset = FIELD(latency_target_ms),
     .low = 1,
     .high = 3600000},
    {.name = "latency-target"},
    {.name = "itl-target-ms",
     .value = "MS",
     .help = "99 of 100 gaps between tokens within this time (default: 50)",
     .parse = argument_int,
     .offset = FIELD(itl_target_ms),
     .low = 1,
     .high = 3600000},
    {.name = "itl-target"},
    {.name = "max-kl",
     .value = "NATS",
     .help = "Divergence from the most precise arithmetic that is taken (default: 0.05)",
     .parse = argument_float,
     .offset = FIELD(max_kl),
     .low = 0,
     .high = 100},
    {.name = "text",
     .value = "FILE",
     .help = "Text for the quality (default: a built-in one)",
     .parse = argument_string,
     .offset = FIELD(text)},
    {.name = "seconds",
     .value = "N",
     .help = "Measure for about so long, loading left out (default: 60)",
     .parse = argument_int,
     .offset = FIELD(seconds),
     .low = 1,
     .high = 86400},
    {.name = "output",
     .letter = 'o',
     .value = "FILE",
     .help = "Write the deployment file here (default: standard output, behind the table)",
     .parse = argument_string,
     .offset = FIELD(output)},
    {.name = "quiet", .letter = 'q', .help = "No progress on standard error", .parse = argument_flag, .offset = FIELD(quiet)},
    {0}};

static void show(void *context, const char *line)
{
    fprintf(stderr, "%s\n", line);
    (void)context;
}

static enum mr_status write_file(const char *path, const struct string_buffer *text, struct mr_error *err)
{
    FILE *f = fopen(path, "w");
    const bool ok = f != NULL && fwrite(text->s, 1, text->n, f) == text->n;
    return (f == NULL || fclose(f) == 0) && ok ? MR_OK : mr_fail(err, MR_IO, "cannot write '%s'", path);
}

/* The table to standard output, the deployment file behind it or to its own. */
static enum mr_status report(const struct tune_result *r, const struct tune_options *o, const char *output,
                             struct string_buffer *text, struct mr_error *err)
{
    struct string_buffer file;
    enum mr_status status = MR_OK;
    string_buffer_init(&file);
    tune_report(r, o, text);
    if (r->n_thread > 0)
        tune_write_deployment(r, o, &file);
    if (file.failed)
        status = mr_fail(err, MR_NO_MEMORY, "no memory for the report");
    else if (file.n > 0 && output != NULL)
        status = write_file(output, &file, err);
    else if (file.n > 0) {
        string_buffer_puts(text, "\n");
        string_buffer_add(text, file.s, file.n);
    }
    string_buffer_release(&file);
    return status;
}

static int tune(const struct tune_arguments *a, const char *command, struct string_buffer *file)
{
    struct mr_error err = {{0}};
    struct tune_result result;
    struct string_buffer text;
    const struct tune_options options = {.model = a->model,
                                         .text = a->text != NULL ? file->s : NULL,
                                         .n_text = file->n,
                                         .latency_target_ms = a->latency_target_ms,
                                         .itl_target_ms = a->itl_target_ms,
                                         .max_kl = (double)a->max_kl,
                                         .seconds = a->seconds,
                                         .cpu = getenv("MILLRACE_CPU"),
                                         .stopped = interrupt_seen,
                                         .progress = a->quiet ? NULL : show};
    string_buffer_init(&text);
    interrupt_install();
    enum mr_status status = tune_run(&result, &options, &err);
    const bool is_shown = status == MR_OK || status == MR_CANCELLED;
    if (is_shown) {
        const enum mr_status shown = report(&result, &options, a->output, &text, status == MR_OK ? &err : NULL);
        status = status == MR_OK ? shown : status;
    }
    const int printed = is_shown ? output_text(command, &text) : 0;
    string_buffer_release(&text);
    return status == MR_OK ? printed : output_fail_status(command, status, &err);
}

int command_tune(int argc, char **argv)
{
    struct tune_arguments a = {.latency_target_ms = 500, .itl_target_ms = 50, .seconds = 60, .max_kl = 0.05F};
    const struct argument_group group = {"Options:", rows, &a};
    const struct command_line line = {
        .summary = "Measure precisions, batch sizes, rows of a step and threads on this machine, and choose "
                   "the settings with which the model is served fastest within the targets.",
        .example = "  millrace tune -m model.gguf --latency-target-ms 500 -o deployment.yaml\n"
                   "  millrace serve --config deployment.yaml",
        .group = &group,
        .n_groups = 1};
    struct string_buffer file;
    struct mr_error err = {{0}};
    int status = arguments_parse(argc, argv, &line);
    if (status != ARGUMENTS_GO_ON)
        return status;
    if (a.model == NULL)
        return arguments_fail(argv[0], "-m, --model: a model file is required");
    string_buffer_init(&file);
    const enum mr_status read = a.text != NULL ? read_file(&file, a.text, &err) : MR_OK;
    status = read == MR_OK ? tune(&a, argv[0], &file) : output_fail_status(argv[0], read, &err);
    string_buffer_release(&file);
    return status;
}
