/* perplexity_command.c: `millrace perplexity`. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/adapter_list.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/read_input.h"
#include "engine/loaded_model.h"
#include "measure/perplexity.h"

enum {
    WINDOW_DEFAULT = 2048, /* or the model's own context where that is shorter */
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

struct watch {
    int64_t next_us;
    bool on_terminal;
};

static bool go_on(void *context, int64_t done, int64_t total)
{
    struct watch *w = context;
    if (w->on_terminal && clock_us() >= w->next_us) {
        fprintf(stderr, "\r%lld of %lld tokens", (long long)done, (long long)total);
        w->next_us = clock_us() + 200000;
    }
    if (w->on_terminal && done == total)
        fprintf(stderr, "\r\033[K");
    return !interrupt_seen();
}

static enum mr_status measure_text(struct perplexity *out, struct mr_model *model, const struct perplexity_arguments *a,
                                   const struct model_arguments *m, const struct string_buffer *text, struct mr_error *err)
{
    struct mr_adapter_use adapter[MR_ADAPTERS_MAX];
    int32_t n_adapter;
    int window = m->ctx_size;
    struct token_list tokens = {0};
    struct watch watch = {.on_terminal = isatty(STDERR_FILENO)};
    struct mr_model_info info;
    mr_model_info(model, &info);
    if (window == 0)
        window = info.n_ctx_train < WINDOW_DEFAULT ? info.n_ctx_train : WINDOW_DEFAULT;
    MR_TRY(adapter_list_load(adapter, &n_adapter, model, m, err));
    const struct perplexity_options options = {.window = window,
                                               .stride = a->stride > 0 ? a->stride : window / 2,
                                               .go_on = go_on,
                                               .context = &watch,
                                               .adapter = adapter,
                                               .n_adapter = n_adapter};
    const struct text_run run = {.s = text->s != NULL ? text->s : "", .n = text->n};
    enum mr_status status = tokenizer_encode(model->tokenizer, &run, 1, 0, &tokens, err);
    if (status == MR_OK)
        status = perplexity_measure(out, model, tokens.id, (int64_t)tokens.n, &options, err);
    token_list_release(&tokens);
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
    enum mr_status status = a->file[0] == '-' && a->file[1] == '\0' ? read_stream(&text, stdin, "standard input", err)
                                                                    : read_file(&text, a->file, err);
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
    const int window = m->ctx_size > 0 ? m->ctx_size : WINDOW_DEFAULT;
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
