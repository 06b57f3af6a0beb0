/* run.c: `millrace run`: one answer, or a conversation on the terminal. */
#include "cli/run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/adapter_list.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/pin_option.h"
#include "cli/read_input.h"
#include "engine/loaded_model.h"
#include "sample/sampler.h"

enum {
    BEST_OF_AT_ONCE = 16 /* answers computed at a time */
};

static const struct argument run_argument[] = {
    {.name = "prompt",
     .letter = 'p',
     .value = "TEXT",
     .help = "Answer this once; without it a pipe is read, or a conversation begins",
     .parse = argument_string,
     .offset = offsetof(struct run_arguments, prompt)},
    {.name = "file",
     .letter = 'f',
     .value = "FILE",
     .help = "Read the prompt from a file",
     .parse = argument_string,
     .offset = offsetof(struct run_arguments, file)},
    {.name = "system",
     .value = "TEXT",
     .help = "System message of the chat",
     .parse = argument_string,
     .offset = offsetof(struct run_arguments, system)},
    {.name = "raw",
     .help = "Continue the prompt as it stands, without a chat template",
     .parse = argument_flag,
     .offset = offsetof(struct run_arguments, raw)},
    {.name = "json",
     .help = "Print one JSON object instead of streaming the text",
     .parse = argument_flag,
     .offset = offsetof(struct run_arguments, json)},
    {.name = "n-predict",
     .letter = 'n',
     .value = "N",
     .help = "Tokens of the answer at most; -1: until the context is full (default: -1)",
     .parse = argument_int,
     .offset = offsetof(struct run_arguments, max_tokens),
     .low = -1,
     .high = INT_MAX},
    {.name = "predict"},
    {.name = "max-tokens"},
    {.name = "ignore-eos",
     .help = "Never choose a token that ends the answer",
     .parse = argument_flag,
     .offset = offsetof(struct run_arguments, ignore_eos)},
    {.name = "stop",
     .value = "TEXT",
     .help = "End the answer before this text (may be repeated)",
     .parse = argument_append,
     .offset = offsetof(struct run_arguments, stop)},
    {.name = "reverse-prompt", .letter = 'r'},
    {.name = "bad-word",
     .value = "TEXT",
     .help = "This text is never part of the answer (may be repeated)",
     .parse = argument_append,
     .offset = offsetof(struct run_arguments, bad_word)},
    {.name = "best-of",
     .value = "N",
     .help = "Compute N answers and give the one whose tokens the model finds likeliest; nothing is streamed",
     .parse = argument_int,
     .offset = offsetof(struct run_arguments, best_of),
     .low = 1,
     .high = MR_N_MAX},
    {.name = "prompt-logprobs",
     .value = "N",
     .help = "With --json: what the model thought of each token of the prompt, and its N likeliest alternatives",
     .parse = argument_int,
     .offset = offsetof(struct run_arguments, prompt_logprobs),
     .low = 0,
     .high = MR_TOP_LOGPROBS_MAX},
    {.name = "prediction",
     .value = "FILE",
     .help = "Text that the answer is expected to have much of, which makes it faster and changes nothing",
     .parse = argument_string,
     .offset = offsetof(struct run_arguments, prediction)},
    {.name = "token-healing",
     .help = "Choose the prompt's last token again, among those that begin with its text",
     .parse = argument_flag,
     .offset = offsetof(struct run_arguments, token_healing)},
    {.name = "special",
     .help = "Show control tokens in the answer; with --raw they are also read in the prompt",
     .parse = argument_flag,
     .offset = offsetof(struct run_arguments, special)},
    {.name = "parse-special",
     .help = "Control tokens written in the prompt or a message are read as such (default: they stay text)",
     .parse = argument_flag,
     .offset = offsetof(struct run_arguments, parse_special)},
    {.name = "verbose-prompt",
     .help = "Show the prompt's tokens on stderr",
     .parse = argument_flag,
     .offset = offsetof(struct run_arguments, verbose_prompt)},
    {.name = "no-stats",
     .letter = 'q',
     .help = "Do not print times at the end",
     .parse = argument_flag,
     .offset = offsetof(struct run_arguments, quiet)},
    {.name = "quiet"},
    {0}};

