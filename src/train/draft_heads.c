/* draft_heads.c: each head by itself; the output matrix a few rows at a time. */
#include "train/draft_heads.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "train/row_ops.h"

enum {
    LOGIT_FLOATS = 24 << 20, /* of logits at a time, as in train_pass.c */
    LOGIT_ROWS_MIN = 48,
    LOGIT_ROWS_MAX = 480
};

struct head_pass {
    const struct draft_heads *heads;
    const struct train_model *base;
    struct compute c;
    int logit_rows;
    float *u, *r, *d; /* [n_row][n_embd]: what silu reads, what the output matrix reads, gradients */
    float *logits;    /* [logit_rows][n_vocab] */
};

enum mr_status draft_heads_create(struct draft_heads *out, int n_head, int n_embd, struct mr_error *err)
{
    *out = (struct draft_heads){.n_head = n_head, .n_embd = n_embd};
    if (n_head < 1 || n_head > DRAFT_HEADS_MAX)
        return mr_fail(err, MR_BAD_INPUT, "%d heads, must be 1 to %d", n_head, DRAFT_HEADS_MAX);
    size_t head;
    if (!size_mul(&head, (size_t)n_embd, (size_t)n_embd + 1) || !size_mul(&out->n_weight, head, (size_t)n_head))
        return mr_fail(err, MR_NO_MEMORY, "no memory for %d heads of width %d", n_head, n_embd);
    out->w = mem_zero_array(out->n_weight, sizeof *out->w);
    return out->w != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for %zu weights", out->n_weight);
}

void draft_heads_release(struct draft_heads *h)
{
    free(h->w);
    h->w = NULL;
}

struct param_place draft_heads_weight(const struct draft_heads *h, int head)
{
    const size_t n = (size_t)h->n_embd;
    return (struct param_place){(size_t)head * n * (n + 1), h->n_embd, h->n_embd};
}

struct param_place draft_heads_bias(const struct draft_heads *h, int head)
{
    const struct param_place w = draft_heads_weight(h, head);
    return (struct param_place){.at = w.at + param_floats(w), .n_out = h->n_embd};
}

static int logit_rows(int n_vocab)
{
    const int fit = LOGIT_FLOATS / n_vocab / LOGIT_ROWS_MIN * LOGIT_ROWS_MIN;
    return fit < LOGIT_ROWS_MIN ? LOGIT_ROWS_MIN : fit > LOGIT_ROWS_MAX ? LOGIT_ROWS_MAX : fit;
}

static enum mr_status allocate(struct head_pass *p, int n_row, struct mr_error *err)
{
    const size_t rows = (size_t)n_row * (size_t)p->heads->n_embd;
    p->logit_rows = logit_rows(p->base->h.n_vocab);
    p->u = mem_array(rows, sizeof *p->u);
    p->r = mem_array(rows, sizeof *p->r);
    p->d = mem_array(rows, sizeof *p->d);
    p->logits = mem_array((size_t)p->logit_rows * (size_t)p->base->h.n_vocab, sizeof *p->logits);
    return p->u != NULL && p->r != NULL && p->d != NULL && p->logits != NULL
               ? MR_OK
               : mr_fail(err, MR_NO_MEMORY, "no memory for the heads' activations of %d tokens", n_row);
}

enum mr_status head_pass_create(struct head_pass **out, const struct draft_heads *heads, const struct train_model *base,
                                int n_row, struct thread_pool *pool, unsigned cpu_features, struct mr_error *err)
{
    *out = NULL;
    struct head_pass *p = mem_zero_array(1, sizeof *p);
    if (p == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a pass");
    p->heads = heads;
    p->base = base;
    enum mr_status status = compute_init(&p->c, pool, cpu_features, (size_t)n_row * (size_t)heads->n_embd, err);
    if (status == MR_OK)
        status = allocate(p, n_row, err);
    if (status == MR_OK)
        *out = p;
    else
        head_pass_free(p);
    return status;
}

void head_pass_free(struct head_pass *p)
{
    if (p == NULL)
        return;
    compute_release(&p->c);
    free(p->u);
    free(p->r);
    free(p->d);
    free(p->logits);
    free(p);
}

/* The loss of r's rows and, where backward, its gradient in d. */
static double guess(struct head_pass *p, int head, int n_row, const struct head_loss *loss, bool backward)
{
    const struct hparams *h = &p->base->h;
    const float *w = p->base->w + train_param(p->base, 0, p->base->is_tied ? PARAM_EMBED : PARAM_OUTPUT).at;
    double sum = 0;
    for (int first = 0; first < n_row; first += p->logit_rows) {
        const int n = n_row - first < p->logit_rows ? n_row - first : p->logit_rows;
        const size_t offset = (size_t)first * (size_t)h->n_embd;
        product_forward(&p->c, p->logits, p->r + offset, w, n, h->n_vocab, h->n_embd, false);
        sum += loss->logits(loss->context, &p->c, head, p->logits, first, n, backward);
        if (backward)
            product_input_grad(&p->c, p->d + offset, p->logits, w, n, h->n_vocab, h->n_embd, false);
    }
    return sum;
}

double head_pass_run(struct head_pass *p, const float *feature, int n_row, const struct head_loss *loss, float *grad)
{
    const int n = p->heads->n_embd;
    double sum = 0;
    for (int head = 0; head < p->heads->n_head; head++) {
        const struct param_place w = draft_heads_weight(p->heads, head), b = draft_heads_bias(p->heads, head);
        product_forward(&p->c, p->u, feature, p->heads->w + w.at, n_row, n, n, false);
        silu_residual_forward(&p->c, p->r, feature, p->u, p->heads->w + b.at, n_row, n);
        sum += guess(p, head, n_row, loss, grad != NULL);
        if (grad == NULL)
            continue;
        silu_residual_backward(&p->c, p->d, grad + b.at, p->d, p->u, n_row, n);
        product_weight_grad(&p->c, grad + w.at, p->d, feature, n_row, n, n);
    }
    return sum;
}

double head_flops_per_token(const struct draft_heads *h, const struct train_model *base)
{
    const double n = h->n_embd; /* features have no gradient either: 4 for each weight of a head */
    return h->n_head * (4 * n * n + 4 * n * base->h.n_vocab);
}
