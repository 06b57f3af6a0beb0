/* train_pass.c: the memory of a pass, and the ends of a model: embedding, output, loss. */
#include "train/train_pass_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/trigonometry.h"
#include "train/row_ops.h"

enum {
    HEAD_FLOATS = 24 << 20, /* of logits at a time: the matrix is read and packed anew for each such part of the rows */
    HEAD_ROWS_MIN = 48,     /* the rows of the kernel's block */
    HEAD_ROWS_MAX = 480
};

/* Lays arrays behind each other: once to count, once to place. */
struct layout {
    float *base;
    size_t n; /* floats */
    bool failed;
};

static float *place(struct layout *l, size_t n_row, int n)
{
    size_t floats;
    float *at = l->base != NULL ? l->base + l->n : NULL;
    if (!size_mul(&floats, n_row, (size_t)n) || floats > SIZE_MAX / 64 || !size_add(&l->n, l->n, size_align(floats, 16)))
        l->failed = true;
    return at;
}

static void place_kept(struct layout *l, struct kept *k, const struct train_model *m, size_t rows)
{
    const struct hparams *h = &m->h;
    const int q = h->n_head * h->head_dim, kv = h->n_head_kv * h->head_dim;
    k->normed = place(l, rows, h->n_embd);
    k->q = place(l, rows, q);
    k->k = place(l, rows, kv);
    k->v = place(l, rows, kv);
    k->q_raw = m->has_qk_norm ? place(l, rows, q) : k->q;
    k->k_raw = m->has_qk_norm ? place(l, rows, kv) : k->k;
    k->attended = place(l, rows, q);
    k->o = place(l, rows, h->n_embd);
    k->middle = place(l, rows, h->n_embd);
    k->normed2 = place(l, rows, h->n_embd);
    k->gate = place(l, rows, h->n_ff);
    k->up = place(l, rows, h->n_ff);
    k->gated = place(l, rows, h->n_ff);
    k->down = place(l, rows, h->n_embd);
}

static void place_all(struct layout *l, struct train_pass *p, bool is_forward)
{
    const struct hparams *h = &p->m->h;
    const size_t rows = (size_t)p->n_row;
    const int q = h->n_head * h->head_dim, kv = h->n_head_kv * h->head_dim;
    p->x = place(l, rows * ((size_t)h->n_layer + 1), h->n_embd);
    for (int i = 0; i < p->n_kept; i++)
        place_kept(l, &p->kept[i], p->m, rows);
    for (int i = 0; i < h->n_rope; i++) {
        p->cosine[i] = place(l, (size_t)p->shape.n_tok, h->rope[i].n_rot / 2);
        p->sine[i] = place(l, (size_t)p->shape.n_tok, h->rope[i].n_rot / 2);
    }
    p->normed = place(l, rows, h->n_embd);
    p->logits = place(l, (size_t)p->head_rows, h->n_vocab);
    p->attention = place(l, (size_t)p->c.n_thread, (int)attention_scratch(&p->shape));
    p->narrow = p->lora != NULL ? place(l, rows, p->lora->rank) : NULL;
    if (is_forward)
        return;
    p->dnarrow = p->lora != NULL ? place(l, rows, p->lora->rank) : NULL;
    p->dx = place(l, rows, h->n_embd);
    p->dbranch = place(l, rows, h->n_embd);
    p->dnormed = place(l, rows, h->n_embd);
    p->dq = place(l, rows, q);
    p->dk = place(l, rows, kv);
    p->dv = place(l, rows, kv);
    p->dattended = place(l, rows, q);
    p->dgate = place(l, rows, h->n_ff);
    p->dup = place(l, rows, h->n_ff);
}

static void set_angles(struct train_pass *p)
{
    const struct hparams *h = &p->m->h;
    for (int i = 0; i < h->n_rope; i++)
        for (int t = 0; t < p->shape.n_tok; t++)
            for (int j = 0; j < h->rope[i].n_rot / 2; j++) {
                double sine, cosine;
                const size_t at = (size_t)t * (size_t)(h->rope[i].n_rot / 2) + (size_t)j;
                math_sincos(&sine, &cosine, (double)((float)t * h->rope[i].inverse_wavelength[j]));
                p->cosine[i][at] = (float)cosine * h->rope[i].scale;
                p->sine[i][at] = (float)sine * h->rope[i].scale;
            }
}

