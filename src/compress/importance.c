/* importance.c: scores from weights, activations and gradients. */
#include "compress/importance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
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

/* j->column[n_in] = sums over the columns of a matrix of a[i] * b[i] */
static const double *column_dots(const struct judge *j, const float *a, const float *b, struct param_place p)
{
    memset(j->column, 0, (size_t)p.n_in * sizeof *j->column);
    for (size_t o = 0; o < (size_t)p.n_out; o++)
        for (size_t i = 0; i < (size_t)p.n_in; i++) {
            const size_t at = p.at + o * (size_t)p.n_in + i;
            j->column[i] += (double)a[at] * (double)b[at];
        }
    return j->column;
}

static double dot(const float *a, const float *b, struct param_place p)
{
    double sum = 0;
    for (size_t i = p.at; i < p.at + param_floats(p); i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Sizes from the products of two arrays: |sum| of weight and gradient, or the length of the weights. A structure is seen by its
 * column of the matrix that writes to the residual stream: through it goes all that it gives. */
typedef double size_fn(double sum);
static double first_order(double sum) { return fabs(sum); }

static void add_layer(const struct judge *j, int l, const float *by, size_fn *size)
{
    const struct hparams *h = &j->m->h;
    const float *w = j->m->w;
    const struct param_place o = train_param(j->m, l, PARAM_O), down = train_param(j->m, l, PARAM_DOWN);
    const int width = h->head_dim * (h->n_head / h->n_head_kv);
    const double *column = column_dots(j, w, by, o);
    for (int g = 0; g < h->n_head_kv; g++) {
        double sum = 0;
        for (int i = 0; i < width; i++)
            sum += column[g * width + i];
        j->score->group[(size_t)l * (size_t)h->n_head_kv + (size_t)g] += (float)size(sum);
    }
    column = column_dots(j, w, by, down);
    for (int c = 0; c < h->n_ff; c++)
        j->score->channel[(size_t)l * (size_t)h->n_ff + (size_t)c] += (float)size(column[c]);
    j->score->layer[l] += (float)size(dot(w, by, o) + dot(w, by, down));
}

/* A dimension goes through every norm, and out of the embedding. */
static void add_width(const struct judge *j, const float *by, size_fn *size)
{
    const struct hparams *h = &j->m->h;
    const size_t last = train_param(j->m, 0, PARAM_OUTPUT_NORM).at;
    const double *column = column_dots(j, j->m->w, by, train_param(j->m, 0, PARAM_EMBED));
    for (int i = 0; i < h->n_embd; i++) {
        double sum = column[i] + (double)j->m->w[last + (size_t)i] * (double)by[last + (size_t)i];
        for (int l = 0; l < h->n_layer; l++)
            for (int k = 0; k < 2; k++) {
                const size_t at = train_param(j->m, l, k == 0 ? PARAM_ATTN_NORM : PARAM_FFN_NORM).at + (size_t)i;
                sum += (double)j->m->w[at] * (double)by[at];
            }
        j->score->width[i] += (float)size(sum);
    }
}

static void add_all(const struct judge *j, const float *by, size_fn *size)
{
    for (int l = 0; l < j->m->h.n_layer; l++)
        add_layer(j, l, by, size);
    add_width(j, by, size);
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

static void observe(void *context, int layer, const float *attended, const float *gated, int n_row)
{
    struct judge *j = context;
    const size_t q = (size_t)j->m->h.n_head * (size_t)j->m->h.head_dim, ff = (size_t)j->m->h.n_ff;
    double *sum = j->sum + (size_t)layer * (q + ff);
    for (size_t r = 0; r < (size_t)n_row; r++) {
        for (size_t i = 0; i < q; i++)
            sum[i] += fabs((double)attended[r * q + i]);
        for (size_t i = 0; i < ff; i++)
            sum[q + i] += fabs((double)gated[r * ff + i]);
    }
}

/* Activations to scores: times the length of the column behind them. */
static void weigh_activations(const struct judge *j)
{
    const struct hparams *h = &j->m->h;
    const int width = h->head_dim * (h->n_head / h->n_head_kv), q = h->n_head * h->head_dim;
    add_all(j, j->m->w, sqrt);
    for (int l = 0; l < h->n_layer; l++) {
        const double *sum = j->sum + (size_t)l * (size_t)(q + h->n_ff);
        const double *column = column_dots(j, j->m->w, j->m->w, train_param(j->m, l, PARAM_O));
        for (int g = 0; g < h->n_head_kv; g++) {
            double all = 0;
            for (int i = g * width; i < (g + 1) * width; i++)
                all += sum[i] * sqrt(column[i]);
            j->score->group[(size_t)l * (size_t)h->n_head_kv + (size_t)g] = (float)all;
        }
        column = column_dots(j, j->m->w, j->m->w, train_param(j->m, l, PARAM_DOWN));
        for (int c = 0; c < h->n_ff; c++)
            j->score->channel[(size_t)l * (size_t)h->n_ff + (size_t)c] = (float)(sum[q + c] * sqrt(column[c]));
    }
}

static enum mr_status read_text(struct judge *j, struct train_pass *pass, struct mr_error *err)
{
    const bool taylor = j->o->method == IMPORTANCE_TAYLOR;
    const struct train_loss loss = {.logits = taylor ? cross_entropy : NULL, .observe = taylor ? NULL : observe, .context = j};
    const uint32_t n = j->o->windows->n_train;
    for (uint32_t i = 0; i < n; i++) {
        text_windows_read(j->o->windows, i, j->token, j->label);
        if (taylor)
            memset(j->grad, 0, j->m->n_weight * sizeof *j->grad);
        const double sum = train_pass_run(pass, j->token, 1, &loss, j->grad);
        if (!isfinite(sum))
            return mr_fail(err, MR_BAD_FORMAT, "the loss over the text is not a number");
        if (taylor)
            add_all(j, j->grad, first_order);
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
    if (status == MR_OK && o.is_forward)
        weigh_activations(j);
    return status;
}

enum mr_status importance_measure(struct structures *score, const struct train_model *m,
                                  const struct importance_options *options, struct mr_error *err)
{
    const struct hparams *h = &m->h;
    const int q = h->n_head * h->head_dim, wide = q > h->n_ff ? q : h->n_ff;
    struct judge j = {.m = m, .o = options, .score = score};
    enum mr_status status = MR_OK;
    j.column = mem_array((size_t)(wide > h->n_embd ? wide : h->n_embd), sizeof *j.column);
    if (j.column == NULL)
        status = mr_fail(err, MR_NO_MEMORY, "no memory for the columns of a matrix");
    else if (options->method == IMPORTANCE_WEIGHT)
        add_all(&j, m->w, sqrt);
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
