/* perplexity.c: log-likelihood over overlapping windows. */
#include "measure/perplexity.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "engine/adapters.h"
#include "measure/prediction.h"

/* Sums of a quantity over the tokens. */
struct token_sum {
    double sum, squares;
};

/* One of the models, with a sequence that holds the window. */
struct side {
    struct model *model; /* NULL: there is no base */
    struct model_kv *kv;
    kv_seq seq;
};

/* One window: row i holds row_token[i]; score[i] is the token that follows it where that counts, else -1. */
struct reader {
    struct side side, base;
    int n_row;
    int32_t *row_token, *score;
    kv_seq *seq;
    bool *wants_logits;
    struct adapter_set adapters;
    const struct adapter_set **row_adapters; /* all the same */
    struct token_sum nll, change, kl, same_top;
    int64_t n_scored;
};

static void add_to(struct token_sum *s, double x)
{
    s->sum += x;
    s->squares += x * x;
}

static struct token_mean mean_of(const struct token_sum *s, int64_t n)
{
    const double mean = s->sum / (double)n, variance = s->squares / (double)n - mean * mean;
    return (struct token_mean){mean, n > 1 && variance > 0 ? sqrt(variance / (double)(n - 1)) : 0};
}

static enum mr_status add_score(struct reader *r, const float *logits, const float *base, int32_t token, struct mr_error *err)
{
    const int n = model_info(r->side.model)->n_vocab;
    const struct prediction p = prediction_of(logits, n);
    const double log_p = logits[token] - p.log_total;
    if (!isfinite(log_p))
        return mr_fail(err, MR_BAD_FORMAT, "the model gives token %d the log-probability %g", token, log_p);
    add_to(&r->nll, -log_p);
    r->n_scored++;
    if (base == NULL)
        return MR_OK;
    const struct prediction b = prediction_of(base, n);
    add_to(&r->change, base[token] - b.log_total - log_p);
    add_to(&r->kl, prediction_divergence(base, &b, logits, &p, n));
    add_to(&r->same_top, p.likeliest == b.likeliest);
    return MR_OK;
}

/* How many rows from `first` one forward call takes: bounded by rows and by logits. */
static int batch_rows(const struct reader *r, int first)
{
    const struct model_info *info = model_info(r->side.model);
    const int max_row = r->base.model != NULL && model_info(r->base.model)->max_row < info->max_row
                            ? model_info(r->base.model)->max_row
                            : info->max_row;
    int n = 0, n_logits = 0;
    while (first + n < r->n_row && n < max_row && n_logits + (r->score[first + n] >= 0) <= info->max_logits)
        n_logits += r->score[first + n++] >= 0;
    return n;
}

static enum mr_status forward(struct reader *r, const struct side *side, int first, int n, struct mr_error *err)
{
    for (int i = first; i < first + n; i++)
        r->seq[i] = side->seq;
    const struct batch batch = {.n_row = n,
                                .token = r->row_token + first,
                                .seq = r->seq + first,
                                .wants_logits = r->wants_logits + first,
                                .adapters = side == &r->side ? r->row_adapters : NULL};
    return model_forward(side->model, side->kv, &batch, err);
}

static enum mr_status run_window(struct reader *r, struct mr_error *err)
{
    const bool has_base = r->base.model != NULL;
    for (int first = 0, n; first < r->n_row; first += n) {
        n = batch_rows(r, first);
        MR_TRY(forward(r, &r->side, first, n, err));
        if (has_base)
            MR_TRY(forward(r, &r->base, first, n, err));
        int n_logits = 0;
        for (int i = first; i < first + n; i++)
            if (r->score[i] >= 0) {
                const float *base = has_base ? model_logits(r->base.model, n_logits) : NULL;
                MR_TRY(add_score(r, model_logits(r->side.model, n_logits), base, r->score[i], err));
                n_logits++;
            }
    }
    return MR_OK;
}

static enum mr_status read_window(struct reader *r, struct mr_error *err)
{
    struct side *sides[] = {&r->side, &r->base};
    const int n_side = r->base.model != NULL ? 2 : 1;
    for (int i = 0; i < r->n_row; i++) {
        r->wants_logits[i] = r->score[i] >= 0;
        r->row_adapters[i] = &r->adapters;
    }
    enum mr_status status = MR_OK;
    int n_open = 0;
    for (; n_open < n_side && status == MR_OK; n_open += status == MR_OK)
        status = kv_seq_open(model_kv_cache(sides[n_open]->kv), &sides[n_open]->seq);
    if (status == MR_OK)
        status = run_window(r, err);
    while (n_open-- > 0)
        kv_seq_close(model_kv_cache(sides[n_open]->kv), sides[n_open]->seq);
    return status;
}

