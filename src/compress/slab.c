/* slab.c: rows are the pieces of work that threads share; each is encoded by itself. */
#include "compress/slab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "quant/fit.h"

enum {
    SLAB_BYTES = 8 << 20 /* of the input, but one row at least */
};

struct slab {
    const struct slab_work *work;
    const struct quant *from, *to;
    quant_fit_fn *fit; /* NULL: to's own encode */
    int64_t n_column;
    size_t row_in, row_out; /* bytes */
    int64_t first;          /* row of the slab */
    unsigned char *in, *out;
    float *values;         /* [threads][2][n_column]: the row, and what it became */
    const float **weight;  /* [rows of the slab] */
    double *error, *power; /* [rows of the slab] sum (x - q)^2, sum x^2 */
    bool *is_bad;          /* [rows of the slab] */
    float *even;           /* [n_column] ones */
};

static void encode_row(void *context, int row, int thread)
{
    const struct slab *s = context;
    const size_t n = (size_t)s->n_column;
    float *x = s->values + (size_t)thread * 2 * n, *back = x + n;
    const unsigned char *in = s->in + (size_t)row * s->row_in;
    unsigned char *out = s->out + (size_t)row * s->row_out;
    double error = 0, power = 0;
    s->is_bad[row] = !quant_is_finite(s->from, in, n);
    if (s->is_bad[row])
        return;
    s->from->decode(x, in, n);
    memcpy(back, x, n * sizeof *x);
    if (s->work->edit != NULL)
        s->work->edit->row(s->work->edit->context, back, n, s->first + row, thread);
    if (s->fit != NULL)
        s->fit(out, back, s->weight[row], n);
    else
        s->to->encode(out, back, n);
    s->is_bad[row] = !quant_is_finite(s->to, out, n);
    s->to->decode(back, out, n);
    for (size_t i = 0; i < n; i++) {
        const double e = (double)x[i] - (double)back[i];
        error += e * e;
        power += (double)x[i] * (double)x[i];
    }
    s->error[row] = error;
    s->power[row] = power;
}

/* A column that no activation met, or all of them: every weight counts a little, so that none is left to chance. */
static const float *usable(const float *weight, int64_t n, float *buffer)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)weight[i];
    if (!(sum > 0))
        return NULL;
    for (int64_t i = 0; i < n; i++) /* relative to the mean, lest sums of squares leave the range of floats */
        buffer[i] = (float)((double)weight[i] * (double)n / sum) + 1e-4F;
    return buffer;
}

static enum mr_status weigh(struct slab *s, int64_t first, int n_row, float *buffer, int64_t *matrix,
                            struct quantize_step *step, struct mr_error *err)
{
    const struct gguf_tensor *t = s->work->tensor;
    const int64_t m = first / t->dims[1]; /* a slab never spans two matrices */
    bool fits;
    if (m != *matrix) {
        const float *found = column_weights_find(s->work->importance, t->name, s->n_column, m, &fits);
        if (!fits)
            return mr_fail(err, MR_BAD_INPUT, "the statistics are of another model: their shape does not fit %lld columns",
                           (long long)s->n_column);
        const float *weight = found != NULL ? usable(found, s->n_column, buffer) : NULL;
        step->has_importance |= weight != NULL;
        *matrix = m;
        for (int r = 0; r < n_row; r++)
            s->weight[r] = weight != NULL ? weight : s->even;
    }
    return MR_OK;
}

static enum mr_status encode_slab(struct slab *s, int64_t first, int n_row, double *error, double *power, struct mr_error *err)
{
    MR_TRY(gguf_read(s->work->g, s->work->tensor, (size_t)first * s->row_in, s->in, (size_t)n_row * s->row_in, err));
    s->first = first;
    pool_run(s->work->pool, encode_row, s, n_row);
    for (int r = 0; r < n_row; r++) {
        if (s->is_bad[r])
            return mr_fail(err, MR_BAD_FORMAT, "row %lld holds NaN or infinity, or does so as %s", (long long)(first + r),
                           s->to->name);
        *error += s->error[r];
        *power += s->power[r];
    }
    return gguf_write_data(s->work->w, s->out, (size_t)n_row * s->row_out, err);
}

