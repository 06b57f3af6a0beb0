/* hosted_model.c: a model from its file to a warm engine. */
#include "server/hosted_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu_limit.h"
#include "base/memory.h"
#include "base/memory_free.h"
#include "base/string_buffer.h"
#include "engine/loaded_model.h"
#include "server/cpu_share.h"
#include "server/engine_link.h"
#include "server/engine_pool.h"
#include "server/engine_process.h"
#include "server/memory_pool.h"
#include "server/metrics.h"
#include "server/settings.h"
#include "server/shared_weights.h"
#include "server/slot_board.h"
#include "server/text_file.h"
#include "server/warm_engine.h"

enum {
    TEMPLATE_BYTES_MAX = 1 << 20,
    PIN_BYTES_MAX = 64 << 20
};

static enum mr_status open_template(struct hosted_model *m, const struct server_settings *s, struct mr_error *err)
{
    struct string_buffer source;
    if (s->chat_template == NULL || !m->stays) { /* it was given for the first model */
        const enum mr_status status = chat_prompt_create(&m->chat, m->model, NULL, 0, err);
        return status == MR_NOT_FOUND ? MR_OK : status; /* it can still continue texts */
    }
    const char *builtin = chat_template_builtin(s->chat_template);
    if (builtin != NULL)
        return chat_prompt_create(&m->chat, m->model, builtin, strlen(builtin), err);
    string_buffer_init(&source);
    enum mr_status status = text_file_read(&source, s->chat_template, TEMPLATE_BYTES_MAX, err);
    if (status == MR_OK)
        status = chat_prompt_create(&m->chat, m->model, source.s != NULL ? source.s : "", source.n, err);
    string_buffer_release(&source);
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "chat_template");
}

static void pins_release(struct pinned_prompts *p)
{
    for (int i = 0; i < p->n_pin; i++)
        mr_tokens_free(p->ids[i]);
    free(p->ids);
    free(p->n);
}

static enum mr_status read_pin(const struct hosted_model *m, const char *path, int32_t **ids, int32_t *n, struct mr_error *err)
{
    struct string_buffer text;
    string_buffer_init(&text);
    enum mr_status status = text_file_read(&text, path, PIN_BYTES_MAX, err);
    if (status == MR_OK)
        status = mr_tokenize(m->model, text.s != NULL ? text.s : "", text.n, true, ids, n, err);
    string_buffer_release(&text);
    return status;
}

