/* experts_score.c: weights from the file; activations and losses from the engine's own forward pass in fp32. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compress/calibration_state.h"
#include "compress/experts.h"
#include "engine/loaded_model.h"
#include "measure/perplexity.h"

enum {
    PIECE = 1 << 14 /* weights decoded at a time */
};

/* sum[n_in] += squares over the columns of one expert's matrix. */
static enum mr_status add_squares(double *sum, const struct gguf *g, const struct gguf_tensor *t, int expert,
                                  struct mr_error *err)
{
    const size_t n_in = (size_t)t->dims[0], all = n_in * (size_t)t->dims[1], before = all * (size_t)expert;
    char bytes[PIECE * sizeof(float)];
    float w[PIECE];
    for (size_t done = 0, n; done < all; done += n) {
        n = all - done < PIECE ? all - done : PIECE;
        MR_TRY(gguf_read(g, t, quant_row_bytes(t->quant, before + done), bytes, quant_row_bytes(t->quant, n), err));
        if (!quant_is_finite(t->quant, bytes, n))
            return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s' holds NaN or infinity", (int)t->name.n, t->name.s);
        t->quant->decode(w, bytes, n);
        for (size_t i = 0; i < n; i++)
            sum[(done + i) % n_in] += (double)w[i] * (double)w[i];
    }
    return MR_OK;
}

enum mr_status experts_weigh(float *score, const struct gguf *g, const struct hparams *h, const double *sum,
                             struct mr_error *err)
{
    double *column = mem_array((size_t)h->n_ff, sizeof *column);
    enum mr_status status = column != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for the columns of an expert");
    for (int i = 0; i < h->n_layer * h->n_expert && status == MR_OK; i++) {
        char name[64];
        double all = 0;
        snprintf(name, sizeof name, "blk.%d.ffn_down_exps.weight", i / h->n_expert);
        const struct gguf_tensor *t = gguf_tensor_find(g, name);
        if (t == NULL || t->dims[0] != h->n_ff || t->dims[2] != h->n_expert) {
            status = mr_fail(err, MR_BAD_FORMAT, "there is no tensor '%s' of %d experts", name, h->n_expert);
            break;
        }
        memset(column, 0, (size_t)h->n_ff * sizeof *column);
        status = add_squares(column, g, t, i % h->n_expert, err);
        for (int c = 0; c < h->n_ff; c++)
            all += column[c] * (sum != NULL ? sum[(size_t)i * (size_t)h->n_ff + (size_t)c] : 1);
        score[i] = (float)sqrt(all);
    }
    free(column);
    return status;
}

/* The text's tokens, and how it is read. */
struct reading {
    struct mr_model *model;
    struct token_list tokens;
    int64_t n;
    struct perplexity_options options;
    const struct prune_job *job;
};

static bool go_on(void *context, int64_t done, int64_t total)
{
    const struct prune_job *job = context;
    return job->go_on == NULL || job->go_on(job->context, "measuring importance", done, total);
}

static enum mr_status open_reading(struct reading *r, const struct prune_job *job, struct mr_error *err)
{
    struct mr_options o;
    mr_options_defaults(&o);
    o.threads = job->threads;
    o.precision = MR_PRECISION_FP32;
    o.cpu = job->cpu;
    MR_TRY(mr_model_open(&r->model, job->in, &o, err));
    const int trained = model_info(r->model->model)->n_ctx_train, window = job->n_tok < trained ? job->n_tok : trained;
    const struct text_run text = {.s = job->text, .n = job->n_text, .match_control = true};
    MR_TRY(tokenizer_encode(r->model->tokenizer, &text, 1, 0, &r->tokens, err));
    const int64_t most = (int64_t)job->n_tok * job->n_window;
    r->n = job->n_window > 0 && (int64_t)r->tokens.n > most ? most : (int64_t)r->tokens.n;
    r->options = (struct perplexity_options){.window = window < 3 ? 3 : window, .stride = window < 3 ? 1 : window - 2};
    r->job = job;
    return r->n >= CALIBRATE_TOKENS_MIN ? MR_OK
                                        : mr_fail(err, MR_BAD_INPUT, "%lld tokens of text are too few: %d or more are needed",
                                                  (long long)r->n, CALIBRATE_TOKENS_MIN);
}

