/* tool_arguments.c: functions that an answer may call, and what it called. */
#include "cli/tool_arguments.h"

#include <stdlib.h>
#include <string.h>

#include "cli/read_input.h"

#define FIELD(name) offsetof(struct tool_arguments, name)
const struct argument tool_argument[] = {
    {.name = "tools",
     .value = "FILE",
     .help = "Functions that the answer may call: a JSON list as in OpenAI's API",
     .parse = argument_string,
     .offset = FIELD(file)},
    {.name = "tool-choice",
     .value = "HOW",
     .help = "auto, none, required, or the function to call (default: auto)",
     .parse = argument_string,
     .offset = FIELD(choice)},
    {.name = "tool-format",
     .value = "NAME",
     .help =
         "How the model writes calls: deepseek, deepseek-v3.1, mistral-args, mistral, granite, hermes, llama3, gemma or json "
         "(default: by the chat template)",
     .parse = argument_string,
     .offset = FIELD(format)},
    {.name = "no-parallel-tool-calls", .help = "One call at most", .parse = argument_flag, .offset = FIELD(single)},
    {0}};

enum mr_status tool_arguments_calls(struct mr_calls **out, const struct tool_arguments *a, const char *chat_template,
                                    bool reasoning_begun, struct mr_error *err)
{
    const struct mr_calls_options options = {.tools = a->text,
                                             .choice = a->choice,
                                             .parallel = !a->single,
                                             .format = a->format,
                                             .chat_template = chat_template,
                                             .reasoning_begun = reasoning_begun};
    return mr_calls_create(out, &options, err);
}

enum mr_status tool_arguments_read(struct tool_arguments *a, struct mr_error *err)
{
    struct string_buffer text;
    struct mr_calls *calls;
    json_error_t why;
    if (a->file == NULL)
        return MR_OK;
    string_buffer_init(&text);
    enum mr_status status = read_file(&text, a->file, err);
    if (status == MR_OK && text.s != NULL && strlen(text.s) == text.n) {
        a->text = text.s; /* taken over */
        string_buffer_init(&text);
        status = tool_arguments_calls(&calls, a, NULL, false, err);
    } else if (status == MR_OK) {
        status = mr_fail(err, MR_BAD_INPUT, "'%s' is empty or holds a NUL byte", a->file);
    }
    string_buffer_release(&text);
    if (status != MR_OK)
        return mr_fail_in(err, status, "--tools");
    mr_calls_free(calls);
    a->list = json_loads(a->text, JSON_REJECT_DUPLICATES, &why);
    return a->list != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for the functions");
}

void tool_arguments_release(struct tool_arguments *a)
{
    json_decref(a->list);
    free(a->text);
}

/* What the pieces join to. */
struct split {
    struct string_buffer content, reasoning, name, arguments;
    json_t *calls;
};

static bool add_call(struct split *s)
{
    char id[24];
    snprintf(id, sizeof id, "call_%zu", json_array_size(s->calls));
    return json_array_append_new(s->calls,
                                 json_pack("{s:s, s:s, s:{s:s%, s:s%}}", "id", id, "type", "function", "function", "name",
                                           s->name.s, s->name.n, "arguments", s->arguments.s, s->arguments.n)) == 0;
}

static bool take_piece(struct split *s, const struct mr_piece *piece)
{
    struct string_buffer *const to[] = {[MR_PIECE_CONTENT] = &s->content,
                                        [MR_PIECE_REASONING] = &s->reasoning,
                                        [MR_PIECE_CALL] = &s->name,
                                        [MR_PIECE_ARGUMENTS] = &s->arguments};
    if (piece->kind == MR_PIECE_CALL_END)
        return add_call(s);
    if (piece->kind == MR_PIECE_CALL) {
        string_buffer_clear(&s->name);
        string_buffer_clear(&s->arguments);
    }
    string_buffer_add(to[piece->kind], piece->text, piece->n_text);
    return !to[piece->kind]->failed;
}

static json_t *text_or_null(const struct string_buffer *b) { return b->n > 0 ? json_stringn_nocheck(b->s, b->n) : json_null(); }

static bool add_fields(json_t *json, struct split *s, const struct generation *g, const struct mr_call_parser *p)
{
    const bool called = g->finish == MR_FINISH_STOP && mr_call_parser_n_complete(p) > 0 && mr_call_parser_n_open(p) == 0;
    bool ok = json_object_set_new(json, "content", text_or_null(&s->content)) == 0;
    ok = ok && json_object_set_new(json, "reasoning_content", text_or_null(&s->reasoning)) == 0;
    ok = ok && json_object_set(json, "tool_calls", s->calls) == 0;
    return ok && (!called || json_object_set_new(json, "finish_reason", json_string("tool_calls")) == 0);
}

static enum mr_status split(struct split *s, struct mr_call_parser *p, const struct generation *g, struct mr_error *err)
{
    struct mr_piece piece;
    MR_TRY(mr_call_parser_feed(p, g->text.s != NULL ? g->text.s : "", g->text.n, err));
    MR_TRY(mr_call_parser_end(p, err));
    while (mr_call_parser_next(p, &piece))
        if (!take_piece(s, &piece))
            return mr_fail(err, MR_NO_MEMORY, "no memory for the answer");
    return MR_OK;
}

enum mr_status tool_arguments_split(json_t **out, const struct mr_calls *calls, const struct generation *g,
                                    struct mr_error *err)
{
    struct mr_call_parser *p;
    struct split s = {.calls = json_array()};
    *out = NULL;
    MR_TRY(mr_call_parser_create(&p, calls, err));
    enum mr_status status = split(&s, p, g, err);
    if (status == MR_OK) {
        *out = generation_json(g);
        if (*out == NULL || !add_fields(*out, &s, g, p))
            status = mr_fail(err, MR_NO_MEMORY, "no memory for the answer");
    }
    string_buffer_release(&s.content);
    string_buffer_release(&s.reasoning);
    string_buffer_release(&s.name);
    string_buffer_release(&s.arguments);
    json_decref(s.calls);
    mr_call_parser_free(p);
    return status;
}

void tool_arguments_print(const json_t *message, FILE *out)
{
    const json_t *content = json_object_get(message, "content"), *calls = json_object_get(message, "tool_calls");
    if (json_is_string(content))
        fprintf(out, "%s\n", json_string_value(content));
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *f = json_object_get(json_array_get(calls, i), "function");
        fprintf(out, "{\"name\": \"%s\", \"arguments\": %s}\n", json_string_value(json_object_get(f, "name")),
                json_string_value(json_object_get(f, "arguments")));
    }
}