struct mr_request run_request(const struct run *r, const struct token_list *prompt)
{
    struct mr_request request;
    mr_request_defaults(&request);
    request.prompt = prompt->id;
    request.n_prompt = prompt->n < INT32_MAX ? (int32_t)prompt->n : INT32_MAX;
    request.max_tokens = r->options.max_tokens;
    request.sampling = r->sampling.sampling;
    request.bias = r->sampling.bias;
    request.n_bias = r->sampling.n_bias;
    request.stop = r->options.stop.s;
    request.n_stop = r->options.stop.n;
    request.ignore_eos = r->options.ignore_eos;
    request.show_special = r->options.special;
    request.bad_word = r->options.bad_word.s;
    request.n_bad_word = r->options.bad_word.n;
    request.best_of = r->options.best_of;
    request.prompt_logprobs = r->options.prompt_logprobs;
    request.prediction = r->prediction.id;
    request.n_prediction = r->prediction.n < INT32_MAX ? (int32_t)r->prediction.n : INT32_MAX;
    request.token_healing = r->options.token_healing;
    request.constraint = r->constraint.kind;
    request.constraint_text = r->constraint.text;
    if (r->calls != NULL && mr_calls_constraint(r->calls) != NULL) {
        request.constraint = MR_CONSTRAINT_CALLS;
        request.constraint_text = mr_calls_constraint(r->calls);
    }
    request.adapter = r->adapter;
    request.n_adapter = r->n_adapter;
    return request;
}

void run_show_prompt(const struct run *r, const struct token_list *prompt)
{
    for (size_t i = 0; i < prompt->n; i++) {
        const struct gguf_string piece = tokenizer_piece(r->model->tokenizer, prompt->id[i], true);
        fprintf(stderr, "%6d '%.*s'\n", prompt->id[i], (int)piece.n, piece.s);
    }
}

/* The text to answer: --prompt, --file, or what comes through a pipe. */
static enum mr_status read_prompt(const struct run *r, struct string_buffer *text, struct mr_error *err)
{
    if (r->options.prompt != NULL)
        string_buffer_puts(text, r->options.prompt);
    else if (r->options.file != NULL)
        string_buffer_add(text, r->file_text.s, r->file_text.n);
    else
        MR_TRY(read_stream(text, stdin, "standard input", err));
    if (text->n == 0 && r->options.prompt == NULL)
        return mr_fail(err, MR_BAD_INPUT, "the prompt is empty");
    return text->failed ? mr_fail(err, MR_NO_MEMORY, "no memory for the prompt") : MR_OK;
}

static enum mr_status chat_tokens(const struct run *r, const struct string_buffer *text, struct token_list *ids,
                                  struct mr_error *err)
{
    json_t *messages = json_array();
    if (r->options.system != NULL)
        json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content", r->options.system));
    json_array_append_new(messages,
                          json_pack("{s:s, s:s%}", "role", "user", "content", text->s != NULL ? text->s : "", text->n));
    const size_t n_wanted = r->options.system != NULL ? 2 : 1;
    enum mr_status status = MR_OK;
    if (json_array_size(messages) != n_wanted)
        status = mr_fail(err, MR_BAD_INPUT, "the prompt or the system message is not UTF-8");
    else
        status = chat_prompt_render(r->chat, messages, r->tools.list, (int64_t)time(NULL), r->options.parse_special, ids, err);
    json_decref(messages);
    return status;
}

static enum mr_status prompt_tokens(const struct run *r, struct token_list *ids, struct mr_error *err)
{
    struct string_buffer text;
    string_buffer_init(&text);
    enum mr_status status = read_prompt(r, &text, err);
    if (status == MR_OK && r->chat != NULL)
        status = chat_tokens(r, &text, ids, err);
    else if (status == MR_OK)
        status = tokenizer_encode(r->model->tokenizer,
                                  &(struct text_run){.s = text.s != NULL ? text.s : "",
                                                     .n = text.n,
                                                     .match_control = r->options.special || r->options.parse_special},
                                  1, ENCODE_ADD_BOS, ids, err);
    string_buffer_release(&text);
    return status;
}

