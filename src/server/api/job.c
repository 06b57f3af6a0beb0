/* job.c: what all generating endpoints do. */
#include "server/api/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/random.h"
#include "engine/loaded_model.h"
#include "server/adapter_names.h"
#include "server/keys.h"
#include "server/settings.h"

/* Ollama's clients may write a tag behind the name. */
static struct hosted_model *find_tagged(struct job *j, const char *name)
{
    static const char tag[] = ":latest";
    const size_t n = strlen(name), n_tag = sizeof tag - 1;
    if (n <= n_tag || strcmp(name + n - n_tag, tag) != 0)
        return NULL;
    char *plain = mem_string(name, n - n_tag);
    struct hosted_model *m = plain != NULL ? server_find_model(exchange_server(j->x), plain) : NULL;
    free(plain);
    return m;
}

/* The model over which an adapter of that name lies. */
static struct hosted_model *find_adapter(struct job *j, const char *name)
{
    struct server *s = exchange_server(j->x);
    j->adapter = (struct mr_adapter_use){.adapter = adapter_names_find(s->adapters, name), .scale = 1};
    if (j->adapter.adapter == 0)
        return NULL;
    j->base.adapter = &j->adapter;
    j->base.n_adapter = 1;
    return s->model;
}

static void find_model(struct job *j)
{
    const char *name = NULL;
    json_fields_string(&j->fields, "model", &name);
    if (j->error.http != 0)
        return;
    j->model = server_find_model(exchange_server(j->x), name);
    if (j->model == NULL && name != NULL)
        j->model = find_tagged(j, name);
    if (j->model == NULL && name != NULL)
        j->model = find_adapter(j, name);
    if (j->model != NULL && exchange_key(j->x) != NULL && !api_key_allows(exchange_key(j->x), j->model->name))
        j->model = NULL; /* it is not even loaded for such a key */
    if (j->adapter.adapter == 0 && j->model == exchange_server(j->x)->model) {
        j->base.adapter = j->defaults;
        j->base.n_adapter = adapter_names_defaults(exchange_server(j->x)->adapters, j->defaults);
    }
    if (j->model == NULL) {
        api_error_at(&j->error, 404, "model", "'%.80s' does not exist here", name != NULL ? name : "");
        j->error.code = "model_not_found";
        return;
    }
    j->model_name = name != NULL && *name != '\0' ? name : j->model->name;
}

struct job *job_open_value(struct exchange *x, json_t *body, const struct dialect *dialect, const char *prefix)
{
    struct job *j = mem_zero_array(1, sizeof *j);
    if (j == NULL) {
        const struct mr_error err = {"no memory for the request"};
        json_decref(body);
        exchange_fail_status(x, MR_NO_MEMORY, &err);
        return NULL;
    }
    j->x = x;
    j->dialect = dialect;
    j->body = body;
    j->fields = (struct json_fields){.object = body, .path = "", .error = &j->error};
    j->created = (int64_t)time(NULL);
    arena_init(&j->arena, JOB_ARENA_MAX);
    mr_request_defaults(&j->base);
    j->keep_alive_us = SERVER_KEEP_ALIVE;
    j->base.sampling = exchange_server(x)->settings->sampling;
    snprintf(j->id, sizeof j->id, "%s%016llx%08x", prefix, (unsigned long long)random_seed(), (unsigned)random_seed());
    find_model(j);
    if (j->error.http != 0) {
        job_fail(j);
        return NULL;
    }
    j->holds_model = server_take_model(exchange_server(x), j->model);
    if (!j->holds_model) {
        exchange_await(x, j->model);
        job_free(j);
        return NULL;
    }
    return j;
}

struct job *job_open(struct exchange *x, const struct dialect *dialect, const char *prefix)
{
    size_t n;
    const char *body = exchange_body(x, &n);
    struct api_error error = {0};
    json_t *value = json_fields_parse(body, n, &error);
    if (value == NULL) {
        exchange_fail(x, &error);
        return NULL;
    }
    return job_open_value(x, value, dialect, prefix);
}

