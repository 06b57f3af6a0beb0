/* importance.c: scores from weights, activations and gradients. */
#include "compress/importance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compress/removal.h"
#include "train/loss.h"

struct judge {
    const struct train_model *m;
    const struct importance_options *o;
    struct structures *score;
    int32_t *token, *label;
    struct row_loss *rows;
    float *grad;
    double *sum;    /* of activations: [n_layer][q + n_ff] */
    double *column; /* of the widest matrix */
    float scale;
};

/* A parameter, and the array of its size that it is multiplied with. */
struct factors {
    const float *w, *by;
    struct param_place p;
};

/* grad: multiplied with its gradient; NULL: with itself. */
static enum mr_status take(struct factors *f, const struct judge *j, int layer, enum param which, const float *grad,
                           struct mr_error *err)
{
    f->p = train_param(j->m, layer, which);
    if (j->m->w != NULL)
        f->w = j->m->w + f->p.at;
    else
        MR_TRY(j->o->params->read(j->o->params->context, layer, which, &f->w, err));
    f->by = grad != NULL ? grad + f->p.at : f->w;
    return MR_OK;
}

/* j->column[n_in] = sums of products over the columns of a matrix */
static const double *column_dots(const struct judge *j, const struct factors *f)
{
    memset(j->column, 0, (size_t)f->p.n_in * sizeof *j->column);
    for (size_t o = 0; o < (size_t)f->p.n_out; o++)
        for (size_t i = 0; i < (size_t)f->p.n_in; i++) {
            const size_t at = o * (size_t)f->p.n_in + i;
            j->column[i] += (double)f->w[at] * (double)f->by[at];
        }
    return j->column;
}

/* Sizes from sums of products: |sum| of weight and gradient, or the length of the weights. A structure is seen by its column of
 * the matrix that writes to the residual stream: through it goes all that it gives. */
typedef double size_fn(double sum);
static double first_order(double sum) { return fabs(sum); }

/* Adds to score[n], each of `width` columns; returns the sum over all of them. */
static double add_columns(float *score, const double *column, int n, int width, size_fn *size)
{
    double all = 0;
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int k = i * width; k < (i + 1) * width; k++)
            sum += column[k];
        score[i] += (float)size(sum);
        all += sum;
    }
    return all;
}

static enum mr_status add_layer(const struct judge *j, int l, const float *grad, size_fn *size, struct mr_error *err)
{
    const struct hparams *h = &j->m->h;
    const struct structures *s = j->score;
    struct factors f;
    MR_TRY(take(&f, j, l, PARAM_O, grad, err));
    double all = add_columns(s->group + (size_t)l * (size_t)s->n_group, column_dots(j, &f), s->n_group,
                             h->head_dim * (h->n_head / h->n_head_kv), size);
    MR_TRY(take(&f, j, l, PARAM_DOWN, grad, err));
    all += add_columns(s->channel + (size_t)l * (size_t)s->n_ff, column_dots(j, &f), s->n_ff, 1, size);
    s->layer[l] += (float)size(all);
    return MR_OK;
}

static enum mr_status add_norm(const struct judge *j, int layer, enum param which, const float *grad, struct mr_error *err)
{
    struct factors f;
    MR_TRY(take(&f, j, layer, which, grad, err));
    for (int i = 0; i < j->m->h.n_embd; i++)
        j->column[i] += (double)f.w[i] * (double)f.by[i];
    return MR_OK;
}

/* A dimension goes through every norm, and out of the embedding. */
static enum mr_status add_width(const struct judge *j, const float *grad, size_fn *size, struct mr_error *err)
{
    const struct hparams *h = &j->m->h;
    struct factors f;
    MR_TRY(take(&f, j, 0, PARAM_EMBED, grad, err));
    column_dots(j, &f);
    MR_TRY(add_norm(j, 0, PARAM_OUTPUT_NORM, grad, err));
    for (int l = 0; l < h->n_layer; l++) {
        MR_TRY(add_norm(j, l, PARAM_ATTN_NORM, grad, err));
        MR_TRY(add_norm(j, l, PARAM_FFN_NORM, grad, err));
    }
    add_columns(j->score->width, j->column, h->n_embd, 1, size);
    return MR_OK;
}

/* grad: by first order; NULL: by weight. */
static enum mr_status add_all(const struct judge *j, const float *grad, struct mr_error *err)
{
    size_fn *size = grad != NULL ? first_order : sqrt;
    for (int l = 0; l < j->m->h.n_layer; l++)
        MR_TRY(add_layer(j, l, grad, size, err));
    return add_width(j, grad, size, err);
}

static double cross_entropy(void *context, struct compute *c, float *logits, int first, int n, bool backward)
{
    struct judge *j = context;
    const struct loss_targets t = {.label = j->label + first, .ce_weight = 1, .temperature = 1, .scale = j->scale};
    double sum = 0;
    loss_rows(c, j->rows, &t, logits, n, j->m->h.n_vocab, backward);
    for (int i = 0; i < n; i++)
        sum += (double)j->rows[i].cross_entropy;
    return sum;
}

static void observe(void *context, int layer, enum param which, float *x, int n_row)
{
    const struct judge *j = context;
    const size_t q = (size_t)j->m->h.n_head * (size_t)j->m->h.head_dim, ff = (size_t)j->m->h.n_ff;
    const size_t n = which == PARAM_O ? q : ff;
    double *sum = j->sum + (size_t)layer * (q + ff) + (which == PARAM_O ? 0 : q);
    for (size_t r = 0; r < (size_t)n_row; r++)
        for (size_t i = 0; i < n; i++)
            sum[i] += fabs((double)x[r * n + i]);
}

