/* hessian.c: a table of ops in front of the device's own that looks at what products read, as calibrate.c does. */
#include "compress/hessian.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "compress/calibrate.h"
#include "compress/inverse_factor.h"
#include "engine/loaded_model.h"
#include "model/loader.h"
#include "model/model_state.h"

static const float damping = 0.01f; /* of the mean of the diagonal: Frantar & Alistarh 2023 */

struct matrix {
    const struct weight *weight;
    struct gguf_string name; /* borrowed from the model's file */
    bool is_wanted;
    float *h; /* [n_in][n_in], then its factor; NULL: not collected, or that of `same` */
    int same; /* index of the matrix that reads the same activations; -1: not known */
    bool is_factor;
};

struct hessians {
    struct ops ops; /* first: the device points here while the text is read */
    const struct ops *inner;
    struct hessian_text text;
    struct thread_pool *pool;
    struct compute compute;
    struct matrix *matrix;
    int n_matrix;
    float *rows;           /* [window][widest] */
    enum mr_status status; /* of a reading */
    struct mr_error err;
};

static struct mr_model *model_of(const struct hessians *h) { return h->text.model; }

static void release_matrices(struct hessians *h)
{
    for (int i = 0; i < h->n_matrix; i++) {
        free(h->matrix[i].h);
        h->matrix[i].h = NULL;
        h->matrix[i].is_wanted = h->matrix[i].is_factor = false;
        h->matrix[i].same = -1;
    }
}

void hessians_free(struct hessians *h)
{
    if (h == NULL)
        return;
    release_matrices(h);
    compute_release(&h->compute);
    pool_free(h->pool);
    free(h->matrix);
    free(h->rows);
    free(h);
}

static int find_weight(const struct hessians *h, const struct weight *w)
{
    for (int i = 0; i < h->n_matrix; i++)
        if (h->matrix[i].weight == w && h->matrix[i].is_wanted)
            return i;
    return -1;
}

/* The wanted matrices of the products read the same rows: the first of them collects for all. -1: none is wanted. */
static int choose_leader(struct hessians *h, const struct product *product, int n_product)
{
    int leader = -1;
    for (int p = 0; p < n_product; p++) {
        const int i = find_weight(h, product[p].weight);
        if (i < 0)
            continue;
        leader = leader < 0 ? i : leader;
        h->matrix[i].same = leader;
    }
    return leader;
}

static void add_activations(struct hessians *h, int leader, struct device *d, const struct tensor *x)
{
    struct matrix *m = &h->matrix[leader];
    const size_t n = (size_t)m->weight->n_in;
    if (m->h == NULL)
        m->h = mem_zero_array(n, n * sizeof *m->h);
    if (m->h == NULL)
        h->status = mr_fail(&h->err, MR_NO_MEMORY, "no memory for the activations of %zu columns", n);
    for (int first = 0; h->status == MR_OK && first < x->n_row; first += h->text.windows->window) {
        struct tensor part = *x;
        part.offset += (size_t)first * x->row_bytes;
        part.n_row = x->n_row - first < h->text.windows->window ? x->n_row - first : h->text.windows->window;
        h->inner->download(d, h->rows, &part);
        product_weight_grad(&h->compute, m->h, h->rows, h->rows, part.n_row, x->n_col, x->n_col);
    }
}

static void look_matmul(struct device *d, const struct product *product, int n_product, const struct activation_view *x)
{
    struct hessians *h = (struct hessians *)d->ops;
    const int leader = choose_leader(h, product, n_product);
    if (leader >= 0 && x->f32.n_col == h->matrix[leader].weight->n_in)
        add_activations(h, leader, d, &x->f32);
    h->inner->matmul(d, product, n_product, x);
}