/* The answer split into reasoning, content and calls. */
static enum mr_status print_calls(const struct run *r, const struct generation *g, struct mr_error *err)
{
    json_t *message;
    MR_TRY(tool_arguments_split(&message, r->calls, g, err));
    enum mr_status status = MR_OK;
    if (!r->options.json)
        tool_arguments_print(message, stdout);
    else if (json_object_set_new(message, "seed", json_integer((json_int_t)r->sampling.sampling.seed)) != 0 ||
             json_dumpf(message, stdout, JSON_REAL_PRECISION(9)) != 0 || putchar('\n') == EOF)
        status = mr_fail(err, MR_IO, "the answer could not be written");
    json_decref(message);
    if (fflush(stdout) != 0)
        status = mr_fail(err, MR_IO, "the answer could not be written");
    if (status == MR_OK && !r->options.json && !r->options.quiet)
        generation_print_stats(g, stderr);
    return status;
}

static enum mr_status print_json(const struct run *r, const struct generation *g, struct mr_error *err)
{
    json_t *json = generation_json(g);
    if (json == NULL || json_object_set_new(json, "seed", json_integer((json_int_t)r->sampling.sampling.seed)) != 0 ||
        json_dumpf(json, stdout, JSON_REAL_PRECISION(9)) != 0) {
        json_decref(json);
        return mr_fail(err, MR_IO, "the answer could not be written");
    }
    json_decref(json);
    putchar('\n');
    return MR_OK;
}

static enum mr_status print_answer(const struct run *r, const struct generation *g, struct mr_error *err)
{
    if (r->options.json)
        return print_json(r, g, err);
    if (g->text.n > 0 && g->text.s[g->text.n - 1] != '\n')
        putchar('\n');
    if (fflush(stdout) != 0) /* before the figures, which go another way */
        return mr_fail(err, MR_IO, "the answer could not be written");
    if (!r->options.quiet)
        generation_print_stats(g, stderr);
    return MR_OK;
}

/* What the answer may call, once the prompt is known. */
static enum mr_status make_calls(struct run *r, const struct token_list *prompt, struct mr_error *err)
{
    if (r->tools.list == NULL)
        return MR_OK;
    return tool_arguments_calls(&r->calls, &r->tools, chat_prompt_template(r->chat),
                                chat_prompt_opens_reasoning(r->chat, prompt), err);
}

static int answer_once(struct run *r)
{
    struct mr_error err = {{0}};
    struct token_list prompt = {0};
    struct generation g;
    generation_init(&g);
    enum mr_status status = prompt_tokens(r, &prompt, &err);
    if (status == MR_OK && r->options.verbose_prompt)
        run_show_prompt(r, &prompt);
    if (status == MR_OK)
        status = make_calls(r, &prompt, &err);
    if (status == MR_OK) {
        const struct mr_request request = run_request(r, &prompt);
        const bool is_whole = r->options.json || r->calls != NULL;
        status = generation_run(&g, r->engine, &request, is_whole ? NULL : stdout, &err);
    }
    if (status == MR_OK)
        status = r->calls != NULL ? print_calls(r, &g, &err) : print_answer(r, &g, &err);
    const bool cancelled = g.finish == MR_FINISH_CANCELLED;
    token_list_release(&prompt);
    generation_release(&g);
    if (status != MR_OK)
        return output_fail_status(r->command, status, &err);
    return cancelled ? EXIT_INTERRUPTED : EXIT_SUCCESS;
}

/* The tokens of --prediction; those that no context has room for are left out. */
static enum mr_status read_prediction(struct run *r, struct mr_error *err)
{
    struct string_buffer text;
    if (r->options.prediction == NULL)
        return MR_OK;
    string_buffer_init(&text);
    enum mr_status status = read_file(&text, r->options.prediction, err);
    if (status == MR_OK)
        status = tokenizer_encode(r->model->tokenizer, &(struct text_run){.s = text.s != NULL ? text.s : "", .n = text.n}, 1, 0,
                                  &r->prediction, err);
    string_buffer_release(&text);
    const size_t n_ctx = (size_t)mr_engine_n_ctx(r->engine);
    if (status == MR_OK && r->prediction.n > n_ctx)
        fprintf(stderr, "%s: warning: --prediction '%s' has %zu tokens, cut to the %zu of the context\n", r->command,
                r->options.prediction, r->prediction.n, n_ctx);
    return status;
}

