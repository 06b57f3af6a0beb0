/* hosted_model.c: a model from its file to a warm engine. */
#include "server/hosted_model.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/memory_free.h"
#include "base/string_buffer.h"
#include "server/engine_link.h"
#include "server/memory_pool.h"
#include "server/settings.h"
#include "server/text_file.h"

enum {
    TEMPLATE_BYTES_MAX = 1 << 20,
    PIN_BYTES_MAX = 64 << 20
};

/* "SmolLM2-135M-Instruct.Q4_1" of "models/SmolLM2-135M-Instruct.Q4_1.gguf". */
static char *stem(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    return mem_string(name, dot != NULL && dot > name ? (size_t)(dot - name) : strlen(name));
}

static enum mr_status open_template(struct hosted_model *m, const struct server_settings *s, struct mr_error *err)
{
    struct string_buffer source;
    if (s->chat_template == NULL) {
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

/* The prompts to pin, one after the other. */
struct pins {
    int32_t **ids, *n;
    int n_pin;
};

static void pins_release(struct pins *p)
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
static enum mr_status read_pins(struct pins *p, const struct hosted_model *m, const struct server_settings *s,
                                struct mr_options *options, struct mr_error *err)
{
    const size_t n_pin = (size_t)s->n_pin;
    p->ids = mem_zero_array(n_pin, sizeof(int32_t *));
    p->n = mem_zero_array(n_pin, sizeof *p->n);
    if (p->ids == NULL || p->n == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the prompts to pin");
    for (; p->n_pin < s->n_pin; p->n_pin++) {
        const int i = p->n_pin;
        MR_TRY(read_pin(m, s->pin[i], &p->ids[i], &p->n[i], err));
        if (p->n[i] > MR_PIN_TOKENS_MAX - options->pin_tokens)
            return mr_fail(err, MR_BAD_INPUT, "pin: more than %d tokens", MR_PIN_TOKENS_MAX);
        options->pin_tokens += p->n[i];
    }
    return MR_OK;
}

static enum mr_status pin_all(struct mr_engine *engine, void *context, struct mr_error *err)
{
    const struct pins *p = context;
    for (int i = 0; i < p->n_pin; i++)
        MR_TRY(mr_engine_pin(engine, p->ids[i], p->n[i], NULL, err));
    return MR_OK;
}

/* One token of an answer: pages are touched and threads awake, and whatever does not work shows before anybody asks. */
static enum mr_status warm(struct mr_engine *engine, void *context, struct mr_error *err)
{
    (void)context;
    static const int32_t prompt[] = {0};
    struct mr_request request;
    struct mr_event event;
    enum mr_status status = MR_OK;
    uint64_t id;
    mr_request_defaults(&request);
    request.prompt = prompt;
    request.n_prompt = 1;
    request.max_tokens = 1;
    request.ignore_eos = true;
    MR_TRY(mr_engine_submit(engine, &request, &id, err));
    while (!mr_engine_is_idle(engine))
        mr_engine_step(engine);
    while (mr_engine_next_event(engine, &event))
        if (event.finish == MR_FINISH_ERROR)
            status = mr_fail(err, event.status, "the model does not answer: %s", event.error);
    return status;
}

static enum mr_status start_engine(struct hosted_model *m, const struct server_settings *s, struct mr_options *options,
                                   struct mr_error *err)
{
    struct pins pins = {0};
    enum mr_status status = read_pins(&pins, m, s, options, err);
    if (status == MR_OK)
        status = engine_link_create(&m->engine, m->model, options, err);
    if (status == MR_OK)
        status = engine_link_call(m->engine, pin_all, &pins, err);
    if (status == MR_OK)
        status = engine_link_call(m->engine, warm, NULL, err);
    pins_release(&pins);
    return status;
}

enum mr_status hosted_model_open(struct hosted_model *m, const struct server_settings *s,
                                 bool (*progress)(void *context, size_t done, size_t total), void *context,
                                 struct mr_error *err)
{
    struct mr_options options = s->engine;
    *m = (struct hosted_model){.created = (int64_t)time(NULL)};
    m->name = s->alias != NULL ? mem_string(s->alias, strlen(s->alias)) : stem(s->model);
    if (m->name == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the model's name");
    options.progress = progress;
    options.progress_context = context;
    MR_TRY(mr_model_open(&m->model, s->model, &options, err));
    options.progress = NULL;
    mr_model_info(m->model, &m->info);
    if (s->memory_cpu_bytes > 0)
        MR_TRY(memory_pool_divide(&options, m->model, s->memory_cpu_bytes, err));
    else if (options.kv_tokens == 0)
        MR_TRY(memory_pool_fit(&options, m->model, memory_free_bytes(), err));
    MR_TRY(open_template(m, s, err));
    MR_TRY(start_engine(m, s, &options, err));
    m->n_ctx = engine_link_n_ctx(m->engine);
    return MR_OK;
}

void hosted_model_release(struct hosted_model *m)
{
    engine_link_free(m->engine);
    chat_prompt_free(m->chat);
    mr_model_close(m->model);
    free(m->name);
    *m = (struct hosted_model){0};
}