void job_free(struct job *j)
{
    if (j == NULL)
        return;
    if (j->dialect->release != NULL)
        j->dialect->release(j);
    for (int i = 0; i < j->n_answer; i++)
        answer_close(&j->answer[i]);
    for (int i = 0; i < j->n_prompt; i++) {
        token_list_release(&j->prompt[i]);
        token_scores_release(&j->prompt_scores[i]);
    }
    mr_calls_free(j->calls);
    if (j->holds_model) {
        server_touch_model(exchange_server(j->x), j->model, j->keep_alive_us);
        server_give_model(exchange_server(j->x), j->model);
    }
    arena_release(&j->arena);
    json_decref(j->body);
    free(j);
}

void job_fail(struct job *j)
{
    exchange_fail(j->x, &j->error);
    job_free(j);
}

void *job_alloc(struct job *j, size_t n)
{
    void *p = j->error.http == 0 ? arena_alloc(&j->arena, n) : NULL;
    if (p != NULL)
        memset(p, 0, n);
    else
        api_error_at(&j->error, 503, "", "no memory for the request");
    return p;
}

bool job_make_prompts(struct job *j, int n)
{
    struct token_list *prompt = job_alloc(j, (size_t)n * sizeof *prompt);
    struct token_scores *scores = job_alloc(j, (size_t)n * sizeof *scores);
    if (prompt == NULL || scores == NULL)
        return false;
    j->prompt = prompt;
    j->prompt_scores = scores;
    j->n_prompt = n;
    return true;
}

void job_render_chat(struct job *j, const json_t *request)
{
    struct mr_error err = {{0}};
    if (j->error.http != 0 || !job_make_prompts(j, 1))
        return;
    if (j->model->chat == NULL) {
        api_error_at(&j->error, 400, "messages", "the model '%.80s' has no chat template; use /v1/completions", j->model->name);
        return;
    }
    const enum mr_status status = chat_prompt_render_request(j->model->chat, request, j->created, false, &j->prompt[0], &err);
    if (status != MR_OK)
        api_error_take_status(&j->error, status, "", &err);
}

void job_set_calls(struct job *j, const json_t *tools, const char *choice, bool parallel, bool keep_reasoning)
{
    struct mr_error err = {{0}};
    const bool has_tools = json_array_size(tools) > 0;
    if (j->error.http != 0)
        return;
    char *text = has_tools ? json_dumps(tools, JSON_COMPACT) : NULL;
    const char *chat = chat_prompt_template(j->model->chat);
    const struct mr_calls_options options = {.tools = text,
                                             .choice = choice,
                                             .parallel = parallel,
                                             .format = call_format_detect(chat, strlen(chat))->name,
                                             .chat_template = keep_reasoning ? NULL : chat,
                                             .reasoning_begun =
                                                 !keep_reasoning && chat_prompt_opens_reasoning(j->model->chat, &j->prompt[0])};
    enum mr_status status = has_tools && text == NULL ? mr_fail(&err, MR_NO_MEMORY, "no memory for the tools") : MR_OK;
    if (status == MR_OK)
        status = mr_calls_create(&j->calls, &options, &err);
    free(text);
    if (status != MR_OK) {
        api_error_take_status(&j->error, status, "", &err);
        return;
    }
    const char *constraint = mr_calls_constraint(j->calls);
    if (constraint == NULL)
        return;
    if (j->constraint != NULL)
        api_error_at(&j->error, 400, j->constraint, "and tools exclude each other, unless tool_choice is 'none'");
    j->base.constraint = MR_CONSTRAINT_CALLS;
    j->base.constraint_text = constraint;
    j->constraint = "tools";
}

void job_check_context(struct job *j)
{
    for (int i = 0; i < j->n_prompt && j->error.http == 0; i++) {
        if (j->prompt[i].n < (size_t)j->model->n_ctx)
            continue;
        api_error_at(&j->error, 400, "", "the prompt has %zu tokens and the context %d, which leaves no room for an answer",
                     j->prompt[i].n, j->model->n_ctx);
        j->error.type = "exceed_context_size_error";
        j->error.code = "context_length_exceeded";
        j->error.n_prompt = j->prompt[i].n < INT32_MAX ? (int32_t)j->prompt[i].n : INT32_MAX;
        j->error.n_ctx = j->model->n_ctx;
    }
}

/* Where write_piece writes to. */
struct writer {
    struct job *j;
    struct string_buffer *out;
};

static void write_piece(void *context, struct answer *a, const struct mr_piece *piece)
{
    const struct writer *w = context;
    w->j->dialect->piece(w->j, a, piece, w->out);
}

