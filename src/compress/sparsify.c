/* sparsify.c: plans what becomes of each tensor, then reads, thins and writes slab by slab. */
#include "compress/sparsify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compress/room.h"
#include "compress/slab.h"
#include "quant/sparse.h"

struct plan {
    const struct quant *to;
    bool is_sparse, is_unfit;
};

struct job {
    const struct gguf *g;
    const struct sparsify_options *o;
    struct gguf_writer *w;
    struct thread_pool *pool;
    struct plan *plan; /* [n_tensors] */
    uint64_t bytes;    /* of the output's tensors */
    struct sparsify_result result;
};

bool sparsify_takes(const struct gguf_tensor *t)
{
    return t->name.n > 4 && memcmp(t->name.s, "blk.", 4) == 0 && mix_is_matrix(t);
}

/* What stores the values of a tensor that stay. */
static const struct quant *value_type(const struct sparsify_options *o, const struct quant *from)
{
    const double bits = 8.0 * (double)from->bytes / from->block;
    if (o->type != NULL)
        return o->type;
    return quant_find(bits >= 16 ? QUANT_BF16 : bits >= 8 ? QUANT_Q8_0 : QUANT_Q4_0);
}

static enum mr_status plan_tensor(struct job *j, int i, struct mr_error *err)
{
    const struct gguf_tensor *t = gguf_tensor_at(j->g, i);
    struct plan *p = &j->plan[i];
    const int n_name = (int)(t->name.n < 128 ? t->name.n : 128);
    size_t bytes = t->bytes;
    if (t->product.n > 0)
        return mr_fail(err, MR_BAD_INPUT, "the file is packed for a machine; sparsify the one that it was packed from");
    if (quant_pattern(t->quant) != NULL)
        return mr_fail(err, MR_BAD_INPUT, "tensor '%.*s' is %s already", n_name, t->name.s, t->quant->name);
    p->to = t->quant;
    p->is_unfit = sparsify_takes(t) && t->dims[0] % QK != 0;
    p->is_sparse = sparsify_takes(t) && !p->is_unfit;
    if (p->is_sparse) {
        const struct quant *values = value_type(j->o, t->quant);
        p->to = j->o->is_dense ? values : quant_sparse_find(values, j->o->kept, j->o->of);
        if (p->to == NULL)
            return mr_fail(err, MR_NO_SUPPORT, "no type stores %d of %d weights as %s", j->o->kept, j->o->of, values->name);
        bytes = quant_row_bytes(p->to, (size_t)t->dims[0]) * (t->bytes / quant_row_bytes(t->quant, (size_t)t->dims[0]));
    }
    j->bytes += bytes;
    return gguf_declare_tensor(j->w, t->name, p->to, t->n_dims, t->dims, err);
}

