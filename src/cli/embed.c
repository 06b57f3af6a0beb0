/* embed.c: `millrace embed`: texts as vectors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/adapter_list.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/read_input.h"

enum {
    TOGETHER = 8 /* texts that are computed at a time */
};

static const char *const poolings[] = {"auto", "mean", "cls", "last", NULL}; /* in the order of enum mr_pooling */

struct embed_arguments {
    struct argument_list prompt;
    const char *file;
    int pooling;
    bool raw, json;
};

static const struct argument rows[] = {
    {.name = "prompt",
     .letter = 'p',
     .value = "TEXT",
     .help = "Text (may be repeated; default: standard input)",
     .parse = argument_append,
     .offset = offsetof(struct embed_arguments, prompt)},
    {.name = "file",
     .letter = 'f',
     .value = "FILE",
     .help = "The text of a file",
     .parse = argument_string,
     .offset = offsetof(struct embed_arguments, file)},
    {.name = "pooling",
     .value = "NAME",
     .help = "mean of all tokens, cls: the first one, last, or auto, what the model's file says, else last (default: auto)",
     .parse = argument_choice,
     .offset = offsetof(struct embed_arguments, pooling),
     .choice = poolings},
    {.name = "raw",
     .help = "As it comes; else its length becomes 1",
     .parse = argument_flag,
     .offset = offsetof(struct embed_arguments, raw)},
    {.name = "json",
     .help = "Print {\"embeddings\": [[numbers]], \"pooling\", \"n_tokens\": [counts]}",
     .parse = argument_flag,
     .offset = offsetof(struct embed_arguments, json)},
    {0}};

/* Texts and what becomes of them. */
struct embedding {
    const char *text;
    size_t n_text;
    uint64_t request;
    int32_t n_token;
    float *vector;
};

struct job {
    const struct embed_arguments *arguments;
    const struct model_arguments *model_arguments;
    struct embedding *embedding;
    int n;
    int pooling, n_embd; /* of the result */
};

static enum mr_status submit(struct mr_engine *engine, const struct mr_model *model, const struct job *job, struct embedding *x,
                             struct mr_request *request, struct mr_error *err)
{
    int32_t *ids, n_ids;
    MR_TRY(mr_tokenize(model, x->text, x->n_text, false, &ids, &n_ids, err));
    request->prompt = ids;
    request->n_prompt = x->n_token = n_ids;
    request->pooling = (enum mr_pooling)job->pooling;
    request->normalize = !job->arguments->raw;
    const enum mr_status status = mr_engine_submit(engine, request, &x->request, err);
    mr_tokens_free(ids);
    return status;
}

static enum mr_status take(struct job *job, const struct mr_event *event, struct mr_error *err)
{
    if (event->finish == MR_FINISH_ERROR)
        return mr_fail(err, event->status, "%s", event->error);
    for (int i = 0; i < job->n; i++) {
        struct embedding *x = &job->embedding[i];
        if (x->request != event->request)
            continue;
        x->vector = mem_array((size_t)event->n_embedding, sizeof *x->vector);
        if (x->vector == NULL)
            return mr_fail(err, MR_NO_MEMORY, "no memory for an embedding");
        memcpy(x->vector, event->embedding, (size_t)event->n_embedding * sizeof *x->vector);
        job->n_embd = event->n_embedding;
    }
    return MR_OK;
}

static enum mr_status run_steps(struct job *job, struct mr_engine *engine, struct mr_error *err)
{
    struct mr_event event;
    while (!mr_engine_is_idle(engine)) {
        mr_engine_step(engine);
        if (interrupt_seen())
            return mr_fail(err, MR_CANCELLED, "stopped");
        while (mr_engine_next_event(engine, &event))
            MR_TRY(take(job, &event, err));
    }
    return MR_OK;
}

static enum mr_status embed_all(struct job *job, struct mr_engine *engine, struct mr_model *model, struct mr_error *err)
{
    struct mr_adapter_use adapter[MR_ADAPTERS_MAX];
    struct mr_model_info info;
    struct mr_request request;
    mr_request_defaults(&request);
    MR_TRY(adapter_list_load(adapter, &request.n_adapter, model, job->model_arguments, err));
    request.adapter = adapter;
    mr_model_info(model, &info);
    job->pooling = job->arguments->pooling > 0 ? job->arguments->pooling : info.pooling;
    for (int i = 0; i < job->n; i++)
        MR_TRY(submit(engine, model, job, &job->embedding[i], &request, err));
    return run_steps(job, engine, err);
}

