/* calls.c: calls of functions as callers of the library see them. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "sample/call_grammar.h"
#include "text/call_parser.h"

struct mr_calls {
    const struct call_format *format;
    const struct reasoning_format *reasoning;
    bool has_begun, has_calls, must_call;
    char *constraint; /* NULL: none */
    json_t *tools;
    const char **name; /* [n_name], of tools */
    size_t n_name;
};

_Static_assert((int)MR_PIECE_CONTENT == (int)CALL_PIECE_CONTENT && (int)MR_PIECE_REASONING == (int)CALL_PIECE_REASONING &&
                   (int)MR_PIECE_CALL == (int)CALL_PIECE_NAME && (int)MR_PIECE_ARGUMENTS == (int)CALL_PIECE_ARGUMENTS &&
                   (int)MR_PIECE_CALL_END == (int)CALL_PIECE_END,
               "the public kinds of pieces are the parser's");

static enum mr_status no_memory(struct mr_error *err) { return mr_fail(err, MR_NO_MEMORY, "no memory for calls of functions"); }

static enum mr_status find_formats(struct mr_calls *c, const struct mr_calls_options *o, struct mr_error *err)
{
    const char *chat = o->chat_template != NULL ? o->chat_template : "";
    c->format = o->format != NULL ? call_format_find(o->format) : call_format_detect(chat, strlen(chat));
    if (c->format == NULL)
        return mr_fail(err, MR_BAD_INPUT, "format: '%.40s' is no format of calls", o->format);
    c->reasoning = reasoning_format_detect(chat, strlen(chat));
    c->has_begun = o->reasoning_begun;
    return MR_OK;
}

static enum mr_status read_tools(struct mr_calls *c, const struct mr_calls_options *o, struct mr_error *err)
{
    json_error_t why;
    MR_TRY(calls_check_tools(o->tools, strlen(o->tools), err));
    c->tools = json_loads(o->tools, JSON_REJECT_DUPLICATES, &why);
    c->n_name = json_array_size(c->tools);
    c->name = mem_array(c->n_name, sizeof(char *));
    if (c->tools == NULL || c->name == NULL)
        return no_memory(err);
    for (size_t i = 0; i < c->n_name; i++)
        c->name[i] = json_string_value(json_object_get(json_object_get(json_array_get(c->tools, i), "function"), "name"));
    return MR_OK;
}

static enum mr_status check_choice(const struct mr_calls *c, const char *choice, struct mr_error *err)
{
    for (size_t i = 0; i < c->n_name; i++)
        if (strcmp(c->name[i], choice) == 0)
            return MR_OK;
    return mr_fail(err, MR_BAD_INPUT, "tool_choice: '%.80s' is neither auto, none, required nor a function of tools", choice);
}

static enum mr_status write_constraint(struct mr_calls *c, const struct mr_calls_options *o, const char *choice,
                                       struct mr_error *err)
{
    const bool is_word = strcmp(choice, "auto") == 0 || strcmp(choice, "required") == 0;
    if (!is_word)
        MR_TRY(check_choice(c, choice, err));
    json_t *source = json_pack("{s:s, s:O, s:o, s:b, s:s?, s:b}", "format", c->format->name, "tools", c->tools, "choice",
                               is_word ? json_string(choice) : json_pack("{s:s}", "name", choice), "parallel", o->parallel,
                               "reasoning", c->reasoning != NULL ? c->reasoning->open : NULL, "begun", c->has_begun);
    c->constraint = source != NULL ? json_dumps(source, JSON_COMPACT) : NULL;
    json_decref(source);
    return c->constraint != NULL ? MR_OK : no_memory(err);
}

static enum mr_status create(struct mr_calls *c, const struct mr_calls_options *o, struct mr_error *err)
{
    const char *choice = o->choice != NULL ? o->choice : "auto";
    MR_TRY(find_formats(c, o, err));
    if (o->tools == NULL)
        return MR_OK;
    MR_TRY(read_tools(c, o, err));
    c->has_calls = strcmp(choice, "none") != 0;
    c->must_call = c->has_calls && strcmp(choice, "auto") != 0;
    return c->has_calls ? write_constraint(c, o, choice, err) : MR_OK;
}

