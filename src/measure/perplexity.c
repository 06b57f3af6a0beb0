/* perplexity.c: log-likelihood over overlapping windows. */
#include "measure/perplexity.h"

#include <math.h>
#include <stdlib.h>

#include "base/float_math.h"
#include "base/memory.h"
#include "engine/adapters.h"
#include "sample/candidates.h"

/* One window: row i holds row_token[i]; score[i] is the token that follows it where that counts, else -1. */
struct reader {
    struct model *model;
    struct model_kv *kv;
    int n_row;
    int32_t *row_token, *score;
    kv_seq *seq;
    bool *wants_logits;
    struct adapter_set adapters;
    const struct adapter_set **row_adapters; /* all the same */
    double nll;
    int64_t n_scored;
};

static enum mr_status add_score(struct reader *r, const float *logits, int32_t token, struct mr_error *err)
{
    const int n = model_info(r->model)->n_vocab;
    float best = logits[0];
    for (int i = 1; i < n; i++)
        best = logits[i] > best ? logits[i] : best;
    const double log_p = (double)(logits[token] - best) - math_log(sum_exp(logits, n, best));
    if (!isfinite(log_p))
        return mr_fail(err, MR_BAD_FORMAT, "the model gives token %d the log-probability %g", token, log_p);
    r->nll -= log_p;
    r->n_scored++;
    return MR_OK;
}

/* How many rows from `first` one forward call takes: bounded by rows and by logits. */
static int batch_rows(const struct reader *r, int first)
{
    const struct model_info *info = model_info(r->model);
    int n = 0, n_logits = 0;
    while (first + n < r->n_row && n < info->max_row && n_logits + (r->score[first + n] >= 0) <= info->max_logits)
        n_logits += r->score[first + n++] >= 0;
    return n;
}

static enum mr_status run_window(struct reader *r, struct mr_error *err)
{
    for (int first = 0, n; first < r->n_row; first += n) {
        n = batch_rows(r, first);
        const struct batch batch = {.n_row = n,
                                    .token = r->row_token + first,
                                    .seq = r->seq + first,
                                    .wants_logits = r->wants_logits + first,
                                    .adapters = r->row_adapters};
        MR_TRY(model_forward(r->model, r->kv, &batch, err));
        int n_logits = 0;
        for (int i = first; i < first + n; i++)
            if (r->score[i] >= 0)
                MR_TRY(add_score(r, model_logits(r->model, n_logits++), r->score[i], err));
    }
    return MR_OK;
}

static enum mr_status read_window(struct reader *r, struct mr_error *err)
{
    struct kv_cache *cache = model_kv_cache(r->kv);
    kv_seq seq;
    MR_TRY(kv_seq_open(cache, &seq));
    for (int i = 0; i < r->n_row; i++) {
        r->seq[i] = seq;
        r->wants_logits[i] = r->score[i] >= 0;
        r->row_adapters[i] = &r->adapters;
    }
    const enum mr_status status = run_window(r, err);
    kv_seq_close(cache, seq);
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
    r->model = m->model;
    r->row_token = mem_array(rows, sizeof *r->row_token);
    r->score = mem_array(rows, sizeof *r->score);
    r->seq = mem_array(rows, sizeof *r->seq);
    r->wants_logits = mem_array(rows, sizeof *r->wants_logits);
    r->row_adapters = mem_array(rows, sizeof(struct adapter_set *));
    if (r->row_token == NULL || r->score == NULL || r->seq == NULL || r->wants_logits == NULL || r->row_adapters == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a window of %d tokens", o->window);
    MR_TRY(model_kv_create(&r->kv, m->model, 1, o->window, o->window, err));
    adapters_find(m, o->adapter, o->n_adapter, &r->adapters);
    const int32_t bos = tokenizer_adds_bos(m->tokenizer) ? tokenizer_bos(m->tokenizer) : -1;
    return read_text(r, token, n, bos, o, err);
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
    struct reader r = {0};
    const enum mr_status status = measure(&r, model, token, n, options, err);
    model_kv_free(r.kv);
    free(r.row_token);
    free(r.score);
    free(r.seq);
    free(r.wants_logits);
    free(r.row_adapters);
    if (status == MR_OK)
        *out = (struct perplexity){.perplexity = exp(r.nll / (double)r.n_scored), .n_tokens = r.n_scored};
    return status;
}
