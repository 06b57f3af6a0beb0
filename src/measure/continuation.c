/* continuation.c: rows behind what the sequence already holds. */
#include "measure/continuation.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/string_buffer.h"
#include "engine/loaded_model.h"
#include "measure/prediction.h"

struct continuation_scorer {
    struct mr_model *model;
    struct model_kv *kv;
    kv_seq seq;
    int n_ctx;
    int32_t *held; /* [n_ctx] tokens whose keys and values are there; n_held of them */
    int n_held;
    kv_seq *row_seq;    /* [n_ctx] */
    bool *wants_logits; /* [n_ctx] */
};

enum mr_status continuation_scorer_create(struct continuation_scorer **out, struct mr_model *model, int n_ctx,
                                          struct mr_error *err)
{
    *out = NULL;
    struct continuation_scorer *s = mem_zero_array(1, sizeof *s);
    if (s == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory to score continuations");
    *s = (struct continuation_scorer){.model = model, .n_ctx = n_ctx};
    s->held = mem_array((size_t)n_ctx, sizeof *s->held);
    s->row_seq = mem_array((size_t)n_ctx, sizeof *s->row_seq);
    s->wants_logits = mem_array((size_t)n_ctx, sizeof *s->wants_logits);
    enum mr_status status = s->held != NULL && s->row_seq != NULL && s->wants_logits != NULL
                                ? model_kv_create(&s->kv, model->model, 1, n_ctx, n_ctx, err)
                                : mr_fail(err, MR_NO_MEMORY, "no memory for a context of %d tokens", n_ctx);
    if (status == MR_OK)
        status = kv_seq_open(model_kv_cache(s->kv), &s->seq);
    for (int i = 0; status == MR_OK && i < n_ctx; i++)
        s->row_seq[i] = s->seq;
    if (status != MR_OK)
        continuation_scorer_free(s);
    else
        *out = s;
    return status;
}

void continuation_scorer_free(struct continuation_scorer *s)
{
    if (s == NULL)
        return;
    model_kv_free(s->kv);
    free(s->held);
    free(s->row_seq);
    free(s->wants_logits);
    free(s);
}

/* Keep the first n tokens that are held; where a window has given their blocks back, none. */
static enum mr_status hold(struct continuation_scorer *s, int n)
{
    struct kv_cache *cache = model_kv_cache(s->kv);
    if (kv_seq_truncate(cache, s->seq, n) != MR_OK) {
        kv_seq_close(cache, s->seq);
        n = 0;
        MR_TRY(kv_seq_open(cache, &s->seq));
        for (int i = 0; i < s->n_ctx; i++)
            s->row_seq[i] = s->seq;
    }
    s->n_held = n;
    return MR_OK;
}

static void add_row(struct continuation_score *out, const float *logits, int n_vocab, int32_t token)
{
    const struct prediction p = prediction_of(logits, n_vocab);
    out->log_p += logits[token] - p.log_total;
    out->is_greedy &= p.likeliest == token;
    out->n_token++;
}

/* Rows of token[0 .. n - 2]; those from n_context - 1 on predict the continuation. */
static enum mr_status run_rows(struct continuation_score *out, struct continuation_scorer *s, const int32_t *token, int n,
                               int n_context, struct mr_error *err)
{
    const struct model_info *info = model_info(s->model->model);
    int n_row;
    for (int first = s->n_held; first < n - 1; first += n_row) {
        int n_logits = 0;
        for (n_row = 0; first + n_row < n - 1 && n_row < info->max_row && n_logits < info->max_logits; n_row++) {
            s->wants_logits[n_row] = first + n_row >= n_context - 1;
            n_logits += s->wants_logits[n_row];
        }
        const struct batch batch = {.n_row = n_row, .token = token + first, .seq = s->row_seq, .wants_logits = s->wants_logits};
        MR_TRY(model_forward(s->model->model, s->kv, &batch, err));
        for (int i = 0, l = 0; i < n_row; i++)
            if (s->wants_logits[i])
                add_row(out, model_logits(s->model->model, l++), info->n_vocab, token[first + i + 1]);
        memcpy(s->held + first, token + first, (size_t)n_row * sizeof *token);
        s->n_held = first + n_row;
    }
    return MR_OK;
}

static enum mr_status score_tokens(struct continuation_score *out, struct continuation_scorer *s, const int32_t *token, int n,
                                   int n_context, struct mr_error *err)
{
    int same = 0;
    while (same < s->n_held && same < n_context - 1 && s->held[same] == token[same])
        same++;
    *out = (struct continuation_score){.is_greedy = true};
    MR_TRY(hold(s, same));
    return run_rows(out, s, token, n, n_context, err);
}

static enum mr_status encode(struct token_list *out, const struct continuation_scorer *s, const char *text, size_t n,
                             struct mr_error *err)
{
    const struct text_run run = {.s = text, .n = n, .match_control = true};
    return tokenizer_encode(s->model->tokenizer, &run, 1, ENCODE_ADD_BOS, out, err);
}

/* A continuation behind nothing stands behind the token that begins, or else ends, a text. */
static enum mr_status score_text(struct continuation_score *out, struct continuation_scorer *s, const char *text, size_t n,
                                 size_t n_context_bytes, struct token_list *whole, struct token_list *context,
                                 struct mr_error *err)
{
    const struct tokenizer *t = s->model->tokenizer;
    if (n_context_bytes == 0 && !tokenizer_adds_bos(t)) {
        int32_t begin = tokenizer_bos(t);
        if (begin < 0 && s->model->n_end_tokens > 0)
            begin = s->model->end_token[0];
        if (begin < 0 || !mem_grow(&whole->id, &whole->capacity, 1, sizeof *whole->id))
            return mr_fail(err, MR_NO_SUPPORT, "an empty context, and the model has no token that begins a text");
        whole->id[whole->n++] = begin;
        MR_TRY(encode(whole, s, text, n, err));
        context->n = 1;
    } else {
        MR_TRY(encode(whole, s, text, n, err));
        MR_TRY(encode(context, s, text, n_context_bytes, err));
        if (context->n < whole->n) /* where a token lies over the border, the context keeps its own */
            memcpy(whole->id, context->id, context->n * sizeof *whole->id);
    }
    const size_t n_context = context->n < whole->n ? context->n : whole->n - 1;
    const size_t cut = whole->n > (size_t)s->n_ctx + 1 ? whole->n - (size_t)s->n_ctx - 1 : 0;
    if (n_context == 0 || cut >= n_context)
        return mr_fail(err, MR_BAD_INPUT, "a continuation of %zu tokens is too long for a context of %d", whole->n - n_context,
                       s->n_ctx);
    return score_tokens(out, s, whole->id + cut, (int)(whole->n - cut), (int)(n_context - cut), err);
}

enum mr_status continuation_score(struct continuation_score *out, struct continuation_scorer *s, const char *context,
                                  const char *continuation, struct mr_error *err)
{
    struct string_buffer text;
    struct token_list whole = {0}, before = {0};
    size_t n_context = strlen(context);
    string_buffer_init(&text);
    string_buffer_puts(&text, context);
    string_buffer_puts(&text, continuation);
    while (n_context > 0 && strchr(" \t\n\r\f\v", context[n_context - 1]) != NULL)
        n_context--;
    const enum mr_status status = text.failed || text.s == NULL
                                      ? mr_fail(err, MR_NO_MEMORY, "no memory for a continuation")
                                      : score_text(out, s, text.s, text.n, n_context, &whole, &before, err);
    token_list_release(&whole);
    token_list_release(&before);
    string_buffer_release(&text);
    return status;
}