static enum mr_status run_slabs(struct slab *s, int most, struct quantize_step *step, struct mr_error *err)
{
    const struct gguf_tensor *t = s->work->tensor;
    const int64_t n_row = (int64_t)(t->bytes / s->row_in);
    float *buffer = mem_array((size_t)s->n_column, sizeof *buffer);
    double error = 0, power = 0;
    int64_t matrix = -1;
    enum mr_status status = buffer != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory");
    for (int64_t first = 0; first < n_row && status == MR_OK;) {
        const int64_t left = t->dims[1] - first % t->dims[1];
        const int n = left < most ? (int)left : most;
        status = weigh(s, first, most, buffer, &matrix, step, err);
        if (status == MR_OK)
            status = encode_slab(s, first, n, &error, &power, err);
        first += n;
    }
    free(buffer);
    step->error = power > 0 ? sqrt(error / power) : 0;
    return status;
}

static enum mr_status encode_tensor(const struct slab_work *work, struct quantize_step *step, struct mr_error *err)
{
    const struct gguf_tensor *t = work->tensor;
    struct slab s = {
        .work = work, .from = t->quant, .to = work->to, .fit = quant_fit_of(work->to->type), .n_column = t->dims[0]};
    const size_t n = (size_t)s.n_column;
    s.row_in = quant_row_bytes(s.from, n);
    s.row_out = quant_row_bytes(s.to, n);
    const size_t fitting = SLAB_BYTES / s.row_in, rows = fitting < 1 ? 1 : fitting < 65536 ? fitting : 65536;
    step->bytes = t->bytes / s.row_in * s.row_out;
    s.in = mem_array(rows, s.row_in);
    s.out = mem_array(rows, s.row_out);
    s.values = mem_array((size_t)pool_n_thread(work->pool) * 2, n * sizeof(float));
    s.weight = mem_array(rows, sizeof *s.weight);
    s.error = mem_array(rows, sizeof *s.error);
    s.power = mem_array(rows, sizeof *s.power);
    s.is_bad = mem_array(rows, sizeof *s.is_bad);
    s.even = mem_array(n, sizeof *s.even);
    for (size_t i = 0; s.even != NULL && i < n; i++)
        s.even[i] = 1;
    const bool is_there = s.in != NULL && s.out != NULL && s.values != NULL && s.weight != NULL && s.error != NULL &&
                          s.power != NULL && s.is_bad != NULL && s.even != NULL;
    const enum mr_status status =
        is_there ? run_slabs(&s, (int)rows, step, err) : mr_fail(err, MR_NO_MEMORY, "no memory for rows of %zu weights", n);
    free(s.in);
    free(s.out);
    free(s.values);
    free((void *)s.weight);
    free(s.error);
    free(s.power);
    free(s.is_bad);
    free(s.even);
    return status;
}

static enum mr_status copy_tensor(const struct slab_work *work, struct quantize_step *step, struct mr_error *err)
{
    const struct gguf_tensor *t = work->tensor;
    char *bytes = mem_array(SLAB_BYTES, 1);
    enum mr_status status = bytes != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory");
    for (size_t done = 0; done < t->bytes && status == MR_OK; done += SLAB_BYTES) {
        const size_t n = t->bytes - done < SLAB_BYTES ? t->bytes - done : SLAB_BYTES;
        status = gguf_read(work->g, t, done, bytes, n, err);
        if (status == MR_OK)
            status = gguf_write_data(work->w, bytes, n, err);
    }
    free(bytes);
    step->bytes = t->bytes;
    return status;
}

enum mr_status slab_run(const struct slab_work *work, struct quantize_step *step, struct mr_error *err)
{
    const struct gguf_tensor *t = work->tensor;
    const enum mr_status status =
        work->to == t->quant && work->edit == NULL ? copy_tensor(work, step, err) : encode_tensor(work, step, err);
    return status == MR_OK ? MR_OK
                           : mr_fail_in(err, status, "tensor '%.*s'", (int)(t->name.n < 128 ? t->name.n : 128), t->name.s);
}