static enum mr_status by_activation(float *score, struct reading *r, const struct gguf *g, const struct hparams *h,
                                    struct mr_error *err)
{
    const size_t per_layer = (size_t)h->n_expert * (size_t)h->n_ff;
    struct calibration *c;
    struct perplexity of_text;
    double *sum = mem_zero_array((size_t)h->n_layer * per_layer, sizeof *sum);
    struct prune_job job = *r->job;
    r->options.go_on = go_on;
    r->options.context = &job;
    if (sum == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the activations of %d experts", h->n_expert);
    enum mr_status status = calibrate(&c, &of_text, r->model, r->tokens.id, r->n, &r->options, err);
    for (int i = 0; status == MR_OK && i < c->n_met; i++)
        for (int l = 0; l < h->n_layer; l++)
            if (c->met[i].weight == &r->model->model->w.layer[l].down)
                memcpy(sum + (size_t)l * per_layer, c->met[i].sum, per_layer * sizeof *sum);
    if (status == MR_OK) {
        calibration_free(c);
        status = experts_weigh(score, g, h, sum, err);
    }
    free(sum);
    return status;
}

/* A table of ops in front of the device's own: the router's scores of one expert become such that it is never worth a thing. */
struct silence {
    struct ops ops; /* first: the device points here */
    const struct ops *inner;
    const struct weight *router;
    int expert;
    float *row; /* [n_expert] */
};

static void silent_matmul(struct device *d, const struct product *product, int n_product, const struct activation_view *x)
{
    const struct silence *s = (const struct silence *)d->ops;
    s->inner->matmul(d, product, n_product, x);
    for (int p = 0; p < n_product; p++)
        for (int r = 0; product[p].weight == s->router && r < product[p].out.n_row; r++) {
            struct tensor row = product[p].out;
            row.offset += (size_t)r * row.row_bytes;
            row.n_row = 1;
            s->inner->download(d, s->row, &row);
            s->row[s->expert] = -1e30f;
            s->inner->upload(d, &row, s->row);
        }
}

/* Nats a token without an expert; layer < 0: with all. */
static enum mr_status loss_without(double *loss, struct silence *s, struct reading *r, int layer, int expert,
                                   struct mr_error *err)
{
    struct device *d = r->model->device;
    struct perplexity p;
    s->inner = d->ops;
    s->ops = *s->inner;
    s->ops.matmul = silent_matmul;
    s->router = layer < 0 ? NULL : &r->model->model->w.layer[layer].router;
    s->expert = expert;
    d->ops = &s->ops;
    const enum mr_status status = perplexity_measure(&p, r->model, r->tokens.id, r->n, &r->options, err);
    d->ops = s->inner;
    *loss = p.nll.mean;
    return status;
}

static enum mr_status by_removal(float *score, struct reading *r, const struct hparams *h, struct mr_error *err)
{
    struct prune_job job = *r->job;
    const int n = h->n_layer * h->n_expert;
    float row[MAX_EXPERTS];
    struct silence s = {.row = row};
    double base, loss;
    MR_TRY(loss_without(&base, &s, r, -1, 0, err));
    for (int i = 0; i < n; i++) {
        MR_TRY(loss_without(&loss, &s, r, i / h->n_expert, i % h->n_expert, err));
        score[i] = (float)(loss - base);
        if (!go_on(&job, i + 1, n))
            return mr_fail(err, MR_CANCELLED, "stopped after %d of %d experts", i + 1, n);
    }
    return MR_OK;
}

enum mr_status experts_score(float *score, const struct gguf *g, const struct hparams *h, const struct prune_job *job,
                             struct mr_error *err)
{
    struct reading r = {0};
    if (job->importance == IMPORTANCE_TAYLOR)
        return mr_fail(err, MR_NO_SUPPORT,
                       "there is no backward pass through experts: their importance is measured by activation, "
                       "weight or removal");
    if (job->importance == IMPORTANCE_WEIGHT)
        return experts_weigh(score, g, h, NULL, err);
    enum mr_status status = open_reading(&r, job, err);
    if (status == MR_OK)
        status = job->importance == IMPORTANCE_ACTIVATION ? by_activation(score, &r, g, h, err) : by_removal(score, &r, h, err);
    token_list_release(&r.tokens);
    mr_model_close(r.model);
    return status;
}
