/* calibrate.c: a table of ops in front of the device's own that looks at what products read. */
#include "compress/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compress/calibration_state.h"
#include "engine/loaded_model.h"
#include "model/loader.h"

void calibration_free(struct calibration *c)
{
    if (c == NULL)
        return;
    for (int i = 0; i < c->n_met; i++) {
        free(c->met[i].sum);
        free(c->met[i].count);
    }
    free(c->met);
    free(c->row);
    free(c);
}

int calibration_n(const struct calibration *c)
{
    int n = 0;
    for (int i = 0; i < c->n_met; i++)
        for (int k = 0; k < c->met[i].n_matrix; k++)
            if (c->met[i].count[k] > 0) {
                n++;
                break;
            }
    return n;
}

/* The means of one tensor's matrices into mean[n_matrix][n_in]. */
static void take_means(float *mean, const struct met *m)
{
    for (int k = 0; k < m->n_matrix; k++)
        for (int i = 0; i < m->n_in; i++) {
            const size_t at = (size_t)k * (size_t)m->n_in + (size_t)i;
            mean[at] = m->count[k] > 0 ? (float)(m->sum[at] / (double)m->count[k]) : 0;
        }
}

static enum mr_status add_means(struct column_weights *to, const struct met *m, struct mr_error *err)
{
    const size_t n = (size_t)m->n_matrix * (size_t)m->n_in;
    float *mean = mem_array(n, sizeof *mean);
    if (mean == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the statistics");
    take_means(mean, m);
    const enum mr_status status = column_weights_add(to, m->name, mean, n, err);
    free(mean);
    return status;
}

enum mr_status calibration_weights(struct column_weights **out, const struct calibration *c, struct mr_error *err)
{
    MR_TRY(column_weights_create(out, err));
    enum mr_status status = MR_OK;
    for (int i = 0; i < c->n_met && status == MR_OK; i++)
        status = add_means(*out, &c->met[i], err);
    if (status == MR_OK)
        return MR_OK;
    column_weights_free(*out);
    *out = NULL;
    return status;
}

static struct met *find(struct calibration *c, const struct weight *w)
{
    for (int i = 0; i < c->n_met; i++)
        if (c->met[i].weight == w)
            return &c->met[i];
    return NULL;
}

/* Rows first .. end - 1 of x meet the matrix-th matrix of each product. */
static void add_rows(struct calibration *c, const struct product *product, int n_product, const struct tensor *x, int first,
                     int end, int matrix)
{
    for (int r = first; r < end; r++) {
        struct tensor row = *x;
        row.offset += (size_t)r * x->row_bytes;
        row.n_row = 1;
        c->inner->download(c->device, c->row, &row);
        for (int p = 0; p < n_product; p++) {
            struct met *m = find(c, product[p].weight);
            if (m == NULL || m->n_in != x->n_col || matrix >= m->n_matrix)
                continue;
            double *sum = m->sum + (size_t)matrix * (size_t)m->n_in;
            for (int i = 0; i < m->n_in; i++)
                sum[i] += (double)c->row[i] * (double)c->row[i];
            m->count[matrix]++;
        }
    }
}

static void look_matmul(struct device *d, const struct product *product, int n_product, const struct activation_view *x)
{
    struct calibration *c = (struct calibration *)d->ops;
    add_rows(c, product, n_product, &x->f32, 0, x->f32.n_row, 0);
    c->inner->matmul(d, product, n_product, x);
}

/* The layout of the groups is that of routing_group_ints. */
static void look_matmul_experts(struct device *d, const struct product *product, int n_product, const struct activation_view *x,
                                const struct routing *routing)
{
    struct calibration *c = (struct calibration *)d->ops;
    int32_t group[2 + 2 * MAX_EXPERTS];
    const struct tensor *g = &routing->group;
    c->inner->read(d, group, g->buffer, g->offset, (size_t)routing_group_ints(routing->n_expert) * sizeof *group);
    const int32_t *first = group + 1 + routing->n_expert;
    for (int i = 0; i < group[0]; i++)
        add_rows(c, product, n_product, &x->f32, first[i], first[i + 1], group[1 + i]);
    c->inner->matmul_experts(d, product, n_product, x, routing);
}

static enum mr_status add_met(struct calibration *c, const struct weight *w, struct gguf_string name, struct mr_error *err)
{
    struct met *m = &c->met[c->n_met++];
    const int n_matrix = w->n_expert > 0 ? w->n_expert : 1;
    *m = (struct met){.weight = w, .name = name, .n_in = w->n_in, .n_matrix = n_matrix};
    m->sum = mem_zero_array((size_t)n_matrix * (size_t)w->n_in, sizeof *m->sum);
    m->count = mem_zero_array((size_t)n_matrix, sizeof *m->count);
    return m->sum != NULL && m->count != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for the statistics");
}

/* All matrices of the model; a head that is the embedding, too, goes by that one's name. */
static enum mr_status prepare(struct calibration *c, const struct model *m, struct mr_error *err)
{
    int widest = 1;
    bool has_head = false;
    struct gguf_string embedding = {"", 0};
    c->met = mem_zero_array(m->w.n_item + 1, sizeof *c->met);
    if (c->met == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the statistics");
    for (size_t i = 0; i < m->w.n_item; i++) {
        const struct item *item = &m->w.item[i];
        if (item->matrix == NULL)
            continue;
        has_head |= item->matrix == &m->w.output;
        if (item->matrix == &m->w.embed)
            embedding = item->source->name;
        MR_TRY(add_met(c, item->matrix, item->source->name, err));
        widest = item->matrix->n_in > widest ? item->matrix->n_in : widest;
    }
    if (!has_head && embedding.n > 0)
        MR_TRY(add_met(c, &m->w.output, embedding, err));
    c->row = mem_array((size_t)widest, sizeof *c->row);
    return c->row != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for the statistics");
}

static enum mr_status read_text(struct calibration *c, struct perplexity *of_text, struct mr_model *model, const int32_t *token,
                                int64_t n, const struct perplexity_options *options, struct mr_error *err)
{
    MR_TRY(prepare(c, model->model, err));
    c->device = model->device;
    c->inner = c->device->ops;
    c->ops = *c->inner;
    c->ops.matmul = look_matmul;
    c->ops.matmul_experts = look_matmul_experts;
    c->device->ops = &c->ops;
    const enum mr_status status = perplexity_measure(of_text, model, token, n, options, err);
    c->device->ops = c->inner;
    return status;
}

enum mr_status calibrate(struct calibration **out, struct perplexity *of_text, struct mr_model *model, const int32_t *token,
                         int64_t n, const struct perplexity_options *options, struct mr_error *err)
{
    *out = NULL;
    *of_text = (struct perplexity){0};
    if (n < CALIBRATE_TOKENS_MIN)
        return mr_fail(err, MR_BAD_INPUT, "the text has %lld tokens, too few to calibrate with: %d or more are needed",
                       (long long)n, CALIBRATE_TOKENS_MIN);
    struct calibration *c = mem_zero_array(1, sizeof *c);
    if (c == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the statistics");
    c->n_window = options->window;
    const enum mr_status status = read_text(c, of_text, model, token, n, options, err);
    if (status == MR_OK)
        *out = c;
    else
        calibration_free(c);
    return status;
}