static enum mr_status allocate(struct train_pass *p, const struct train_pass_options *o, struct mr_error *err)
{
    const struct hparams *h = &p->m->h;
    p->kept = mem_zero_array((size_t)h->n_layer, sizeof *p->kept);
    if (p->kept == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for %d layers", h->n_layer);
    struct layout l = {0};
    p->n_kept = o->is_forward ? 1 : h->n_layer;
    place_all(&l, p, o->is_forward);
    if (!o->is_forward && (l.failed || l.n > o->memory_bytes / sizeof(float))) {
        l = (struct layout){0};
        p->n_kept = 1;
        place_all(&l, p, false);
    }
    p->bytes = l.n * sizeof(float);
    if (!l.failed)
        p->memory = mem_aligned(64, p->bytes);
    if (p->memory == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for %zu bytes of activations; fewer or shorter sequences need less",
                       p->bytes);
    l = (struct layout){.base = p->memory};
    place_all(&l, p, o->is_forward);
    set_angles(p);
    return MR_OK;
}

static enum mr_status create(struct train_pass *p, const struct train_pass_options *o, struct mr_error *err)
{
    const struct hparams *h = &p->m->h;
    const int q = h->n_head * h->head_dim;
    if (o->n_seq < 1 || o->n_tok < 2 || o->n_tok > (1 << 20) / o->n_seq)
        return mr_fail(err, MR_BAD_INPUT, "a micro-batch of %d sequences of %d tokens", o->n_seq, o->n_tok);
    p->n_row = o->n_seq * o->n_tok;
    p->shape = (struct attention_shape){.n_tok = o->n_tok,
                                        .n_head = h->n_head,
                                        .n_head_kv = h->n_head_kv,
                                        .head_dim = h->head_dim,
                                        .scale = h->attention_scale};
    const int fit = HEAD_FLOATS / h->n_vocab / HEAD_ROWS_MIN * HEAD_ROWS_MIN;
    p->head_rows = fit < HEAD_ROWS_MIN ? HEAD_ROWS_MIN : fit > HEAD_ROWS_MAX ? HEAD_ROWS_MAX : fit;
    int widest = q > h->n_ff ? (q > h->n_embd ? q : h->n_embd) : h->n_ff > h->n_embd ? h->n_ff : h->n_embd;
    if (p->lora != NULL && p->lora->rank > widest)
        widest = p->lora->rank;
    const size_t turned = (size_t)p->n_row * (size_t)widest;
    const bool turns_logits = p->lora == NULL && p->output == p->m;
    const size_t head = turns_logits || o->is_bf16 ? (size_t)p->head_rows * (size_t)h->n_vocab : 0;
    /* norms of heads count each head as a row */
    MR_TRY(compute_init(&p->c, o->pool, o->cpu_features, o->is_forward ? 16 : turned > head ? turned : head, err));
    p->c.is_bf16 = o->is_bf16 && !o->is_forward;
    return allocate(p, o, err);
}

enum mr_status train_pass_create(struct train_pass **out, const struct train_model *m, const struct train_pass_options *options,
                                 struct mr_error *err)
{
    *out = NULL;
    struct train_pass *p = mem_zero_array(1, sizeof *p);
    if (p == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a pass");
    p->m = m;
    p->lora = options->lora;
    p->output = options->output != NULL ? options->output : m;
    const enum mr_status status = create(p, options, err);
    if (status == MR_OK)
        *out = p;
    else
        train_pass_free(p);
    return status;
}

void train_pass_free(struct train_pass *p)
{
    if (p == NULL)
        return;
    compute_release(&p->c);
    free(p->kept);
    free(p->memory);
    free(p);
}

bool train_pass_recomputes(const struct train_pass *p) { return p->dx != NULL && p->n_kept < p->m->h.n_layer; }
size_t train_pass_bytes(const struct train_pass *p) { return p->bytes + p->c.n_transposed * sizeof(float); }
int train_pass_n_tok(const struct train_pass *p) { return p->shape.n_tok; }
struct compute *train_pass_compute(struct train_pass *p) { return &p->c; }

const float *train_pass_hidden(const struct train_pass *p, int layer) { return train_state(p, layer); }
const float *train_pass_features(const struct train_pass *p) { return p->normed; }

static double hidden_loss(const struct run *r, int layer, bool backward)
{
    return r->loss->hidden == NULL
               ? 0
               : r->loss->hidden(r->loss->context, r->c, layer, train_state(r->p, layer), backward ? r->p->dx : NULL, r->n);
}

/* Logits of x, their loss and, into dnormed, its gradient. */
static double meet_output(const struct run *r, const float *x)
{
    const struct hparams *h = r->h;
    const struct train_model *m = r->p->output;
    const struct param_place at = train_param(m, 0, m->is_tied ? PARAM_EMBED : PARAM_OUTPUT);
    const float *w = m->w + at.at;
    double loss = 0;
    if (r->grad != NULL)
        memset(r->p->dnormed, 0, (size_t)r->n * (size_t)h->n_embd * sizeof(float));
    for (int first = 0; first < r->n && r->loss->logits != NULL; first += r->p->head_rows) {
        const int n = r->n - first < r->p->head_rows ? r->n - first : r->p->head_rows;
        const size_t offset = (size_t)first * (size_t)h->n_embd;
        product_forward(r->c, r->p->logits, x + offset, w, n, h->n_vocab, h->n_embd, false);
        loss += r->loss->logits(r->loss->context, r->c, r->p->logits, first, n, r->grad != NULL);
        if (r->grad == NULL)
            continue;
        if (r->base_grad != NULL && m == r->p->m)
            product_weight_grad(r->c, r->base_grad + at.at, r->p->logits, x + offset, n, h->n_vocab, h->n_embd);
        product_input_grad(r->c, r->p->dnormed + offset, r->p->logits, w, n, h->n_vocab, h->n_embd, false);
    }
    return loss;
}

static double head(const struct run *r)
{
    const struct train_model *m = r->p->m;
    rms_norm_forward(r->c, r->p->normed, train_state(r->p, r->h->n_layer), m->w + train_param(m, 0, PARAM_OUTPUT_NORM).at,
                     r->h->norm_eps, r->n, r->h->n_embd);
    return meet_output(r, r->p->normed);
}

static void head_backward(const struct run *r)
{
    const struct train_model *m = r->p->m;
    const size_t norm = train_param(m, 0, PARAM_OUTPUT_NORM).at;
    rms_norm_backward(r->c, r->p->dx, r->base_grad != NULL ? r->base_grad + norm : NULL, r->p->dnormed,
                      train_state(r->p, r->h->n_layer), m->w + norm, r->h->norm_eps, r->n, r->h->n_embd);
}

/* From the state in front of `layer` to the one behind the last. */
static double layers(const struct run *r, int layer)
{
    double sum = 0;
    for (; layer < r->h->n_layer; layer++) {
        train_layer_forward(r, layer);
        sum += hidden_loss(r, layer + 1, false);
    }
    return sum;
}

static void layers_backward(const struct run *r)
{
    for (int layer = r->h->n_layer - 1; layer >= 0; layer--) {
        hidden_loss(r, layer + 1, true);
        train_layer_backward(r, layer);
    }
    hidden_loss(r, 0, true);
}

static struct run run_of(struct train_pass *p, int n_seq, const struct train_loss *loss, float *grad)
{
    const struct hparams *h = &p->m->h;
    struct run r = {.p = p,
                    .h = h,
                    .c = &p->c,
                    .loss = loss,
                    .shape = p->shape,
                    .grad = grad,
                    .base_grad = p->lora == NULL ? grad : NULL,
                    .n = n_seq * p->shape.n_tok,
                    .q = h->n_head * h->head_dim,
                    .kv = h->n_head_kv * h->head_dim};
    r.shape.n_seq = n_seq;
    return r;
}

double train_pass_run(struct train_pass *p, const int32_t *token, int n_seq, const struct train_loss *loss, float *grad)
{
    const struct run r = run_of(p, n_seq, loss, grad);
    const struct hparams *h = r.h;
    const size_t embed = train_param(p->m, 0, PARAM_EMBED).at;
    embed_forward(r.c, train_state(p, 0), p->m->w + embed, token, h->embed_scale, r.n, h->n_embd);
    double sum = hidden_loss(&r, 0, false);
    sum += layers(&r, 0);
    sum += head(&r);
    if (grad == NULL)
        return sum;
    head_backward(&r);
    layers_backward(&r);
    if (r.base_grad != NULL)
        embed_backward(r.c, r.base_grad + embed, p->dx, token, h->embed_scale, r.n, h->n_embd);
    return sum;
}

double train_pass_rerun(struct train_pass *p, int n_seq, int layer, const struct train_loss *loss)
{
    const struct run r = run_of(p, n_seq, loss, NULL);
    const double sum = layers(&r, layer);
    return sum + head(&r);
}

double train_pass_run_block(struct train_pass *p, const float *x, int n_seq, const struct train_loss *loss, float *grad,
                            const float **dx)
{
    const struct run r = run_of(p, n_seq, loss, grad);
    const size_t bytes = (size_t)r.n * (size_t)r.h->n_embd * sizeof *x;
    memcpy(train_state(p, 0), x, bytes);
    double sum = hidden_loss(&r, 0, false);
    sum += layers(&r, 0);
    sum += meet_output(&r, train_state(p, r.h->n_layer));
    *dx = NULL;
    if (grad == NULL)
        return sum;
    memcpy(p->dx, p->dnormed, bytes);
    layers_backward(&r);
    *dx = p->dx;
    return sum;
}

double train_product_weights(const struct train_model *m)
{
    const struct hparams *h = &m->h;
    const double q = (double)h->n_head * h->head_dim, kv = (double)h->n_head_kv * h->head_dim;
    return (2 * h->n_embd * (q + kv) + 3.0 * h->n_embd * h->n_ff) * h->n_layer + (double)h->n_embd * h->n_vocab;
}

double train_flops_per_token(const struct train_model *m, int n_tok)
{
    const struct hparams *h = &m->h;
    double keys = 0;
    for (int i = 0; i < h->n_layer; i++) {
        const double w = hparams_layer_has_window(h, i) && h->window < n_tok ? h->window : n_tok;
        keys += w - w * (w - 1) / (2.0 * n_tok);
    }
    return 6 * train_product_weights(m) + 3 * 4 * (double)h->n_head * h->head_dim * keys;
}
