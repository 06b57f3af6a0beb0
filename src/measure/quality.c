/* quality.c: one pass over a text, row by row against the reference. */
#include "measure/quality.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "engine/loaded_model.h"

enum {
    REFERENCE_BYTES_MAX = 64 << 20,
    TOKENS_MAX = 512
};

static enum mr_status make_reference(struct quality_reference *r, const struct mr_model *model, const char *text, size_t n_text,
                                     struct mr_error *err)
{
    const int n_vocab = model_info(model->model)->n_vocab;
    const int most = REFERENCE_BYTES_MAX / (int)sizeof(float) / n_vocab + 1;
    int32_t n;
    MR_TRY(mr_tokenize(model, text, n_text, false, &r->token, &n, err));
    r->n = n < most ? n : most;
    r->n = r->n < TOKENS_MAX ? r->n : TOKENS_MAX;
    r->n_vocab = n_vocab;
    if (r->n < 2)
        return mr_fail(err, MR_BAD_INPUT, "the text has %d tokens, 2 or more are needed", (int)n);
    r->log_p = mem_array((size_t)(r->n - 1) * (size_t)n_vocab, sizeof *r->log_p);
    return r->log_p != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for the predictions of %d tokens", r->n);
}

static double log_sum(const float *logits, int n)
{
    double best = logits[0], sum = 0;
    for (int i = 1; i < n; i++)
        best = logits[i] > best ? logits[i] : best;
    for (int i = 0; i < n; i++)
        sum += exp(logits[i] - best);
    return best + log(sum);
}

/* The row's prediction of the token behind it: kept where the reference is being made, else compared. */
static void add_row(struct quality *sum, struct quality_reference *r, int row, const float *logits, bool is_reference)
{
    float *reference = r->log_p + (size_t)row * (size_t)r->n_vocab;
    const double total = log_sum(logits, r->n_vocab);
    sum->perplexity -= logits[r->token[row + 1]] - total;
    for (int i = 0; i < r->n_vocab; i++) {
        const double log_q = logits[i] - total;
        if (is_reference)
            reference[i] = (float)log_q;
        else
            sum->kl += exp(reference[i]) * (reference[i] - log_q);
    }
}

static enum mr_status run_rows(struct quality *sum, struct quality_reference *r, struct model *m, struct model_kv *kv,
                               kv_seq seq, bool is_reference, struct mr_error *err)
{
    enum {
        AT_ONCE = 32
    };
    kv_seq seqs[AT_ONCE];
    bool wants[AT_ONCE];
    const int most = model_info(m)->max_logits < AT_ONCE ? model_info(m)->max_logits : AT_ONCE;
    for (int i = 0; i < AT_ONCE; i++) {
        seqs[i] = seq;
        wants[i] = true;
    }
    for (int first = 0, n; first < r->n - 1; first += n) {
        n = r->n - 1 - first < most ? r->n - 1 - first : most;
        const struct batch batch = {.n_row = n, .token = r->token + first, .seq = seqs, .wants_logits = wants};
        MR_TRY(model_forward(m, kv, &batch, err));
        for (int i = 0; i < n; i++)
            add_row(sum, r, first + i, model_logits(m, i), is_reference);
    }
    return MR_OK;
}

static enum mr_status run_text(struct quality *sum, struct quality_reference *r, struct mr_model *model, bool is_reference,
                               struct mr_error *err)
{
    struct model_kv *kv;
    kv_seq seq;
    MR_TRY(model_kv_create(&kv, model->model, 1, r->n, r->n, err));
    enum mr_status status = kv_seq_open(model_kv_cache(kv), &seq);
    if (status == MR_OK)
        status = run_rows(sum, r, model->model, kv, seq, is_reference, err);
    model_kv_free(kv);
    return status;
}

enum mr_status quality_measure(struct quality *out, struct quality_reference *reference, struct mr_model *model,
                               const char *text, size_t n_text, struct mr_error *err)
{
    const bool is_reference = reference->log_p == NULL;
    struct quality sum = {0};
    *out = sum;
    if (is_reference) {
        const enum mr_status status = make_reference(reference, model, text, n_text, err);
        if (status != MR_OK) {
            quality_reference_release(reference);
            return status;
        }
    }
    if (model_info(model->model)->n_vocab != reference->n_vocab)
        return mr_fail(err, MR_BAD_INPUT, "the models have different vocabularies");
    MR_TRY(run_text(&sum, reference, model, is_reference, err));
    *out = (struct quality){exp(sum.perplexity / (reference->n - 1)), sum.kl / (reference->n - 1)};
    return MR_OK;
}

void quality_reference_release(struct quality_reference *reference)
{
    mr_tokens_free(reference->token);
    free(reference->log_p);
    *reference = (struct quality_reference){0};
}
