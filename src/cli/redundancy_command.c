/* redundancy_command.c: `millrace redundancy`. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/read_input.h"
#include "compress/redundancy.h"

struct redundancy_arguments {
    const char *file;
    float rise;
    int tokens, windows, threads;
    bool json;
};

#define FIELD(f)  .offset = offsetof(struct redundancy_arguments, f)
#define INT(l, h) .parse = argument_int, .low = (l), .high = (h)

static const struct argument rows[] = {
    {.name = "file",
     .letter = 'f',
     .value = "FILE",
     .help = "The text; - reads standard input",
     .parse = argument_string,
     FIELD(file)},
    {.name = "rise",
     .value = "NATS",
     .help = "What the loss of a token may rise by and still count as equal (default: 0.01)",
     .parse = argument_float,
     .low = 0,
     .high = 100,
     FIELD(rise)},
    {.name = "tokens", .value = "N", .help = "Tokens of a window of the text (default: 256)", INT(2, 1 << 20), FIELD(tokens)},
    {.name = "windows", .value = "N", .help = "Windows that are read at most (default: 8)", INT(2, 4096), FIELD(windows)},
    {.name = "threads",
     .letter = 't',
     .value = "N",
     .help = "Threads that compute (default: one for each CPU)",
     INT(1, 1024),
     FIELD(threads)},
    {.name = "json", .help = "Print the figures as JSON", .parse = argument_flag, FIELD(json)},
    {0}};

static bool go_on(void *context, int64_t done, int64_t total)
{
    return progress_bar_show(context, "taking away and measuring, layers", done, total);
}

static json_t *removable_json(const struct removable *r)
{
    return json_pack("{s:i, s:i, s:f, s:f}", "removable", r->n, "of", r->of, "share", r->share, "rise", r->rise);
}

static json_t *redundancy_json(const struct redundancy *r, double rise)
{
    json_t *layers = json_array();
    for (int l = 0; l < r->n_layer; l++)
        json_array_append_new(layers, json_pack("{s:o, s:o}", "heads", removable_json(&r->heads[l]), "channels",
                                                removable_json(&r->channels[l])));
    return json_pack("{s:f, s:f, s:o, s:{s:o, s:o}}", "loss", r->loss, "rise", rise, "layers", layers, "all_layers", "heads",
                     removable_json(&r->all_heads), "channels", removable_json(&r->all_channels));
}

static void show_row(const char *name, const struct removable *heads, const struct removable *channels)
{
    printf("%-10s %4d of %4d  %5.1f %%   %6d of %6d  %5.1f %%\n", name, heads->n, heads->of, 100 * heads->share, channels->n,
           channels->of, 100 * channels->share);
}

static int show(const struct redundancy *r, const struct redundancy_arguments *a, const char *command)
{
    if (a->json)
        return output_json(command, redundancy_json(r, (double)a->rise), JSON_INDENT(1));
    printf("removable while the loss of %.4f nats a token rises by at most %g:\n%-10s %21s   %25s\n", r->loss, (double)a->rise,
           "layer", "heads, weights", "channels, weights");
    for (int l = 0; l < r->n_layer; l++) {
        char name[16];
        snprintf(name, sizeof name, "%d", l);
        show_row(name, &r->heads[l], &r->channels[l]);
    }
    show_row("all", &r->all_heads, &r->all_channels);
    return EXIT_SUCCESS;
}

static int run(struct redundancy_job *job, const struct redundancy_arguments *a, const char *command)
{
    struct string_buffer text;
    struct redundancy r = {0};
    struct mr_error err = {{0}};
    struct progress_bar bar;
    string_buffer_init(&text);
    enum mr_status status = read_input(&text, a->file, &err);
    job->text = text.s != NULL ? text.s : "";
    job->n_text = text.n;
    progress_bar_begin(&bar);
    job->context = &bar;
    if (status == MR_OK)
        status = redundancy_job_run(&r, job, &err);
    progress_bar_end(&bar);
    string_buffer_release(&text);
    const int code = status == MR_OK ? show(&r, a, command) : output_fail_status(command, status, &err);
    redundancy_release(&r);
    return code;
}

int command_redundancy(int argc, char **argv)
{
    const char *operand[1] = {NULL};
    struct redundancy_arguments a = {.rise = 0.01f, .tokens = 256, .windows = 8};
    const struct argument_group groups[] = {{"Options:", rows, &a}};
    const struct command_line line = {
        .operands = "MODEL",
        .summary =
            "Measure which share of the attention heads and of the feed-forward channels of each layer can be taken away at "
            "equal loss. Nothing is written; `millrace prune` makes the smaller model.",
        .example = "  millrace redundancy models/SmolLM2-135M-Instruct.Q4_1.gguf -f text.txt --rise 0.01",
        .operand = operand,
        .min_operands = 1,
        .max_operands = 1,
        .group = groups,
        .n_groups = 1};
    const int status = arguments_parse(argc, argv, &line);
    if (status != ARGUMENTS_GO_ON)
        return status;
    if (a.file == NULL)
        return arguments_fail(argv[0], "-f, --file: a text is required");
    struct redundancy_job job = {.in = operand[0],
                                 .n_tok = a.tokens,
                                 .n_window = a.windows,
                                 .rise = (double)a.rise,
                                 .threads = a.threads,
                                 .cpu = getenv("MILLRACE_CPU"),
                                 .go_on = go_on};
    interrupt_install();
    return run(&job, &a, argv[0]);
}