/* Also makes room for them among the options. */
static enum mr_status read_pins(struct pinned_prompts *p, const struct hosted_model *m, const struct server_settings *s,
                                struct mr_options *options, struct mr_error *err)
{
    const int n_wanted = m->stays ? s->n_pin : 0; /* they were given for the first model */
    const size_t n_pin = (size_t)n_wanted;
    p->ids = mem_zero_array(n_pin, sizeof(int32_t *));
    p->n = mem_zero_array(n_pin, sizeof *p->n);
    if (p->ids == NULL || p->n == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the prompts to pin");
    for (; p->n_pin < n_wanted; p->n_pin++) {
        const int i = p->n_pin;
        MR_TRY(read_pin(m, s->pin[i], &p->ids[i], &p->n[i], err));
        if (p->n[i] > MR_PIN_TOKENS_MAX - options->pin_tokens)
            return mr_fail(err, MR_BAD_INPUT, "pin: more than %d tokens", MR_PIN_TOKENS_MAX);
        options->pin_tokens += p->n[i];
    }
    return MR_OK;
}

bool hosted_model_has_pool(const struct server_settings *s) { return s->warm_active > 1 || s->warm_standby > 0; }

static int32_t share(int32_t whole, int32_t n) { return whole / n + (whole % n > 0); }

/* One budget of memory, one queue and one batch over all active processes. */
static void divide(struct mr_options *o, int32_t n, int n_cpu)
{
    o->threads = cpu_share_size(o->threads > 0 ? o->threads : n_cpu, 0, n);
    o->max_running = share(o->max_running, n);
    o->max_queue = share(o->max_queue, n);
    o->bucket_capacity = share(o->bucket_capacity, n);
    o->kv_tokens = o->kv_tokens / n;
    o->response_bytes /= (size_t)n;
    o->reference_bytes /= (size_t)n;
    o->cache_host_bytes /= (size_t)n;
    o->pin = n > 1 ? 0 : o->pin; /* each has CPUs of its own */
}

/* Of each process. path: room for the name of a file that has none. */
static struct engine_config pool_config(const struct hosted_model *m, const struct server_settings *s,
                                        const struct mr_options *options, const struct pinned_prompts *pins, char path[32])
{
    snprintf(path, 32, "/proc/self/fd/%d", ENGINE_PROCESS_MODEL_FD);
    struct engine_config c = {.path = m->shared_fd >= 0 ? path : m->path,
                              .options = *options,
                              .n_active = s->warm_active,
                              .mlock = s->mlock,
                              .pins = *pins};
    divide(&c.options, s->warm_active, cpu_limit());
    return c;
}

static enum mr_status start_pool(struct hosted_model *m, const struct server_settings *s, const struct mr_options *options,
                                 const struct pinned_prompts *pins, bool (*progress)(void *context, size_t done, size_t total),
                                 void *context, struct mr_error *err)
{
    char path[32];
    const struct engine_pool_options pool = {.config = pool_config(m, s, options, pins, path),
                                             .n_standby = s->warm_standby,
                                             .n_vocab = m->info.n_vocab,
                                             .n_embd = m->info.n_embd,
                                             .model_fd = m->shared_fd};
    m->info.threads = pool.config.options.threads * s->warm_active;
    return engine_pool_create(&m->engine, &pool, progress, context, err);
}

/* The weights are packed once, and the file mapped here for its tokenizer alone. */
static enum mr_status open_shared(struct hosted_model *m, const struct mr_options *options, struct mr_error *err)
{
    struct mr_options own = *options;
    char path[32];
    MR_TRY(mr_model_open(&m->model, m->path, options, err));
    if (!gguf_is_packed(m->model->file)) {
        MR_TRY(shared_weights_make(&m->shared_fd, m->model, options->progress, options->progress_context, err));
        snprintf(path, sizeof path, "/proc/self/fd/%d", m->shared_fd);
    }
    mr_model_close(m->model);
    own.threads = 1;
    return mr_model_open(&m->model, m->shared_fd >= 0 ? path : m->path, &own, err);
}

static enum mr_status start_engine(struct hosted_model *m, const struct server_settings *s, struct mr_options *options,
                                   bool (*progress)(void *context, size_t done, size_t total), void *context,
                                   struct mr_error *err)
{
    struct pinned_prompts pins = {0};
    enum mr_status status = read_pins(&pins, m, s, options, err);
    if (status == MR_OK)
        status = hosted_model_has_pool(s) ? start_pool(m, s, options, &pins, progress, context, err)
                                          : warm_engine_create(&m->engine, m->model, options, &pins, err);
    pins_release(&pins);
    return status;
}

static void read_stats(const void *link, struct mr_engine_stats *out)
{
    engine_link_stats((struct engine_link *)(uintptr_t)link, out); /* which locks itself */
}

static void read_processes(const void *link, struct metrics_processes *out)
{
    engine_pool_counts((struct engine_link *)(uintptr_t)link, &out->counts);
    out->n = engine_pool_processes((struct engine_link *)(uintptr_t)link, out->process);
    for (int i = 0; i < out->n; i++)
        process_use_read(&out->use[i], out->process[i].pid, "");
}

static void see_step(void *context, const struct mr_engine_stats *stats) { metrics_step(context, stats); }

static enum mr_status give_memory(struct mr_options *options, const struct hosted_model *m, const struct server_settings *s,
                                  struct mr_error *err)
{
    if (s->memory_cpu_bytes > 0)
        return memory_pool_divide(options, m->model, s->memory_cpu_bytes, err);
    return options->kv_tokens == 0 ? memory_pool_fit(options, m->model, memory_free_bytes(), err) : MR_OK;
}

static enum mr_status open_all(struct hosted_model *m, const struct server_settings *s,
                               bool (*progress)(void *context, size_t done, size_t total), void *context, struct mr_error *err)
{
    struct mr_options options = s->engine;
    options.progress = progress;
    options.progress_context = context;
    MR_TRY(hosted_model_has_pool(s) ? open_shared(m, &options, err) : mr_model_open(&m->model, m->path, &options, err));
    options.progress = NULL;
    options.progress_context = NULL;
    mr_model_info(m->model, &m->info);
    MR_TRY(give_memory(&options, m, s, err));
    MR_TRY(open_template(m, s, err));
    MR_TRY(start_engine(m, s, &options, progress, context, err));
    m->n_ctx = engine_link_n_ctx(m->engine);
    return MR_OK;
}

enum mr_status hosted_model_load(struct hosted_model *m, struct server *s,
                                 bool (*progress)(void *context, size_t done, size_t total), void *context,
                                 struct mr_error *err)
{
    const int64_t begin_us = clock_us();
    if (m->rests && m->opened_with != s->settings)
        hosted_model_unload(m); /* its standby knows older ones */
    m->opened_with = s->settings;
    MR_TRY(m->rests ? engine_pool_resume(m->engine, progress, context, err) : open_all(m, s->settings, progress, context, err));
    m->rests = false;
    metrics_set_source(m->metrics, &(struct metrics_source){.stats = read_stats,
                                                            .processes = engine_link_is_pool(m->engine) ? read_processes : NULL,
                                                            .context = m->engine,
                                                            .info = m->info,
                                                            .load_s = (double)(clock_us() - begin_us) * 1e-6});
    engine_link_set_observer(m->engine, see_step, m->metrics);
    return MR_OK;
}

enum mr_status hosted_model_renew(struct hosted_model *m, const struct server_settings *s, struct mr_error *err)
{
    struct mr_options options = s->engine;
    struct pinned_prompts pins = {0};
    char path[32];
    enum mr_status status = give_memory(&options, m, s, err);
    if (status == MR_OK)
        status = read_pins(&pins, m, s, &options, err);
    if (status == MR_OK) {
        const struct engine_config config = pool_config(m, s, &options, &pins, path);
        status = engine_pool_renew(m->engine, &config, err);
    }
    pins_release(&pins);
    m->opened_with = status == MR_OK ? s : m->opened_with;
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "the engines of '%s' are as they were", m->name);
}

bool hosted_model_rest(struct hosted_model *m, const struct server_settings *s)
{
    if (s->warm_standby == 0 || m->shared_fd >= 0 || m->engine == NULL) /* weights in memory of ours would stay there */
        return false;
    metrics_set_source(m->metrics, NULL);
    engine_pool_rest(m->engine);
    m->rests = true;
    return true;
}

void hosted_model_unload(struct hosted_model *m)
{
    if (m->metrics != NULL)
        metrics_set_source(m->metrics, NULL);
    engine_link_free(m->engine);
    chat_prompt_free(m->chat);
    mr_model_close(m->model);
    if (m->shared_fd >= 0)
        close(m->shared_fd);
    m->engine = NULL;
    m->chat = NULL;
    m->model = NULL;
    m->info = (struct mr_model_info){0};
    m->shared_fd = -1;
    m->rests = false;
}

void hosted_model_release(struct hosted_model *m)
{
    hosted_model_unload(m);
    slot_board_free(m->slots);
    free(m->name);
    free(m->path);
    *m = (struct hosted_model){.shared_fd = -1};
}
