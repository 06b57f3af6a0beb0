/* template.c: `millrace template`: a chat as the text that the model reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/arguments.h"
#include "cli/chat_option.h"
#include "cli/command.h"
#include "cli/model_arguments.h"
#include "cli/output.h"
#include "cli/read_input.h"
#include "text/chat_renderer.h"

struct options {
    const char *messages, *tools;
    bool no_generation_prompt, json;
    struct argument_list variables;
};

static const struct argument rows[] = {
    {.name = "messages",
     .value = "FILE",
     .help = "JSON file with a list of messages, or with a request that holds messages, tools, ... (default: standard input)",
     .parse = argument_string,
     .offset = offsetof(struct options, messages)},
    {.name = "tools",
     .value = "FILE",
     .help = "JSON file with a list of tools",
     .parse = argument_string,
     .offset = offsetof(struct options, tools)},
    {.name = "no-generation-prompt",
     .help = "End with the last message, not with the begin of an answer",
     .parse = argument_flag,
     .offset = offsetof(struct options, no_generation_prompt)},
    {.name = "var",
     .value = "NAME=JSON",
     .help = "A variable for the template, as in enable_thinking=false; may be given several times",
     .parse = argument_append,
     .offset = offsetof(struct options, variables)},
    {.name = "json",
     .help = "Print {\"prompt\": text, \"runs\": [{\"text\", \"from\": \"template\" or \"caller\"}]}",
     .parse = argument_flag,
     .offset = offsetof(struct options, json)},
    {0}};

static enum mr_status load_json(json_t **out, const char *path, struct mr_error *err)
{
    struct string_buffer text;
    json_error_t json_error;
    const bool is_stdin = path == NULL || strcmp(path, "-") == 0;
    const char *name = is_stdin ? "standard input" : path;
    string_buffer_init(&text);
    *out = NULL;
    enum mr_status status = is_stdin ? read_stream(&text, stdin, name, err) : read_file(&text, path, err);
    if (status == MR_OK) {
        *out = json_loadb(text.s != NULL ? text.s : "", text.n, JSON_REJECT_DUPLICATES, &json_error);
        if (*out == NULL)
            status = mr_fail(err, MR_BAD_INPUT, "%s: line %d: %s", name, json_error.line, json_error.text);
    }
    string_buffer_release(&text);
    return status;
}

/* Put a value into the request, which must be new to it. Steals v. */
static enum mr_status set(json_t *request, const char *key, json_t *v, struct mr_error *err)
{
    return json_object_set_new(request, key, v) == 0 ? MR_OK : mr_fail(err, MR_NO_MEMORY, "out of memory");
}

static enum mr_status add_variable(json_t *request, const char *argument, struct mr_error *err)
{
    const char *equals = strchr(argument, '=');
    json_error_t json_error;
    if (equals == NULL || equals == argument)
        return mr_fail(err, MR_BAD_INPUT, "--var: '%.60s' is not NAME=JSON", argument);
    json_t *v = json_loads(equals + 1, JSON_DECODE_ANY, &json_error);
    if (v == NULL)
        return mr_fail(err, MR_BAD_INPUT, "--var: '%.60s': %s", argument, json_error.text);
    char *name = strndup(argument, (size_t)(equals - argument));
    json_t *variables = json_object_get(request, "chat_template_kwargs");
    enum mr_status status = MR_OK;
    if (!json_is_object(variables)) {
        status = set(request, "chat_template_kwargs", json_object(), err);
        variables = json_object_get(request, "chat_template_kwargs");
    }
    if (name == NULL || json_object_set(variables, name, v) != 0)
        status = mr_fail(err, MR_BAD_INPUT, "--var: '%.60s' has no valid name", argument);
    json_decref(v);
    free(name);
    return status;
}

/* The request: a list of messages is one without anything else. */
static enum mr_status load_request(json_t **out, const struct options *o, struct mr_error *err)
{
    json_t *tools;
    MR_TRY(load_json(out, o->messages, err));
    if (json_is_array(*out))
        *out = json_pack("{s:o}", "messages", *out);
    if (!json_is_object(*out))
        return mr_fail(err, MR_BAD_INPUT, "messages: expected a list of messages, or an object that holds them");
    if (o->tools != NULL) {
        MR_TRY(load_json(&tools, o->tools, err));
        MR_TRY(set(*out, "tools", tools, err));
    }
    if (o->no_generation_prompt)
        MR_TRY(set(*out, "add_generation_prompt", json_false(), err));
    for (int i = 0; i < o->variables.n; i++)
        MR_TRY(add_variable(*out, o->variables.s[i], err));
    return MR_OK;
}