static enum mr_status prepare(struct hessians *h, struct mr_error *err)
{
    const struct weights *w = &model_of(h)->model->w;
    size_t widest = 1, rows;
    h->matrix = mem_zero_array(w->n_item + 1, sizeof *h->matrix);
    if (h->matrix == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the matrices");
    for (size_t i = 0; i < w->n_item; i++) {
        const struct weight *weight = w->item[i].matrix;
        if (weight == NULL || !sparsify_takes(w->item[i].source))
            continue;
        h->matrix[h->n_matrix++] = (struct matrix){.weight = weight, .name = w->item[i].source->name, .same = -1};
        widest = (size_t)weight->n_in > widest ? (size_t)weight->n_in : widest;
    }
    MR_TRY(pool_create(&h->pool, h->text.threads, err));
    rows = (size_t)h->text.windows->window * widest;
    h->rows = mem_array(rows, sizeof *h->rows);
    if (h->rows == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for %zu activations", rows);
    return compute_init(&h->compute, h->pool, cpu_detect(), rows, err);
}

enum mr_status hessians_create(struct hessians **out, const struct hessian_text *text, struct mr_error *err)
{
    *out = NULL;
    if (text->n < CALIBRATE_TOKENS_MIN)
        return mr_fail(err, MR_BAD_INPUT, "the text has %lld tokens, too few to calibrate with: %d or more are needed",
                       (long long)text->n, CALIBRATE_TOKENS_MIN);
    struct hessians *h = mem_zero_array(1, sizeof *h);
    if (h == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the matrices");
    h->text = *text;
    const enum mr_status status = prepare(h, err);
    if (status == MR_OK)
        *out = h;
    else
        hessians_free(h);
    return status;
}

/* Want matrix i, and those behind it that fit into memory. */
static void want(struct hessians *h, int i)
{
    size_t left = h->text.memory;
    for (int first = i; i < h->n_matrix; i++) {
        const size_t n = (size_t)h->matrix[i].weight->n_in, bytes = n * n * sizeof(float);
        if (i > first && bytes > left)
            return;
        h->matrix[i].is_wanted = true;
        left -= bytes < left ? bytes : left;
    }
}

static enum mr_status read_text(struct hessians *h, struct mr_error *err)
{
    struct perplexity of_text;
    struct device *d = model_of(h)->device;
    h->inner = d->ops;
    h->ops = *h->inner;
    h->ops.matmul = look_matmul;
    h->status = MR_OK;
    d->ops = &h->ops;
    const enum mr_status status = perplexity_measure(&of_text, h->text.model, h->text.token, h->text.n, h->text.windows, err);
    d->ops = h->inner;
    if (status == MR_OK && h->status != MR_OK)
        *err = h->err;
    return status != MR_OK ? status : h->status;
}

static int find_name(const struct hessians *h, struct gguf_string name)
{
    for (int i = 0; i < h->n_matrix; i++)
        if (h->matrix[i].name.n == name.n && memcmp(h->matrix[i].name.s, name.s, name.n) == 0)
            return i;
    return -1;
}

enum mr_status hessians_find(void *context, const float **out, const struct gguf_tensor *t, struct mr_error *err)
{
    struct hessians *h = context;
    const int i = find_name(h, t->name);
    if (i < 0 || h->matrix[i].weight->n_in != t->dims[0])
        return mr_fail(err, MR_BAD_INPUT, "the model does not multiply with it");
    if (h->matrix[i].weight->n_expert > 0)
        return mr_fail(err, MR_NO_SUPPORT, "sparsegpt does not take experts: use wanda");
    if (!h->matrix[i].is_wanted) {
        release_matrices(h);
        want(h, i);
        MR_TRY(read_text(h, err));
    }
    if (h->matrix[i].same < 0 || h->matrix[h->matrix[i].same].h == NULL)
        return mr_fail(err, MR_BAD_INPUT, "no activation met it");
    struct matrix *m = &h->matrix[h->matrix[i].same];
    if (!m->is_factor)
        MR_TRY(inverse_factor(&h->compute, m->h, m->weight->n_in, damping, err));
    m->is_factor = true;
    *out = m->h;
    return MR_OK;
}