/* Activations to scores: times the length of the column behind them. Layers and the width go by weight. */
static enum mr_status weigh_activations(const struct judge *j, struct mr_error *err)
{
    const struct hparams *h = &j->m->h;
    const struct structures *s = j->score;
    const int width = h->head_dim * (h->n_head / h->n_head_kv), q = h->n_head * h->head_dim;
    struct factors f;
    MR_TRY(add_all(j, NULL, err));
    memset(s->group, 0, (size_t)s->n_layer * (size_t)s->n_group * sizeof *s->group);
    memset(s->channel, 0, (size_t)s->n_layer * (size_t)s->n_ff * sizeof *s->channel);
    for (int l = 0; l < h->n_layer; l++) {
        const double *sum = j->sum + (size_t)l * (size_t)(q + h->n_ff);
        MR_TRY(take(&f, j, l, PARAM_O, NULL, err));
        const double *column = column_dots(j, &f);
        for (int i = 0; i < q; i++)
            s->group[(size_t)l * (size_t)s->n_group + (size_t)(i / width)] += (float)(sum[i] * sqrt(column[i]));
        MR_TRY(take(&f, j, l, PARAM_DOWN, NULL, err));
        column = column_dots(j, &f);
        for (int c = 0; c < h->n_ff; c++)
            s->channel[(size_t)l * (size_t)s->n_ff + (size_t)c] = (float)(sum[q + c] * sqrt(column[c]));
    }
    return MR_OK;
}

static enum mr_status read_text(struct judge *j, struct train_pass *pass, struct mr_error *err)
{
    const bool taylor = j->o->method == IMPORTANCE_TAYLOR;
    const struct train_loss loss = {.logits = taylor ? cross_entropy : NULL, .branch = taylor ? NULL : observe, .context = j};
    const uint32_t n = j->o->windows->n_train;
    for (uint32_t i = 0; i < n; i++) {
        text_windows_read(j->o->windows, i, j->token, j->label);
        if (taylor)
            memset(j->grad, 0, j->m->n_weight * sizeof *j->grad);
        const double sum = train_pass_run(pass, j->token, 1, &loss, j->grad);
        if (!isfinite(sum))
            return mr_fail(err, MR_BAD_FORMAT, "the loss over the text is not a number");
        if (taylor)
            MR_TRY(add_all(j, j->grad, err));
        if (j->o->go_on != NULL && !j->o->go_on(j->o->context, i + 1, n))
            return mr_fail(err, MR_CANCELLED, "stopped after %u of %u windows", i + 1, n);
    }
    return MR_OK;
}

static enum mr_status measure(struct judge *j, struct mr_error *err)
{
    const struct hparams *h = &j->m->h;
    const size_t n_tok = (size_t)j->o->windows->n_tok, q = (size_t)h->n_head * (size_t)h->head_dim;
    struct train_pass *pass;
    const struct train_pass_options o = {.n_seq = 1,
                                         .n_tok = (int)n_tok,
                                         .is_forward = j->o->method == IMPORTANCE_ACTIVATION,
                                         .memory_bytes = j->o->memory_bytes,
                                         .pool = j->o->pool,
                                         .cpu_features = j->o->cpu_features};
    j->scale = 1 / (float)n_tok;
    j->token = mem_array(n_tok, sizeof *j->token);
    j->label = mem_array(n_tok, sizeof *j->label);
    j->rows = mem_array(n_tok, sizeof *j->rows);
    j->sum = mem_zero_array((size_t)h->n_layer * (q + (size_t)h->n_ff), sizeof *j->sum);
    j->grad = o.is_forward ? NULL : mem_array(j->m->n_weight, sizeof *j->grad);
    if (j->token == NULL || j->label == NULL || j->rows == NULL || j->sum == NULL || (!o.is_forward && j->grad == NULL))
        return mr_fail(err, MR_NO_MEMORY, "no memory for the gradient of %zu weights", j->m->n_weight);
    MR_TRY(train_pass_create(&pass, j->m, &o, err));
    const enum mr_status status = read_text(j, pass, err);
    train_pass_free(pass);
    return status == MR_OK && o.is_forward ? weigh_activations(j, err) : status;
}

enum mr_status importance_measure(struct structures *score, const struct train_model *m,
                                  const struct importance_options *options, struct mr_error *err)
{
    const struct hparams *h = &m->h;
    const int q = h->n_head * h->head_dim, wide = q > h->n_ff ? q : h->n_ff;
    struct judge j = {.m = m, .o = options, .score = score};
    enum mr_status status = MR_OK;
    j.column = mem_array((size_t)(wide > h->n_embd ? wide : h->n_embd), sizeof *j.column);
    if (options->method == IMPORTANCE_REMOVAL)
        status = removal_measure(score, m, options, err);
    else if (j.column == NULL)
        status = mr_fail(err, MR_NO_MEMORY, "no memory for the columns of a matrix");
    else if (options->method == IMPORTANCE_WEIGHT)
        status = add_all(&j, NULL, err);
    else
        status = measure(&j, err);
    free(j.column);
    free(j.token);
    free(j.label);
    free(j.rows);
    free(j.sum);
    free(j.grad);
    return status;
}
