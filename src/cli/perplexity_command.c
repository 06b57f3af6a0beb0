/* perplexity_command.c: `millrace perplexity`. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/adapter_list.h"
#include "cli/command.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/read_input.h"
#include "measure/evaluation.h"

enum {
    WINDOW_MIN = 3
};

struct perplexity_arguments {
    const char *file;
    int stride; /* 0: half a window */
    bool json;
};

static const struct argument perplexity_argument[] = {{.name = "file",
                                                       .letter = 'f',
                                                       .value = "FILE",
                                                       .help = "The text; - reads standard input",
                                                       .parse = argument_string,
                                                       .offset = offsetof(struct perplexity_arguments, file)},
                                                      {.name = "stride",
                                                       .value = "N",
                                                       .help = "Tokens that each window scores (default: half a window)",
                                                       .parse = argument_int,
                                                       .offset = offsetof(struct perplexity_arguments, stride),
                                                       .low = 1,
                                                       .high = 1 << 24},
                                                      {.name = "json",
                                                       .help = "Print {\"perplexity\", \"n_tokens\"}",
                                                       .parse = argument_flag,
                                                       .offset = offsetof(struct perplexity_arguments, json)},
                                                      {0}};

static bool go_on(void *context, const char *what, int64_t done, int64_t total)
{
    return progress_bar_show(context, what, done, total);
}

static enum mr_status measure_text(struct perplexity *out, struct mr_model *model, const struct perplexity_arguments *a,
                                   const struct model_arguments *m, const struct string_buffer *text, struct mr_error *err)
{
    struct mr_adapter_use adapter[MR_ADAPTERS_MAX];
    struct evaluation e = {.has_text = false};
    struct progress_bar bar;
    struct evaluation_plan plan = {.text = text->s != NULL ? text->s : "",
                                   .n_text = text->n,
                                   .window = m->ctx_size,
                                   .stride = a->stride,
                                   .adapter = adapter,
                                   .go_on = go_on,
                                   .context = &bar};
    MR_TRY(adapter_list_load(adapter, &plan.n_adapter, model, m, err));
    progress_bar_begin(&bar);
    const enum mr_status status = evaluate(&e, model, &plan, err);
    progress_bar_end(&bar);
    *out = e.text;
    return status;
}

static enum mr_status run(struct perplexity *out, const struct perplexity_arguments *a, const struct model_arguments *m,
                          struct mr_error *err)
{
    struct string_buffer text;
    struct mr_model *model = NULL;
    struct mr_options options;
    string_buffer_init(&text);
    load_options(&options, m);
    enum mr_status status = read_input(&text, a->file, err);
    if (status == MR_OK)
        status = load_model(&model, m, &options, err);
    if (status == MR_OK)
        status = measure_text(out, model, a, m, &text, err);
    mr_model_close(model);
    string_buffer_release(&text);
    return status;
}

/* Options that do not fit each other. The window of a model with a context below the default is checked once it is known. */
static int check_arguments(const struct perplexity_arguments *a, const struct model_arguments *m, const char *command)
{
    const int window = m->ctx_size > 0 ? m->ctx_size : EVALUATION_WINDOW;
    if (a->file == NULL)
        return arguments_fail(command, "-f, --file: a text is required");
    if (window < WINDOW_MIN)
        return arguments_fail(command, "--ctx-size: a window of %d tokens is too short, it must have %d", window, WINDOW_MIN);
    if (a->stride > window - 2)
        return arguments_fail(command, "--stride: %d is not from 1 to %d, two tokens less than the window", a->stride,
                              window - 2);
    return model_arguments_check(m, command);
}

int command_perplexity(int argc, char **argv)
{
    struct perplexity_arguments a = {0};
    struct model_arguments m = {0};
    const struct argument_group groups[] = {{"Model:", model_argument, &m},
                                            {NULL, compute_argument, &m},
                                            {NULL, adapter_argument, &m},
                                            {"Text:", perplexity_argument, &a}};
    const struct command_line line = {
        .summary = "Measure the perplexity of a text: how surprised the model is by its tokens. It is read in windows of the "
                   "context (default: 2048) that overlap; each token is scored once.",
        .example = "  millrace perplexity -m models/SmolLM2-135M-Instruct.Q4_1.gguf -f README.md",
        .group = groups,
        .n_groups = 4};
    int status = arguments_parse(argc, argv, &line);
    if (status != ARGUMENTS_GO_ON)
        return status;
    status = check_arguments(&a, &m, argv[0]);
    if (status != ARGUMENTS_GO_ON)
        return status;
    struct mr_error err = {{0}};
    struct perplexity result;
    const enum mr_status failed = run(&result, &a, &m, &err);
    if (failed != MR_OK)
        return output_fail_status(argv[0], failed, &err);
    if (a.json)
        printf("{\"perplexity\": %.17g, \"n_tokens\": %lld}\n", result.perplexity, (long long)result.n_tokens);
    else
        printf("perplexity %.4f over %lld tokens\n", result.perplexity, (long long)result.n_tokens);
    return EXIT_SUCCESS;
}
