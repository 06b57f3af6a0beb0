/* load.c: opens the model that a command's options name. */
#include "cli/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/string_buffer.h"
#include "cli/read_input.h"

enum {
    BAR_CELLS = 40,
    BAR_AFTER_US = 500000,
    BAR_EVERY_US = 100000
};

struct bar {
    int64_t start_us, next_us;
    bool shown;
};

static void show_progress(void *context, size_t done, size_t total)
{
    struct bar *bar = context;
    const int64_t now = clock_us();
    if (now - bar->start_us < BAR_AFTER_US || now < bar->next_us || total == 0)
        return;
    bar->next_us = now + BAR_EVERY_US;
    bar->shown = true;
    const int cells = (int)(done * BAR_CELLS / total);
    fprintf(stderr, "\rloading [%.*s%*s] %3d %%", cells, "########################################", BAR_CELLS - cells, "",
            (int)(done * 100 / total));
}

void load_options(struct mr_options *out, const struct model_arguments *a)
{
    mr_options_defaults(out);
    out->threads = a->threads;
    out->precision = a->precision;
    out->n_ctx = a->ctx_size;
    if (a->prompt_chunk > 0)
        out->prompt_chunk = a->prompt_chunk;
    out->cpu = getenv("MILLRACE_CPU");
}

enum mr_status load_model(struct mr_model **out, const struct model_arguments *a, struct mr_options *options,
                          struct mr_error *err)
{
    struct bar bar = {.start_us = clock_us()};
    if (isatty(STDERR_FILENO)) {
        options->progress = show_progress;
        options->progress_context = &bar;
    }
    const enum mr_status status = mr_model_open(out, a->model, options, err);
    options->progress = NULL;
    if (bar.shown)
        fprintf(stderr, "\r\033[K");
    return status;
}

static enum mr_status unknown_template(const char *name, const struct mr_error *cause, struct mr_error *err)
{
    struct string_buffer known;
    string_buffer_init(&known);
    for (int i = 0; chat_template_builtin_at(i) != NULL; i++)
        string_buffer_printf(&known, "%s%s", i > 0 ? ", " : "", chat_template_builtin_at(i));
    mr_fail(err, MR_NOT_FOUND, "--chat-template: '%s' is not built in (%s), and as a file: %s", name,
            known.s != NULL ? known.s : "", cause->message);
    string_buffer_release(&known);
    return MR_NOT_FOUND;
}

enum mr_status load_chat_prompt(struct chat_prompt **out, const struct mr_model *model, const struct model_arguments *a,
                                struct mr_error *err)
{
    *out = NULL;
    if (a->chat_template == NULL)
        return chat_prompt_create(out, model, NULL, 0, err);
    struct string_buffer source;
    struct mr_error cause;
    string_buffer_init(&source);
    const char *builtin = chat_template_builtin(a->chat_template);
    enum mr_status status = MR_OK;
    if (builtin != NULL)
        string_buffer_puts(&source, builtin);
    else
        status = read_file(&source, a->chat_template, &cause);
    if (status != MR_OK)
        status = unknown_template(a->chat_template, &cause, err);
    else
        status = chat_prompt_create(out, model, source.s != NULL ? source.s : "", source.n, err);
    string_buffer_release(&source);
    return status;
}
