/* completions.c: POST /v1/completions. */
#include <string.h>

#include "engine/loaded_model.h"
#include "server/api/json_text.h"
#include "server/api/openai.h"
#include "server/api/prompt_fields.h"
#include "server/api/sampling_fields.h"
#include "server/api/scores_json.h"
#include "server/api/sse.h"
#include "server/api/usage_json.h"

enum {
    MAX_TOKENS = 16 /* where none is given */
};

struct own {
    bool echo;
    bool tells_prompt; /* prompt_logprobs was asked for by this name */
};

/* Of an answer. */
struct progress {
    bool has_echoed;
    size_t n_char; /* of the tokens whose scores were written */
};

static struct progress *progress_of(struct job *j, struct answer *a)
{
    if (a->own == NULL)
        a->own = job_alloc(j, sizeof(struct progress));
    return a->own;
}

static void open_body(const struct job *j, struct string_buffer *out)
{
    string_buffer_printf(out, "{\"id\":\"%s\",\"object\":\"text_completion\",\"created\":%lld,\"model\":", j->id,
                         (long long)j->created);
    json_text_string(out, j->model_name, strlen(j->model_name));
    string_buffer_puts(out, ",\"system_fingerprint\":\"" SYSTEM_FINGERPRINT "\",\"choices\":[");
}

static void write_scores(struct job *j, struct answer *a, bool with_prompt, struct string_buffer *out)
{
    static const struct token_scores none = {0};
    const struct own *own = j->own;
    struct progress *p = progress_of(j, a);
    if (!a->keeps_scores || p == NULL) {
        string_buffer_puts(out, "null");
        return;
    }
    const bool is_prompt = own->echo && with_prompt;
    scores_write_completion(is_prompt ? &j->prompt[a->prompt] : NULL, &j->prompt_scores[a->prompt],
                            j->stream && with_prompt ? &none : &a->scores, j->model->model->tokenizer, &p->n_char, out);
    if (!j->stream || !with_prompt)
        token_scores_clear(&a->scores);
}