static enum mr_status out_status(const struct string_buffer *out, struct mr_error *err)
{
    return out->failed ? mr_fail(err, MR_NO_MEMORY, "no memory for the answer") : MR_OK;
}

static enum mr_status take_event(void *self, int i, const struct mr_event *e, struct string_buffer *out, struct mr_error *err)
{
    struct job *j = self;
    if (i < 0 || i >= j->n_prompt || e->sample < 0 || e->sample >= j->base.n)
        return mr_fail(err, MR_IO, "an event belongs to no answer");
    if (j->dialect->is_cancelled != NULL && j->dialect->is_cancelled(j))
        return mr_fail(err, MR_BAD_INPUT, "it was cancelled");
    if (!j->has_begun && j->dialect->started != NULL)
        j->dialect->started(j);
    if (j->stream && !j->has_begun && j->dialect->begin != NULL)
        j->dialect->begin(j, out);
    j->has_begun = true;
    if (e->is_prompt)
        return token_scores_add(&j->prompt_scores[i], e) ? out_status(out, err)
                                                         : mr_fail(err, MR_NO_MEMORY, "no memory for the answer");
    struct answer *a = &j->answer[i * j->base.n + e->sample];
    struct writer w = {j, out};
    MR_TRY(answer_take(a, e, j->stream ? write_piece : NULL, &w, err));
    if (j->stream && e->finish != MR_FINISH_NONE)
        j->dialect->answer_end(j, a, out);
    return out_status(out, err);
}

static enum mr_status end(void *self, struct string_buffer *out, struct mr_error *err)
{
    struct job *j = self;
    (j->stream ? j->dialect->end : j->dialect->whole)(j, out);
    return out_status(out, err);
}

static void fail(void *self, const struct api_error *e, struct string_buffer *out)
{
    struct job *j = self;
    j->dialect->fail(j, e, out);
}

static void refused(void *self, const struct api_error *e)
{
    struct job *j = self;
    if (j->dialect->refused != NULL)
        j->dialect->refused(j, e);
}

static void release(void *self) { job_free(self); }

static void make_answers(struct job *j)
{
    struct mr_error err = {{0}};
    const int n = j->n_prompt * j->base.n;
    struct answer *answer = job_alloc(j, (size_t)n * sizeof *answer);
    enum mr_status status = MR_OK;
    j->answer = answer;
    for (int i = 0; answer != NULL && i < n && status == MR_OK; i++) {
        answer[i].index = i;
        answer[i].prompt = i / j->base.n;
        answer[i].keeps_text = !j->stream || j->dialect->keeps_text;
        answer[i].tokenizer = j->model->model->tokenizer;
        answer[i].keeps_raw = j->keeps_raw && j->base.n_stop > 0;
        answer[i].keeps_tokens = j->keeps_tokens;
        answer[i].keeps_scores = j->keeps_scores;
        j->n_answer = i + 1;
        status = answer_open(&answer[i], j->calls, &err);
    }
    if (status != MR_OK)
        api_error_take_status(&j->error, status, "", &err);
}

void job_start(struct job *j)
{
    const struct responder responder = {.content_type = j->stream ? j->dialect->stream_type : "application/json",
                                        .is_stream = j->stream,
                                        .keep_alive = j->stream ? j->dialect->keep_alive : NULL,
                                        .constraint = j->constraint,
                                        .event = take_event,
                                        .end = end,
                                        .refused = refused,
                                        .fail = fail,
                                        .free = release};
    job_check_context(j);
    if ((int64_t)j->n_prompt * j->base.n > JOB_PROMPTS_MAX)
        api_error_at(&j->error, 400, "n", "times the number of prompts must be at most %d", JOB_PROMPTS_MAX);
    struct mr_request *request = j->error.http == 0 ? job_alloc(j, (size_t)j->n_prompt * sizeof *request) : NULL;
    if (request != NULL)
        make_answers(j);
    if (j->error.http != 0) {
        job_fail(j);
        return;
    }
    for (int i = 0; i < j->n_prompt; i++) {
        request[i] = j->base;
        request[i].prompt = j->prompt[i].id;
        request[i].n_prompt = (int32_t)j->prompt[i].n;
    }
    exchange_generate(j->x, j->model, request, j->n_prompt, &responder, j);
}