static json_t *json_of(const struct rendered *r)
{
    json_t *runs = json_array();
    for (size_t i = 0; i < r->n_run; i++) {
        json_t *run =
            json_pack("{s:s%, s:s}", "text", r->run[i].s, r->run[i].n, "from", r->run[i].match_control ? "template" : "caller");
        if (run == NULL || json_array_append_new(runs, run) != 0) {
            json_decref(runs);
            return NULL;
        }
    }
    return json_pack("{s:s%, s:o}", "prompt", r->text.n > 0 ? r->text.s : "", r->text.n, "runs", runs);
}

static int render(const struct options *o, const struct chat_renderer *p, const char *command)
{
    struct mr_error err;
    struct rendered r;
    json_t *request;
    enum mr_status status = load_request(&request, o, &err);
    if (status == MR_OK)
        status = chat_renderer_render(p, request, (int64_t)time(NULL), &r, &err);
    json_decref(request);
    if (status != MR_OK)
        return output_fail(command, err.message);
    const int result = o->json ? output_json(command, json_of(&r), JSON_COMPACT) : output_text(command, &r.text);
    rendered_release(&r);
    return result;
}

static enum mr_status open_tokenizer(struct tokenizer **out, const char *path, struct mr_error *err)
{
    struct gguf *g;
    *out = NULL;
    if (path == NULL)
        return MR_OK;
    MR_TRY(gguf_open(&g, path, err));
    const enum mr_status status = tokenizer_create(out, g, err);
    gguf_close(g);
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "'%s'", path);
}

/* The template that the option names, else the model's own. t may be NULL. */
static enum mr_status open_renderer(struct chat_renderer **out, const char *name, const struct tokenizer *t,
                                    struct mr_error *err)
{
    const struct gguf_string own = t != NULL ? tokenizer_chat_template(t) : (struct gguf_string){NULL, 0};
    struct string_buffer source;
    *out = NULL;
    if (name == NULL && own.n == 0)
        return chat_option_missing(err);
    string_buffer_init(&source);
    enum mr_status status = MR_OK;
    if (name != NULL)
        status = chat_option_read(&source, name, err);
    else
        string_buffer_add(&source, own.s, own.n);
    if (status == MR_OK)
        status = source.failed ? mr_fail(err, MR_NO_MEMORY, "out of memory")
                               : chat_renderer_create(out, source.s != NULL ? source.s : "", source.n, t, err);
    string_buffer_release(&source);
    return status;
}

static int open_and_render(const struct options *o, const struct model_arguments *model, const char *command)
{
    struct mr_error err;
    struct tokenizer *t;
    struct chat_renderer *r = NULL;
    enum mr_status status = open_tokenizer(&t, model->model, &err);
    if (status == MR_OK)
        status = open_renderer(&r, model->chat_template, t, &err);
    const int result = status == MR_OK ? render(o, r, command) : output_fail(command, err.message);
    chat_renderer_free(r);
    tokenizer_free(t);
    return result;
}

int command_template(int argc, char **argv)
{
    struct options o = {0};
    struct model_arguments model = {0};
    const struct argument_group groups[] = {
        {.rows = model_argument, .into = &model}, {.rows = template_argument, .into = &model}, {.rows = rows, .into = &o}};
    const struct command_line line = {
        .summary = "Show a chat as the text that the model reads: render it with the model's chat template, or another.",
        .example = "  millrace template -m models/SmolLM2-135M-Instruct.Q4_1.gguf --messages chat.json --json\n"
                   "  echo '[{\"role\": \"user\", \"content\": \"Hello\"}]' | millrace template --chat-template chatml",
        .group = groups,
        .n_groups = 3};
    const int status = arguments_parse(argc, argv, &line);
    if (status != ARGUMENTS_GO_ON)
        return status;
    if (model.model == NULL && model.chat_template == NULL)
        return arguments_fail(argv[0], "-m, --model or --chat-template: one of them is required");
    if (o.messages == NULL && isatty(STDIN_FILENO))
        return arguments_fail(argv[0], "--messages: a file is required, or a pipe");
    return open_and_render(&o, &model, argv[0]);
}