enum mr_status mr_calls_create(struct mr_calls **out, const struct mr_calls_options *options, struct mr_error *err)
{
    *out = NULL;
    struct mr_calls *c = mem_zero_array(1, sizeof *c);
    if (c == NULL)
        return no_memory(err);
    const enum mr_status status = create(c, options, err);
    if (status != MR_OK)
        mr_calls_free(c);
    else
        *out = c;
    return status;
}

void mr_calls_free(struct mr_calls *c)
{
    if (c == NULL)
        return;
    free(c->constraint);
    free(c->name);
    json_decref(c->tools);
    free(c);
}

const char *mr_calls_constraint(const struct mr_calls *c) { return c->constraint; }

const char *mr_calls_format(const struct mr_calls *c) { return c->format->name; }

/* A piece in the queue; its text lies in the parser's buffer. */
struct queued {
    enum call_piece_kind kind;
    int call;
    size_t from, n;
};

struct mr_call_parser {
    struct call_parser *parser;
    struct string_buffer text;
    struct queued *piece;
    size_t n_piece, capacity, n_taken;
    bool failed;
    int n_begun, n_complete;
};

/* Neighbours of one kind are one piece. */
static void take_piece(void *context, const struct call_piece *piece)
{
    struct mr_call_parser *p = context;
    struct queued *last = p->n_piece > p->n_taken ? &p->piece[p->n_piece - 1] : NULL;
    p->n_begun += piece->kind == CALL_PIECE_NAME;
    p->n_complete += piece->kind == CALL_PIECE_END;
    const bool joins =
        last != NULL && last->kind == piece->kind && piece->kind != CALL_PIECE_NAME && piece->kind != CALL_PIECE_END;
    if (!joins) {
        if (!mem_grow(&p->piece, &p->capacity, p->n_piece + 1, sizeof *p->piece)) {
            p->failed = true;
            return;
        }
        last = &p->piece[p->n_piece++];
        *last = (struct queued){piece->kind, piece->call, p->text.n, 0};
    }
    string_buffer_add(&p->text, piece->text != NULL ? piece->text : "", piece->n);
    last->n += p->text.failed ? 0 : piece->n;
}

enum mr_status mr_call_parser_create(struct mr_call_parser **out, const struct mr_calls *c, struct mr_error *err)
{
    *out = NULL;
    struct mr_call_parser *p = mem_zero_array(1, sizeof *p);
    if (p == NULL)
        return no_memory(err);
    string_buffer_init(&p->text);
    const struct call_parser_options options = {.format = c->has_calls ? c->format : NULL,
                                                .reasoning = c->reasoning,
                                                .has_begun = c->has_begun,
                                                .must_call = c->must_call,
                                                .name = c->name,
                                                .n_name = c->n_name};
    const enum mr_status status = call_parser_create(&p->parser, &options, take_piece, p, err);
    if (status != MR_OK)
        mr_call_parser_free(p);
    else
        *out = p;
    return status;
}

void mr_call_parser_free(struct mr_call_parser *p)
{
    if (p == NULL)
        return;
    call_parser_free(p->parser);
    string_buffer_release(&p->text);
    free(p->piece);
    free(p);
}

static enum mr_status status_of(const struct mr_call_parser *p, enum mr_status status, struct mr_error *err)
{
    return status == MR_OK && (p->failed || p->text.failed) ? no_memory(err) : status;
}

enum mr_status mr_call_parser_feed(struct mr_call_parser *p, const char *text, size_t n, struct mr_error *err)
{
    return status_of(p, call_parser_feed(p->parser, text, n, err), err);
}

enum mr_status mr_call_parser_end(struct mr_call_parser *p, struct mr_error *err)
{
    int n_open;
    const enum mr_status status = call_parser_end(p->parser, NULL, &n_open, err);
    p->n_begun = p->n_complete + n_open;
    return status_of(p, status, err);
}

bool mr_call_parser_next(struct mr_call_parser *p, struct mr_piece *out)
{
    if (p->n_taken == p->n_piece) {
        p->n_taken = p->n_piece = 0;
        string_buffer_clear(&p->text);
        return false;
    }
    const struct queued *q = &p->piece[p->n_taken++];
    *out = (struct mr_piece){(enum mr_piece_kind)q->kind, q->call, p->text.s != NULL ? p->text.s + q->from : "", q->n};
    return true;
}

int32_t mr_call_parser_n_complete(const struct mr_call_parser *p) { return p->n_complete; }

int32_t mr_call_parser_n_open(const struct mr_call_parser *p) { return p->n_begun - p->n_complete; }