static enum mr_status run(struct job *job, struct mr_error *err)
{
    struct mr_model *model = NULL;
    struct mr_engine *engine = NULL;
    struct mr_options options;
    load_options(&options, job->model_arguments);
    options.max_running = TOGETHER;
    enum mr_status status = load_model(&model, job->model_arguments, &options, err);
    if (status == MR_OK)
        status = mr_engine_create(&engine, model, &options, err);
    if (status == MR_OK)
        status = embed_all(job, engine, model, err);
    mr_engine_free(engine);
    mr_model_close(model);
    return status;
}

static json_t *vector_json(const float *vector, int n)
{
    json_t *out = json_array();
    bool ok = out != NULL;
    for (int j = 0; ok && j < n; j++)
        ok = json_array_append_new(out, json_real((double)vector[j])) == 0;
    return ok ? out : NULL;
}

static json_t *job_json(const struct job *job)
{
    json_t *vectors = json_array(), *counts = json_array();
    bool ok = vectors != NULL && counts != NULL;
    for (int i = 0; ok && i < job->n; i++)
        ok = json_array_append_new(vectors, vector_json(job->embedding[i].vector, job->n_embd)) == 0 &&
             json_array_append_new(counts, json_integer(job->embedding[i].n_token)) == 0;
    if (ok)
        return json_pack("{s:o, s:s, s:o}", "embeddings", vectors, "pooling", poolings[job->pooling], "n_tokens", counts);
    json_decref(vectors);
    json_decref(counts);
    return NULL;
}

/* A line of numbers for each text; nine digits give a float back. */
static int print(const struct job *job, const char *command)
{
    struct string_buffer out;
    if (job->arguments->json)
        return output_json(command, job_json(job), JSON_COMPACT | JSON_REAL_PRECISION(9));
    string_buffer_init(&out);
    for (int i = 0; i < job->n; i++)
        for (int j = 0; j < job->n_embd; j++)
            string_buffer_printf(&out, "%.9g%s", (double)job->embedding[i].vector[j], j + 1 < job->n_embd ? " " : "\n");
    const int result = output_text(command, &out);
    string_buffer_release(&out);
    return result;
}

/* The texts of the arguments, or the one text of a file or pipe, which `text` then holds. */
static enum mr_status find_texts(struct job *job, struct string_buffer *text, struct mr_error *err)
{
    const struct embed_arguments *a = job->arguments;
    job->n = a->prompt.n > 0 ? a->prompt.n : 1;
    job->embedding = mem_zero_array((size_t)job->n, sizeof *job->embedding);
    if (job->embedding == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for %d texts", job->n);
    for (int i = 0; i < a->prompt.n; i++) {
        job->embedding[i].text = a->prompt.s[i];
        job->embedding[i].n_text = strlen(a->prompt.s[i]);
    }
    if (a->prompt.n > 0)
        return MR_OK;
    if (a->file != NULL)
        MR_TRY(read_file(text, a->file, err));
    else
        MR_TRY(read_stream(text, stdin, "standard input", err));
    job->embedding->text = text->s != NULL ? text->s : "";
    job->embedding->n_text = text->n;
    return MR_OK;
}

static int check_arguments(const struct embed_arguments *a, const struct model_arguments *m, const char *command)
{
    if (a->prompt.n > 0 && a->file != NULL)
        return arguments_fail(command, "only one of --prompt and --file can be given");
    if (a->prompt.n == 0 && a->file == NULL && isatty(STDIN_FILENO))
        return arguments_fail(command, "-p, --prompt: a text is required, or a file, or a pipe");
    return model_arguments_check(m, command);
}

int command_embed(int argc, char **argv)
{
    struct embed_arguments a = {0};
    struct model_arguments m = {0};
    const struct argument_group groups[] = {
        {"Model:", model_argument, &m}, {NULL, compute_argument, &m}, {NULL, adapter_argument, &m}, {"Text:", rows, &a}};
    const struct command_line line = {
        .summary = "Show texts as vectors: the hidden states behind the model's last norm, pooled to one for each text.",
        .example =
            "  millrace embed -m models/SmolLM2-135M-Instruct.Q4_1.gguf -p \"A mill by the river\" --pooling mean --json",
        .group = groups,
        .n_groups = 4};
    int result = arguments_parse(argc, argv, &line);
    if (result == ARGUMENTS_GO_ON)
        result = check_arguments(&a, &m, argv[0]);
    if (result != ARGUMENTS_GO_ON)
        return result;
    struct mr_error err = {{0}};
    struct string_buffer text;
    struct job job = {.arguments = &a, .model_arguments = &m};
    string_buffer_init(&text);
    enum mr_status status = find_texts(&job, &text, &err);
    if (status == MR_OK)
        status = run(&job, &err);
    result = status == MR_OK ? print(&job, argv[0]) : output_fail_status(argv[0], status, &err);
    for (int i = 0; job.embedding != NULL && i < job.n; i++)
        free(job.embedding[i].vector);
    free(job.embedding);
    string_buffer_release(&text);
    return result;
}
