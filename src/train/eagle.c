/* eagle.c: a product in front of a layer. */
#include "train/eagle.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "train/row_ops.h"

struct eagle_pass {
    const struct eagle *e;
    struct train_pass *block;
    float *pair, *x; /* [n_row][2 n_embd]: feature and embedding; [n_row][n_embd] */
};

struct param_place eagle_weight(const struct eagle *e)
{
    const int n = e->base->h.n_embd;
    return (struct param_place){e->block.n_weight, n, 2 * n};
}

struct param_place eagle_bias(const struct eagle *e)
{
    const struct param_place w = eagle_weight(e);
    return (struct param_place){.at = w.at + param_floats(w), .n_out = w.n_out};
}

/* The layer's weights become the first of the head's. */
static enum mr_status allocate(struct eagle *e, struct mr_error *err)
{
    e->n_weight = eagle_bias(e).at + param_floats(eagle_bias(e));
    e->w = mem_zero_array(e->n_weight, sizeof *e->w);
    train_model_release(&e->block);
    e->block.w = e->w;
    return e->w != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for a head of %zu weights", e->n_weight);
}

enum mr_status eagle_create(struct eagle *out, const struct train_model *base, uint64_t seed, struct mr_error *err)
{
    *out = (struct eagle){.base = base};
    MR_TRY(train_model_create_block(&out->block, base, err));
    MR_TRY(allocate(out, err));
    const struct param_place fc = eagle_weight(out);
    train_model_randomize(&out->block, seed);
    for (int i = 0; i < fc.n_out; i++)
        out->w[fc.at + (size_t)i * (size_t)fc.n_in + (size_t)i] = 1;
    return MR_OK;
}

void eagle_release(struct eagle *e)
{
    free(e->w);
    e->w = e->block.w = NULL;
}

static enum mr_status create(struct eagle_pass *p, const struct train_pass_options *options, struct mr_error *err)
{
    const size_t rows = (size_t)options->n_seq * (size_t)options->n_tok, n = (size_t)p->e->base->h.n_embd;
    struct train_pass_options block = *options;
    block.is_forward = false;
    block.lora = NULL;
    block.output = p->e->base;
    MR_TRY(train_pass_create(&p->block, &p->e->block, &block, err));
    p->pair = mem_array(rows * 2, n * sizeof *p->pair);
    p->x = mem_array(rows, n * sizeof *p->x);
    return p->pair != NULL && p->x != NULL ? MR_OK
                                           : mr_fail(err, MR_NO_MEMORY, "no memory for the head's states of %zu tokens", rows);
}

enum mr_status eagle_pass_create(struct eagle_pass **out, const struct eagle *e, const struct train_pass_options *options,
                                 struct mr_error *err)
{
    *out = NULL;
    struct eagle_pass *p = mem_zero_array(1, sizeof *p);
    if (p == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a pass");
    p->e = e;
    const enum mr_status status = create(p, options, err);
    if (status == MR_OK)
        *out = p;
    else
        eagle_pass_free(p);
    return status;
}

void eagle_pass_free(struct eagle_pass *p)
{
    if (p == NULL)
        return;
    train_pass_free(p->block);
    free(p->pair);
    free(p->x);
    free(p);
}

struct compute *eagle_pass_compute(struct eagle_pass *p) { return train_pass_compute(p->block); }

static void set_pairs(struct eagle_pass *p, const float *feature, const int32_t *next, int n_row)
{
    const struct train_model *m = p->e->base;
    const size_t n = (size_t)m->h.n_embd;
    const float *embed = m->w + train_param(m, 0, PARAM_EMBED).at;
    for (int r = 0; r < n_row; r++) {
        float *pair = p->pair + (size_t)r * 2 * n;
        memcpy(pair, feature + (size_t)r * n, n * sizeof *pair);
        for (size_t i = 0; i < n; i++)
            pair[n + i] = next[r] < 0 ? 0 : embed[(size_t)next[r] * n + i] * m->h.embed_scale;
    }
}

double eagle_pass_run(struct eagle_pass *p, const float *feature, const int32_t *next, int n_seq, const struct train_loss *loss,
                      float *grad)
{
    const struct param_place fc = eagle_weight(p->e), bias = eagle_bias(p->e);
    const int n_row = n_seq * train_pass_n_tok(p->block);
    struct compute *c = train_pass_compute(p->block);
    const float *dx;
    set_pairs(p, feature, next, n_row);
    product_forward(c, p->x, p->pair, p->e->w + fc.at, n_row, fc.n_out, fc.n_in, false);
    bias_forward(c, p->x, p->e->w + bias.at, n_row, fc.n_out);
    const double sum = train_pass_run_block(p->block, p->x, n_seq, loss, grad, &dx);
    if (grad == NULL)
        return sum;
    bias_backward(c, grad + bias.at, dx, n_row, fc.n_out);
    product_weight_grad(c, grad + fc.at, dx, p->pair, n_row, fc.n_out, fc.n_in);
    return sum;
}

double eagle_flops_per_token(const struct eagle *e, int n_tok)
{
    const double n = e->base->h.n_embd; /* neither the output matrix nor what fc reads has a gradient */
    return train_flops_per_token(&e->block, n_tok) - 2 * n * e->base->h.n_vocab + 4 * 2 * n * n;
}