static enum mr_status plan_all(struct job *j, const char *path, struct mr_error *err)
{
    const int n = gguf_n_tensors(j->g);
    j->plan = mem_zero_array((size_t)n + 1, sizeof *j->plan);
    if (j->plan == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for %d tensors", n);
    for (int i = 0; i < gguf_n_values(j->g); i++)
        MR_TRY(gguf_put_value(j->w, gguf_value_at(j->g, i), err));
    for (int i = 0; i < n; i++)
        MR_TRY(plan_tensor(j, i, err));
    MR_TRY(room_check(path, j->bytes, err));
    return gguf_begin_data(j->w, err);
}

/* What the rows of one tensor share. */
struct thinning {
    struct sparse_mask mask;
    const float *mean; /* [matrix][n_column], wanda */
    int64_t n_row;     /* of a matrix */
    float *scratch;    /* [threads][scratch] */
    size_t n_scratch;
};

static void thin_row(const void *context, float *x, size_t n, int64_t row, int thread)
{
    const struct thinning *t = context;
    struct sparse_mask mask = t->mask;
    mask.scratch = t->scratch + (size_t)thread * t->n_scratch;
    if (t->mean != NULL)
        mask.mean = t->mean + (size_t)(row / t->n_row) * n;
    sparse_mask_row(&mask, x, n);
}

/* The means of all matrices of a tensor. A matrix, or an expert, that no activation met, counts all columns alike. */
static enum mr_status find_means(float **out, const struct job *j, const struct gguf_tensor *t, struct mr_error *err)
{
    const size_t n = (size_t)t->dims[0];
    float *mean = mem_array((size_t)(t->dims[2] * t->dims[3]), n * sizeof *mean);
    *out = mean;
    if (mean == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the statistics");
    for (int64_t m = 0; m < t->dims[2] * t->dims[3]; m++) {
        bool fits;
        double sum = 0;
        const float *found = column_weights_find(j->o->statistics, t->name, t->dims[0], m, &fits);
        if (found == NULL)
            return mr_fail(err, MR_BAD_INPUT,
                           fits ? "the statistics know nothing of it" : "the statistics are of another model");
        for (size_t i = 0; i < n; i++)
            sum += (double)found[i];
        for (size_t i = 0; i < n; i++)
            mean[(size_t)m * n + i] = sum > 0 ? found[i] : 1;
    }
    return MR_OK;
}

static enum mr_status thin_tensor(struct job *j, const struct gguf_tensor *t, const struct quant *to,
                                  struct quantize_step *done, struct mr_error *err)
{
    const struct sparsify_options *o = j->o;
    const size_t n = (size_t)t->dims[0];
    struct thinning thin = {.mask = {.method = o->method, .kept = o->kept, .of = o->of, .ratio = o->ratio},
                            .n_row = t->dims[1],
                            .n_scratch = sparse_mask_scratch(n)};
    float *mean = NULL;
    enum mr_status status = MR_OK;
    if (o->method == SPARSE_WANDA)
        status = find_means(&mean, j, t, err);
    if (o->method == SPARSE_SPARSEGPT)
        status = o->factors->find(o->factors->context, &thin.mask.factor, t, err);
    thin.mean = mean;
    thin.scratch = mem_array((size_t)pool_n_thread(j->pool), thin.n_scratch * sizeof *thin.scratch);
    if (status == MR_OK && thin.scratch == NULL)
        status = mr_fail(err, MR_NO_MEMORY, "no memory for rows of %zu weights", n);
    const struct slab_edit edit = {thin_row, &thin};
    const struct slab_work work = {j->g, t, to, o->statistics, j->w, j->pool, &edit};
    const int n_name = (int)(t->name.n < 128 ? t->name.n : 128);
    if (status != MR_OK)
        status = mr_fail_in(err, status, "tensor '%.*s'", n_name, t->name.s);
    else
        status = slab_run(&work, done, err);
    free(mean);
    free(thin.scratch);
    return status;
}

static enum mr_status run_tensor(struct job *j, int i, struct mr_error *err)
{
    const struct gguf_tensor *t = gguf_tensor_at(j->g, i);
    const struct plan *p = &j->plan[i];
    const struct slab_work copy = {.g = j->g, .tensor = t, .to = t->quant, .w = j->w, .pool = j->pool};
    struct quantize_step done = {0};
    MR_TRY(p->is_sparse ? thin_tensor(j, t, p->to, &done, err) : slab_run(&copy, &done, err));
    const struct sparsify_step step = {.name = t->name,
                                       .from = t->quant,
                                       .to = p->to,
                                       .is_sparse = p->is_sparse,
                                       .is_unfit = p->is_unfit,
                                       .error = done.error,
                                       .bytes = done.bytes,
                                       .done = i + 1,
                                       .n = gguf_n_tensors(j->g)};
    j->result.n_tensor++;
    j->result.n_sparse += p->is_sparse;
    j->result.n_unfit += p->is_unfit;
    j->result.bytes_in += t->bytes;
    j->result.bytes_out += step.bytes;
    if (j->o->go_on != NULL && !j->o->go_on(j->o->context, &step))
        return mr_fail(err, MR_CANCELLED, "stopped after %d of %d tensors", i + 1, step.n);
    return MR_OK;
}

static enum mr_status run(struct job *j, const char *path, struct mr_error *err)
{
    MR_TRY(gguf_writer_create(&j->w, path, err));
    MR_TRY(plan_all(j, path, err));
    MR_TRY(pool_create(&j->pool, j->o->threads, err));
    for (int i = 0; i < gguf_n_tensors(j->g); i++)
        MR_TRY(run_tensor(j, i, err));
    if (j->result.n_sparse == 0)
        return mr_fail(err, MR_BAD_INPUT, "no matrix of a layer has rows of a multiple of %d weights: nothing to sparsify", QK);
    return gguf_writer_finish(j->w, err);
}

enum mr_status sparsify(struct sparsify_result *out, const char *in, const char *to, const struct sparsify_options *options,
                        struct mr_error *err)
{
    struct gguf *g;
    *out = (struct sparsify_result){0};
    MR_TRY(gguf_open(&g, in, err));
    struct job j = {.g = g, .o = options};
    const enum mr_status status = run(&j, to, err);
    gguf_writer_free(j.w);
    pool_free(j.pool);
    free(j.plan);
    gguf_close(g);
    if (status == MR_OK)
        *out = j.result;
    return status;
}