static void write_chunk(struct job *j, struct answer *a, const char *text, size_t n, bool is_echo, const char *finish,
                        struct string_buffer *out)
{
    string_buffer_puts(out, "data: ");
    open_body(j, out);
    string_buffer_printf(out, "{\"index\":%d,\"text\":", a->index);
    json_text_string(out, text, n);
    string_buffer_puts(out, ",\"logprobs\":");
    write_scores(j, a, is_echo, out);
    if (finish != NULL) {
        string_buffer_printf(out, ",\"finish_reason\":\"%s\"}],\"timings\":", finish);
        json_text_value(out, timings_json(j, a));
    } else {
        string_buffer_puts(out, ",\"finish_reason\":null}]");
    }
    string_buffer_puts(out, j->include_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

/* The prompt, before the first text of an answer: its scores are known by then. */
static void write_echo(struct job *j, struct answer *a, struct string_buffer *out)
{
    struct progress *p = progress_of(j, a);
    struct string_buffer text;
    if (!((const struct own *)j->own)->echo || p == NULL || p->has_echoed)
        return;
    p->has_echoed = true;
    string_buffer_init(&text);
    prompt_write_text(j, a->prompt, &text);
    write_chunk(j, a, text.s, text.n, true, NULL, out);
    out->failed |= text.failed;
    string_buffer_release(&text);
}

static void write_piece(struct job *j, struct answer *a, const struct mr_piece *p, struct string_buffer *out)
{
    write_echo(j, a, out);
    write_chunk(j, a, p->text, p->n_text, false, NULL, out);
}

static void write_answer_end(struct job *j, struct answer *a, struct string_buffer *out)
{
    write_echo(j, a, out);
    write_chunk(j, a, "", 0, false, openai_finish(a), out);
}

static void write_end(struct job *j, struct string_buffer *out)
{
    if (j->include_usage) {
        string_buffer_puts(out, "data: ");
        open_body(j, out);
        string_buffer_puts(out, "],\"usage\":");
        json_text_value(out, usage_json(j));
        string_buffer_puts(out, "}\n\n");
    }
    string_buffer_puts(out, "data: [DONE]\n\n");
}

/* vLLM's form: for each token of the prompt, by id, the token's own and the likeliest ones; null for the first. */
static void write_prompt_logprobs(struct job *j, int prompt, struct string_buffer *out)
{
    const struct token_scores *s = &j->prompt_scores[prompt];
    string_buffer_puts(out, ",\"prompt_logprobs\":[null");
    for (size_t i = 0; i < s->n; i++) {
        const struct token_score *score = &s->score[i];
        bool is_listed = false;
        string_buffer_puts(out, ",{");
        for (int k = 0; k <= score->n_top; k++) {
            const struct mr_logprob own = {score->token, score->logprob};
            const struct mr_logprob *l = k < score->n_top ? &s->top[score->top + (size_t)k] : &own;
            if (k == score->n_top && is_listed)
                break;
            is_listed |= l->token == score->token;
            const struct gguf_string piece = tokenizer_piece(j->model->model->tokenizer, l->token, true);
            string_buffer_printf(out, "%s\"%d\":{\"logprob\":%.9g,\"decoded_token\":", k > 0 ? "," : "", l->token,
                                 json_text_finite((double)l->logprob));
            json_text_string(out, piece.s, piece.n);
            string_buffer_puts(out, "}");
        }
        string_buffer_puts(out, "}");
    }
    string_buffer_puts(out, "]");
}

static void write_choice(struct job *j, struct answer *a, struct string_buffer *out)
{
    const struct own *own = j->own;
    struct string_buffer text;
    string_buffer_init(&text);
    if (own->echo)
        prompt_write_text(j, a->prompt, &text);
    string_buffer_add(&text, a->content.s, a->content.n);
    string_buffer_printf(out, "{\"index\":%d,\"text\":", a->index);
    json_text_string(out, text.s, text.n);
    out->failed |= text.failed;
    string_buffer_release(&text);
    string_buffer_puts(out, ",\"logprobs\":");
    write_scores(j, a, true, out);
    if (own->tells_prompt)
        write_prompt_logprobs(j, a->prompt, out);
    string_buffer_printf(out, ",\"finish_reason\":\"%s\"}", openai_finish(a));
}

static void write_whole(struct job *j, struct string_buffer *out)
{
    open_body(j, out);
    for (int i = 0; i < j->n_answer; i++) {
        string_buffer_puts(out, i > 0 ? "," : "");
        write_choice(j, &j->answer[i], out);
    }
    string_buffer_puts(out, "],\"usage\":");
    json_text_value(out, usage_json(j));
    string_buffer_puts(out, ",\"timings\":");
    json_text_value(out, timings_json(j, &j->answer[0]));
    string_buffer_puts(out, "}");
}

static void read_completion(struct job *j)
{
    struct own *own = job_alloc(j, sizeof *own);
    if (own == NULL)
        return;
    j->own = own;
    j->base.max_tokens = MAX_TOKENS;
    openai_read_common(j);
    own->tells_prompt = j->base.prompt_logprobs >= 0;
    json_fields_bool(&j->fields, "echo", &own->echo);
    j->keeps_scores = json_fields_int32(&j->fields, "logprobs", 0, MR_TOP_LOGPROBS_MAX, &j->base.sampling.n_logprobs);
    if (own->echo && j->keeps_scores)
        j->base.prompt_logprobs = j->base.sampling.n_logprobs;
    if (own->tells_prompt && j->stream)
        json_fields_fail(&j->fields, "prompt_logprobs", "is not told in a stream; use echo and logprobs there");
    if (json_string_length(json_fields_get(&j->fields, "suffix")) > 0)
        json_fields_fail(&j->fields, "suffix", "is not supported; use /infill");
    prompt_fields_read(j, "prompt");
}

static const struct dialect dialect = {.stream_type = SSE_TYPE,
                                       .keep_alive = SSE_KEEP_ALIVE,
                                       .piece = write_piece,
                                       .answer_end = write_answer_end,
                                       .end = write_end,
                                       .whole = write_whole,
                                       .fail = openai_stream_fail};

void openai_completions(struct exchange *x)
{
    struct job *j = job_open(x, &dialect, "cmpl-");
    if (j == NULL)
        return;
    read_completion(j);
    job_start(j);
}