static enum mr_status open_run(struct run *r, struct mr_error *err)
{
    struct mr_options options;
    load_options(&options, &r->model_options);
    if (r->options.best_of > options.max_running)
        options.max_running = r->options.best_of < BEST_OF_AT_ONCE ? r->options.best_of : BEST_OF_AT_ONCE;
    MR_TRY(load_model(&r->model, &r->model_options, &options, err));
    MR_TRY(adapter_list_load(r->adapter, &r->n_adapter, r->model, &r->model_options, err));
    if (!r->options.raw) {
        const enum mr_status status = load_chat_prompt(&r->chat, r->model, &r->model_options, err);
        if (status == MR_NOT_FOUND && r->model_options.chat_template == NULL)
            return mr_fail(err, status,
                           "%s has no chat template: choose one with --chat-template, or continue plain text with --raw",
                           r->model_options.model);
        MR_TRY(status);
    }
    MR_TRY(pin_option_plan(&options, r->model, &r->model_options, err));
    MR_TRY(mr_engine_create(&r->engine, r->model, &options, err));
    MR_TRY(pin_option_run(r->engine, r->model, &r->model_options, err));
    MR_TRY(read_prediction(r, err));
    return interrupt_seen() ? mr_fail(err, MR_CANCELLED, "interrupted") : MR_OK;
}

static void close_run(struct run *r)
{
    load_warn_of_cache(r->engine, &r->model_options);
    mr_engine_free(r->engine);
    mr_calls_free(r->calls);
    token_list_release(&r->prediction);
    tool_arguments_release(&r->tools);
    chat_prompt_free(r->chat);
    mr_model_close(r->model);
    string_buffer_release(&r->file_text);
}

static int check_bad_words(const struct run *r)
{
    if (r->options.bad_word.n > MR_BAD_WORDS_MAX)
        return arguments_fail(r->command, "--bad-word: given %d times, at most %d are possible", r->options.bad_word.n,
                              MR_BAD_WORDS_MAX);
    for (int i = 0; i < r->options.bad_word.n; i++) {
        const size_t n = strlen(r->options.bad_word.s[i]);
        if (n < 1 || n > MR_BAD_WORD_BYTES_MAX)
            return arguments_fail(r->command, "--bad-word: a text of %zu bytes, must have 1 to %d", n, MR_BAD_WORD_BYTES_MAX);
    }
    if (r->options.token_healing && (r->options.bad_word.n > 0 || r->constraint.kind != MR_CONSTRAINT_NONE))
        return arguments_fail(r->command,
                              "--token-healing excludes --bad-word, --json-schema, --json-object, --regex and --grammar");
    return ARGUMENTS_GO_ON;
}

static int check_stops(const struct run *r)
{
    for (int i = 0; i < r->options.stop.n; i++) {
        const size_t n = strlen(r->options.stop.s[i]);
        if (n < 1 || n > MR_STOP_BYTES_MAX)
            return arguments_fail(r->command, "--stop: a text of %zu bytes, must have 1 to %d", n, MR_STOP_BYTES_MAX);
    }
    return ARGUMENTS_GO_ON;
}

static int check_tools(const struct run *r, bool interactive)
{
    const struct tool_arguments *t = &r->tools;
    if (t->file == NULL && (t->choice != NULL || t->format != NULL || t->single))
        return arguments_fail(r->command, "--tool-choice, --tool-format and --no-parallel-tool-calls need --tools");
    if (t->file != NULL && interactive)
        return arguments_fail(r->command, "--tools needs a prompt: -p, --file or a pipe");
    if (t->file != NULL && r->options.raw)
        return arguments_fail(r->command, "--tools needs a chat template, which --raw leaves out");
    if (t->file != NULL && (r->options.ignore_eos || r->constraint.kind != MR_CONSTRAINT_NONE))
        return arguments_fail(r->command, "--tools excludes --ignore-eos, --json-schema, --json-object, --regex and --grammar");
    return ARGUMENTS_GO_ON;
}

