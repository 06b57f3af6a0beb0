/* load.c: opens the model that a command's options name. */
#include "cli/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/chat_option.h"
#include "cli/interrupt.h"

enum {
    BAR_CELLS = 40,
    BAR_AFTER_US = 500000,
    BAR_EVERY_US = 100000
};

struct bar {
    int64_t next_us;
    const char *what; /* "loading" */
    bool on_terminal, shown;
};

static void show_bar(struct bar *bar, size_t done, size_t total)
{
    const int64_t now = clock_us();
    if (now < bar->next_us || total == 0)
        return;
    bar->next_us = now + BAR_EVERY_US;
    bar->shown = true;
    const int cells = (int)(done * BAR_CELLS / total);
    fprintf(stderr, "\r%s [%.*s%*s] %3d %%", bar->what, cells, "########################################", BAR_CELLS - cells,
            "", (int)(done * 100 / total));
}

static struct bar new_bar(const char *what)
{
    return (struct bar){.next_us = clock_us() + BAR_AFTER_US, .what = what, .on_terminal = isatty(STDERR_FILENO)};
}

static void clear_bar(const struct bar *bar)
{
    if (bar->shown)
        fprintf(stderr, "\r\033[K");
}

static bool go_on(void *context, size_t done, size_t total)
{
    struct bar *bar = context;
    if (bar->on_terminal)
        show_bar(bar, done, total);
    return !interrupt_seen();
}

void load_options(struct mr_options *out, const struct model_arguments *a)
{
    mr_options_defaults(out);
    out->threads = a->threads;
    out->precision = a->precision;
    out->pin = a->pin;
    out->kv_int8 = a->kv_type;
    out->fusion_off = a->fusion;
    out->speculation = a->speculation;
    out->draft_model = a->draft_model;
    out->draft_layers = a->draft_layers;
    if (a->draft_tokens > 0)
        out->draft_tokens = a->draft_tokens;
    out->forced_drafts = a->forced_drafts == 0;
    out->n_ctx = a->ctx_size;
    if (a->prompt_chunk > 0)
        out->prompt_chunk = a->prompt_chunk;
    out->cpu = getenv("MILLRACE_CPU");
    out->cache_dir = a->cache_dir;
    out->cache_host_bytes = a->cache_host_bytes;
    if (a->cache_bytes > 0)
        out->cache_bytes = a->cache_bytes;
}

static void warn_of_context(const struct mr_model *model, int ctx_size)
{
    struct mr_model_info info;
    mr_model_info(model, &info);
    if (ctx_size > info.n_ctx_train)
        fprintf(stderr, "warning: --ctx-size %d is more than the %d tokens that the model was trained for\n", ctx_size,
                info.n_ctx_train);
}

enum mr_status load_model(struct mr_model **out, const struct model_arguments *a, struct mr_options *options,
                          struct mr_error *err)
{
    struct bar bar = new_bar("loading");
    interrupt_install();
    options->progress = go_on;
    options->progress_context = &bar;
    const enum mr_status status = mr_model_open(out, a->model, options, err);
    options->progress = NULL;
    clear_bar(&bar);
    if (status == MR_OK)
        warn_of_context(*out, a->ctx_size);
    return status;
}

void load_warn_of_cache(const struct mr_engine *engine, const struct model_arguments *a)
{
    static const char *const text[MR_N_TIERS] = {[MR_TIER_LOCKED] = "is in use by another process; going on without it",
                                                 [MR_TIER_FULL] = "could not be written to",
                                                 [MR_TIER_UNNAMED] =
                                                     "is not used: the model file could not be read, or changed"};
    struct mr_engine_stats stats;
    if (engine == NULL || a->cache_dir == NULL)
        return;
    mr_engine_get_stats(engine, &stats);
    if (text[stats.tier] != NULL)
        fprintf(stderr, "warning: --cache-dir '%s' %s\n", a->cache_dir, text[stats.tier]);
    if (stats.n_tier_damaged > 0)
        fprintf(stderr, "warning: --cache-dir '%s': %lld damaged files were removed\n", a->cache_dir,
                (long long)stats.n_tier_damaged);
}

enum mr_status load_pack(const struct mr_model *model, const char *path, struct mr_error *err)
{
    struct bar bar = new_bar("writing");
    const enum mr_status status = mr_model_pack(model, path, go_on, &bar, err);
    clear_bar(&bar);
    return status;
}

enum mr_status load_chat_prompt(struct chat_prompt **out, const struct mr_model *model, const struct model_arguments *a,
                                struct mr_error *err)
{
    *out = NULL;
    if (a->chat_template == NULL)
        return chat_prompt_create(out, model, NULL, 0, err);
    struct string_buffer source;
    string_buffer_init(&source);
    enum mr_status status = chat_option_read(&source, a->chat_template, err);
    if (status == MR_OK)
        status = chat_prompt_create(out, model, source.s != NULL ? source.s : "", source.n, err);
    string_buffer_release(&source);
    return status;
}
