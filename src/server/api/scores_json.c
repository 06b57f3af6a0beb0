/* scores_json.c: tokens, their bytes and log probabilities. */
#include "server/api/scores_json.h"

#include <string.h>

#include "base/utf8.h"
#include "server/api/json_text.h"

/* The older form has no list of bytes: what is no text is told as OpenAI does, "bytes:\\xe4\\xbd". */
static void write_token(int32_t token, const struct tokenizer *t, struct string_buffer *out)
{
    const struct gguf_string piece = tokenizer_piece(t, token, true);
    if (utf8_is_valid(piece.s, piece.n)) {
        json_text_string(out, piece.s, piece.n);
        return;
    }
    string_buffer_puts(out, "\"bytes:");
    for (size_t i = 0; i < piece.n; i++)
        string_buffer_printf(out, "\\\\x%02x", (unsigned char)piece.s[i]);
    string_buffer_puts(out, "\"");
}

/* {"token": ..., "logprob": ..., "bytes": [...] */
static void write_entry(int32_t token, float logprob, const struct tokenizer *t, bool with_id, struct string_buffer *out)
{
    const struct gguf_string piece = tokenizer_piece(t, token, true);
    string_buffer_puts(out, "{");
    if (with_id)
        string_buffer_printf(out, "\"id\":%d,", token);
    string_buffer_puts(out, "\"token\":");
    json_text_string(out, piece.s, piece.n);
    string_buffer_printf(out, ",\"logprob\":%.9g,\"bytes\":", json_text_finite((double)logprob));
    json_text_bytes(out, piece.s, piece.n);
}

void scores_write_list(const struct token_scores *s, const struct tokenizer *t, bool with_id, struct string_buffer *out)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct token_score *score = &s->score[i];
        string_buffer_puts(out, i > 0 ? "," : "");
        write_entry(score->token, score->logprob, t, with_id, out);
        string_buffer_puts(out, ",\"top_logprobs\":[");
        for (int k = 0; k < score->n_top; k++) {
            string_buffer_puts(out, k > 0 ? "," : "");
            write_entry(s->top[score->top + (size_t)k].token, s->top[score->top + (size_t)k].logprob, t, with_id, out);
            string_buffer_puts(out, "}");
        }
        string_buffer_puts(out, "]}");
    }
}

void scores_write_chat(const struct token_scores *s, const struct tokenizer *t, struct string_buffer *out)
{
    string_buffer_puts(out, "{\"content\":[");
    scores_write_list(s, t, false, out);
    string_buffer_puts(out, "],\"refusal\":null}");
}

/* The four lists of the older form, which have a member for each token. */
struct columns {
    const struct tokenizer *t;
    struct string_buffer token, logprob, top, offset;
    size_t *n_char;
    bool begun;
};

/* An earlier, likelier one of the alternatives has the same text: names of an object are unique. */
static bool is_repeated(const struct columns *c, const struct mr_logprob *top, int k)
{
    const struct gguf_string piece = tokenizer_piece(c->t, top[k].token, true);
    for (int i = 0; i < k; i++) {
        const struct gguf_string other = tokenizer_piece(c->t, top[i].token, true);
        if (other.n == piece.n && (piece.n == 0 || memcmp(other.s, piece.s, piece.n) == 0))
            return true;
    }
    return false;
}

static void add_top(struct columns *c, const struct token_scores *s, const struct token_score *score)
{
    string_buffer_puts(&c->top, "{");
    const struct mr_logprob *top = &s->top[score->top];
    for (int k = 0; k < score->n_top; k++) {
        if (is_repeated(c, top, k))
            continue;
        string_buffer_puts(&c->top, k > 0 ? "," : "");
        write_token(top[k].token, c->t, &c->top);
        string_buffer_printf(&c->top, ":%.9g", json_text_finite((double)top[k].logprob));
    }
    string_buffer_puts(&c->top, "}");
}

/* score NULL: the first token of a prompt, which nothing was before. */
static void add_column(struct columns *c, int32_t token, const struct token_scores *s, const struct token_score *score)
{
    const char *comma = c->begun ? "," : "";
    const struct gguf_string piece = tokenizer_piece(c->t, token, true);
    c->begun = true;
    string_buffer_puts(&c->token, comma);
    write_token(token, c->t, &c->token);
    string_buffer_puts(&c->logprob, comma);
    string_buffer_puts(&c->top, comma);
    string_buffer_printf(&c->offset, "%s%zu", comma, *c->n_char);
    for (size_t i = 0; i < piece.n; i++)
        *c->n_char += ((unsigned char)piece.s[i] & 0xc0) != 0x80;
    if (score != NULL) {
        string_buffer_printf(&c->logprob, "%.9g", json_text_finite((double)score->logprob));
        add_top(c, s, score);
    } else {
        string_buffer_puts(&c->logprob, "null");
        string_buffer_puts(&c->top, "null");
    }
}

static void write_column(struct string_buffer *out, const char *name, struct string_buffer *column)
{
    string_buffer_puts(out, name);
    string_buffer_add(out, column->s, column->n);
    string_buffer_puts(out, "]");
    out->failed |= column->failed;
    string_buffer_release(column);
}

void scores_write_completion(const struct token_list *prompt, const struct token_scores *prompt_scores,
                             const struct token_scores *s, const struct tokenizer *t, size_t *offset, struct string_buffer *out)
{
    struct columns c = {.t = t, .n_char = offset};
    string_buffer_init(&c.token);
    string_buffer_init(&c.logprob);
    string_buffer_init(&c.top);
    string_buffer_init(&c.offset);
    for (size_t i = 0; prompt != NULL && i < prompt->n; i++)
        add_column(&c, prompt->id[i], prompt_scores, i > 0 && i - 1 < prompt_scores->n ? &prompt_scores->score[i - 1] : NULL);
    for (size_t i = 0; i < s->n; i++)
        add_column(&c, s->score[i].token, s, &s->score[i]);
    write_column(out, "{\"tokens\":[", &c.token);
    write_column(out, ",\"token_logprobs\":[", &c.logprob);
    write_column(out, ",\"top_logprobs\":[", &c.top);
    write_column(out, ",\"text_offset\":[", &c.offset);
    string_buffer_puts(out, "}");
}