/* Options that contradict each other. */
static int check_arguments(const struct run *r, bool interactive)
{
    const struct run_arguments *o = &r->options;
    if (o->prompt != NULL && o->file != NULL)
        return arguments_fail(r->command, "--prompt and --file exclude each other");
    if (o->raw && o->system != NULL)
        return arguments_fail(r->command, "--system needs a chat template, which --raw leaves out");
    if (o->raw && r->model_options.chat_template != NULL)
        return arguments_fail(r->command, "--chat-template and --raw exclude each other");
    if (interactive && o->json)
        return arguments_fail(r->command, "--json needs a prompt: -p, --file or a pipe");
    if (interactive && o->raw)
        return arguments_fail(r->command, "--raw needs a prompt: -p, --file or a pipe");
    if (o->prompt_logprobs >= 0 && !o->json)
        return arguments_fail(r->command, "--prompt-logprobs needs --json");
    if (o->ignore_eos && r->constraint.kind != MR_CONSTRAINT_NONE)
        return arguments_fail(r->command, "--ignore-eos excludes --json-schema, --json-object, --regex and --grammar");
    int status = check_stops(r);
    if (status == ARGUMENTS_GO_ON)
        status = check_bad_words(r);
    if (status == ARGUMENTS_GO_ON)
        status = check_tools(r, interactive);
    return status == ARGUMENTS_GO_ON ? model_arguments_check(&r->model_options, r->command) : status;
}

static int parse(struct run *r, int argc, char **argv)
{
    const struct argument_group groups[] = {
        {"Model:", model_argument, &r->model_options},
        {NULL, compute_argument, &r->model_options},
        {NULL, adapter_argument, &r->model_options},
        {NULL, cache_argument, &r->model_options},
        {NULL, template_argument, &r->model_options},
        {"Prompt and answer:", run_argument, &r->options},
        {"How tokens are chosen:", sampling_argument, &r->sampling},
        {"What the answer obeys:", constraint_argument, &r->constraint},
        {"Functions that the answer may call:", tool_argument, &r->tools},
    };
    const struct command_line line = {
        .summary = "Answer a prompt, or converse on the terminal.",
        .example =
            "  millrace run -m models/SmolLM2-135M-Instruct.Q4_1.gguf -p \"What is the capital of France?\" --temp 0\n"
            "  millrace run -m MODEL                     (a conversation; /help lists its commands)\n"
            "  cat notes.txt | millrace run -m MODEL --raw -n 64\n"
            "  millrace run -m MODEL -f edit_this.txt --prediction before.c    (an answer much like a text that is there)",
        .group = groups,
        .n_groups = sizeof groups / sizeof *groups};
    return arguments_parse(argc, argv, &line);
}

static int open_and_answer(struct run *r, bool interactive)
{
    struct mr_error err = {{0}};
    const struct sampling_arguments *s = &r->sampling;
    enum mr_status status = MR_OK;
    if (r->options.file != NULL)
        status = read_file(&r->file_text, r->options.file, &err);
    if (status == MR_OK)
        status = tool_arguments_read(&r->tools, &err);
    if (status == MR_OK)
        status = open_run(r, &err);
    if (status != MR_OK)
        return output_fail_status(r->command, status, &err);
    if (sampling_check(&s->sampling, s->bias, s->n_bias, model_info(r->model->model)->n_vocab, &err) != MR_OK)
        return arguments_fail(r->command, "--logit-bias: %s", err.message); /* all else was checked before */
    return interactive ? chat_loop(r) : answer_once(r);
}

int command_run(int argc, char **argv)
{
    struct run r = {.command = argv[0], .options = {.max_tokens = -1, .prompt_logprobs = -1}};
    sampling_arguments_defaults(&r.sampling);
    int status = parse(&r, argc, argv);
    if (status != ARGUMENTS_GO_ON)
        return status;
    sampling_arguments_finish(&r.sampling);
    const bool interactive = r.options.prompt == NULL && r.options.file == NULL && isatty(STDIN_FILENO);
    status = constraint_arguments_read(&r.constraint, r.command);
    if (status == ARGUMENTS_GO_ON)
        status = check_arguments(&r, interactive);
    if (status != ARGUMENTS_GO_ON) {
        constraint_arguments_release(&r.constraint);
        return status;
    }
    status = open_and_answer(&r, interactive);
    close_run(&r);
    constraint_arguments_release(&r.constraint);
    return status;
}
