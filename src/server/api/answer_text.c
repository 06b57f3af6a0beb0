/* answer_text.c: pieces joined, calls collected. */
#include "server/api/answer_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"

void token_scores_release(struct token_scores *s)
{
    free(s->score);
    free(s->top);
    *s = (struct token_scores){0};
}

void token_scores_clear(struct token_scores *s) { s->n = s->n_top = 0; }

bool token_scores_add(struct token_scores *s, const struct mr_event *e)
{
    const size_t n_top = (size_t)e->n_top;
    if (!mem_grow(&s->score, &s->capacity, s->n + 1, sizeof *s->score) ||
        !mem_grow(&s->top, &s->top_capacity, s->n_top + n_top + 1, sizeof *s->top))
        return false;
    s->score[s->n++] = (struct token_score){e->token, e->logprob, s->n_top, e->n_top};
    for (size_t i = 0; i < n_top; i++)
        s->top[s->n_top++] = e->top[i];
    return true;
}

static enum mr_status no_memory(struct mr_error *err) { return mr_fail(err, MR_NO_MEMORY, "no memory for the answer"); }

enum mr_status answer_open(struct answer *a, const struct mr_calls *calls, struct mr_error *err)
{
    string_buffer_init(&a->content);
    string_buffer_init(&a->reasoning);
    string_buffer_init(&a->arguments);
    string_buffer_init(&a->raw);
    a->last_token = -1;
    a->calls = json_array();
    if (a->calls == NULL)
        return no_memory(err);
    return calls != NULL ? mr_call_parser_create(&a->parser, calls, err) : MR_OK;
}

void answer_close(struct answer *a)
{
    mr_call_parser_free(a->parser);
    string_buffer_release(&a->content);
    string_buffer_release(&a->reasoning);
    string_buffer_release(&a->arguments);
    string_buffer_release(&a->raw);
    json_decref(a->calls);
    token_list_release(&a->tokens);
    token_scores_release(&a->scores);
}