static enum mr_status read_text(struct reader *r, const int32_t *token, int64_t n, int32_t bos,
                                const struct perplexity_options *o, struct mr_error *err)
{
    const int room = o->window - (bos >= 0);
    int64_t scored = bos >= 0 ? 0 : 1; /* tokens before this index are done */
    while (scored < n) {
        const int64_t start = scored > room - o->stride ? scored - (room - o->stride) : 0;
        const int64_t end = start + room < n ? start + room : n;
        r->n_row = 0;
        for (int64_t i = start - (bos >= 0); i < end - 1; i++) {
            r->row_token[r->n_row] = i < start ? bos : token[i];
            r->score[r->n_row++] = i + 1 >= scored ? token[i + 1] : -1;
        }
        MR_TRY(read_window(r, err));
        scored = end;
        if (o->go_on != NULL && !o->go_on(o->context, scored, n))
            return mr_fail(err, MR_CANCELLED, "stopped after %lld of %lld tokens", (long long)scored, (long long)n);
    }
    return MR_OK;
}

static enum mr_status measure(struct reader *r, const struct mr_model *m, const int32_t *token, int64_t n,
                              const struct perplexity_options *o, struct mr_error *err)
{
    const size_t rows = (size_t)o->window;
    r->side.model = m->model;
    r->base.model = o->base != NULL ? o->base->model : NULL;
    r->row_token = mem_array(rows, sizeof *r->row_token);
    r->score = mem_array(rows, sizeof *r->score);
    r->seq = mem_array(rows, sizeof *r->seq);
    r->wants_logits = mem_array(rows, sizeof *r->wants_logits);
    r->row_adapters = mem_array(rows, sizeof(struct adapter_set *));
    if (r->row_token == NULL || r->score == NULL || r->seq == NULL || r->wants_logits == NULL || r->row_adapters == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a window of %d tokens", o->window);
    MR_TRY(model_kv_create(&r->side.kv, r->side.model, 1, o->window, o->window, err));
    if (r->base.model != NULL)
        MR_TRY(model_kv_create(&r->base.kv, r->base.model, 1, o->window, o->window, err));
    adapters_find(m, o->adapter, o->n_adapter, &r->adapters);
    const int32_t bos = tokenizer_adds_bos(m->tokenizer) ? tokenizer_bos(m->tokenizer) : -1;
    return read_text(r, token, n, bos, o, err);
}

static struct perplexity result_of(const struct reader *r, bool has_base)
{
    const int64_t n = r->n_scored;
    struct perplexity p = {.perplexity = exp(r->nll.sum / (double)n), .n_tokens = n, .nll = mean_of(&r->nll, n)};
    if (has_base) {
        p.change = mean_of(&r->change, n);
        p.base_perplexity = exp(p.nll.mean - p.change.mean);
        p.kl = mean_of(&r->kl, n);
        p.same_top = mean_of(&r->same_top, n);
    }
    return p;
}

enum mr_status perplexity_measure(struct perplexity *out, struct mr_model *model, const int32_t *token, int64_t n,
                                  const struct perplexity_options *options, struct mr_error *err)
{
    *out = (struct perplexity){0};
    if (options->window < 3 || options->window > 1 << 24)
        return mr_fail(err, MR_BAD_INPUT, "window is %d, must be from 3 to %d tokens", options->window, 1 << 24);
    if (options->stride < 1 || options->stride > options->window - 2)
        return mr_fail(err, MR_BAD_INPUT, "stride is %d, must be from 1 to %d", options->stride, options->window - 2);
    if (n < 2)
        return mr_fail(err, MR_BAD_INPUT, "the text has %lld tokens, 2 or more are needed", (long long)n);
    if (options->base != NULL && model_info(options->base->model)->n_vocab != model_info(model->model)->n_vocab)
        return mr_fail(err, MR_BAD_INPUT, "the base has a vocabulary of %d tokens, the model one of %d",
                       model_info(options->base->model)->n_vocab, model_info(model->model)->n_vocab);
    struct reader r = {0};
    const enum mr_status status = measure(&r, model, token, n, options, err);
    model_kv_free(r.side.kv);
    model_kv_free(r.base.kv);
    free(r.row_token);
    free(r.score);
    free(r.seq);
    free(r.wants_logits);
    free(r.row_adapters);
    if (status == MR_OK)
        *out = result_of(&r, options->base != NULL);
    return status;
}