/* Nine letters and digits, which is what the strictest chat template takes. */
static void make_id(char id[10])
{
    static const char digit[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    uint64_t random = random_seed();
    for (int i = 0; i < 9; i++, random /= sizeof digit - 1)
        id[i] = digit[random % (sizeof digit - 1)];
    id[9] = '\0';
}

static bool begin_call(struct answer *a, const struct mr_piece *p)
{
    char id[10];
    make_id(id);
    string_buffer_clear(&a->arguments);
    return json_array_append_new(a->calls, json_pack("{s:s, s:s, s:{s:s%, s:s}}", "id", id, "type", "function", "function",
                                                     "name", p->text, p->n_text, "arguments", "")) == 0;
}

static bool store_arguments(struct answer *a)
{
    const size_t n = json_array_size(a->calls);
    json_t *call = json_array_get(a->calls, n > 0 ? n - 1 : 0);
    return call == NULL ||
           json_object_set_new(json_object_get(call, "function"), "arguments",
                               json_stringn_nocheck(a->arguments.n > 0 ? a->arguments.s : "", a->arguments.n)) == 0;
}

static bool keep_piece(struct answer *a, const struct mr_piece *p)
{
    switch (p->kind) {
    case MR_PIECE_CONTENT:
        if (a->keeps_text)
            string_buffer_add(&a->content, p->text, p->n_text);
        return !a->content.failed;
    case MR_PIECE_REASONING:
        if (a->keeps_text)
            string_buffer_add(&a->reasoning, p->text, p->n_text);
        return !a->reasoning.failed;
    case MR_PIECE_CALL:
        return begin_call(a, p);
    case MR_PIECE_ARGUMENTS:
        string_buffer_add(&a->arguments, p->text, p->n_text);
        return !a->arguments.failed;
    default:
        return store_arguments(a);
    }
}

static enum mr_status take_pieces(struct answer *a, answer_piece_fn *fn, void *context, bool *reasoned, struct mr_error *err)
{
    struct mr_piece piece;
    while (mr_call_parser_next(a->parser, &piece)) {
        *reasoned |= piece.kind == MR_PIECE_REASONING;
        if (!keep_piece(a, &piece))
            return no_memory(err);
        if (fn != NULL)
            fn(context, a, &piece);
    }
    return MR_OK;
}

static enum mr_status take_text(struct answer *a, const struct mr_event *e, answer_piece_fn *fn, void *context, bool *reasoned,
                                struct mr_error *err)
{
    if (a->parser != NULL) {
        MR_TRY(mr_call_parser_feed(a->parser, e->text, e->n_text, err));
        if (e->finish != MR_FINISH_NONE)
            MR_TRY(mr_call_parser_end(a->parser, err));
        return take_pieces(a, fn, context, reasoned, err);
    }
    const struct mr_piece piece = {.kind = MR_PIECE_CONTENT, .text = e->text, .n_text = e->n_text};
    if (e->n_text == 0)
        return MR_OK;
    if (!keep_piece(a, &piece))
        return no_memory(err);
    if (fn != NULL)
        fn(context, a, &piece);
    return MR_OK;
}

enum mr_status answer_take(struct answer *a, const struct mr_event *e, answer_piece_fn *fn, void *context, struct mr_error *err)
{
    bool reasoned = false;
    if (e->token >= 0 && a->keeps_scores && !token_scores_add(&a->scores, e))
        return no_memory(err);
    if (e->token >= 0 && a->keeps_tokens) {
        if (!mem_grow(&a->tokens.id, &a->tokens.capacity, a->tokens.n + 1, sizeof *a->tokens.id))
            return no_memory(err);
        a->tokens.id[a->tokens.n++] = e->token;
    }
    if (e->token >= 0 && a->keeps_raw) {
        const struct gguf_string piece = tokenizer_piece(a->tokenizer, e->token, true);
        string_buffer_add(&a->raw, piece.s, piece.n);
        if (a->raw.failed)
            return no_memory(err);
    }
    a->last_token = e->token >= 0 ? e->token : a->last_token;
    a->finish = e->finish;
    if (e->finish != MR_FINISH_NONE)
        a->usage = e->usage;
    MR_TRY(take_text(a, e, fn, context, &reasoned, err));
    a->n_reasoning += e->token >= 0 && reasoned;
    if (e->finish != MR_FINISH_NONE && a->parser != NULL && mr_call_parser_n_open(a->parser) > 0 && !store_arguments(a))
        return no_memory(err);
    return MR_OK;
}

bool answer_has_called(const struct answer *a)
{
    return a->parser != NULL && a->finish == MR_FINISH_STOP && mr_call_parser_n_complete(a->parser) > 0 &&
           mr_call_parser_n_open(a->parser) == 0;
}

/* Text never holds a stop string, so the tokens are looked at. */
const char *answer_stop_word(const struct answer *a, const char *const *stop, int n_stop)
{
    const char *first = NULL, *word = NULL;
    if (a->finish != MR_FINISH_STOP || n_stop == 0 || tokenizer_is_end(a->tokenizer, a->last_token))
        return NULL;
    for (int i = 0; i < n_stop && a->raw.n > 0; i++) {
        const char *at = memmem(a->raw.s, a->raw.n, stop[i], strlen(stop[i]));
        if (at != NULL && (first == NULL || at < first)) {
            first = at;
            word = stop[i];
        }
    }
    return word;
}

const char *answer_call_name(const struct answer *a, int call)
{
    const json_t *c = json_array_get(a->calls, (size_t)call);
    return json_string_value(json_object_get(json_object_get(c, "function"), "name"));
}

const char *answer_call_id(const struct answer *a, int call)
{
    return json_string_value(json_object_get(json_array_get(a->calls, (size_t)call), "id"));
}
