/* column_weights.c: both forms of files become rows of means. */
#include "compress/column_weights.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum {
    ENTRIES_MAX = 1 << 20,
    NAME_MAX_BYTES = 4096,
    VALUES_MAX = 1 << 28
};

struct entry {
    char *name;
    size_t n_name;
    float *mean; /* [n_value], matrix after matrix */
    size_t n_value;
};

struct column_weights {
    struct entry *entry;
    int n;
    size_t capacity;
};

static enum mr_status no_memory(struct mr_error *err) { return mr_fail(err, MR_NO_MEMORY, "no memory for the statistics"); }

void column_weights_free(struct column_weights *m)
{
    if (m == NULL)
        return;
    for (int i = 0; i < m->n; i++) {
        free(m->entry[i].name);
        free(m->entry[i].mean);
    }
    free(m->entry);
    free(m);
}

int column_weights_n(const struct column_weights *m) { return m->n; }

static enum mr_status add_entry(struct column_weights *m, struct entry **out, const char *name, size_t n_name, size_t n_value,
                                struct mr_error *err)
{
    if (!mem_grow(&m->entry, &m->capacity, (size_t)m->n + 1, sizeof *m->entry))
        return no_memory(err);
    struct entry *e = &m->entry[m->n++];
    *e = (struct entry){
        .name = mem_string(name, n_name), .n_name = n_name, .mean = mem_array(n_value, sizeof(float)), .n_value = n_value};
    *out = e;
    return e->name != NULL && e->mean != NULL ? MR_OK : no_memory(err);
}

enum mr_status column_weights_create(struct column_weights **out, struct mr_error *err)
{
    *out = mem_zero_array(1, sizeof **out);
    return *out != NULL ? MR_OK : no_memory(err);
}

static enum mr_status check_values(const struct entry *e, struct mr_error *err)
{
    for (size_t i = 0; i < e->n_value; i++)
        if (!isfinite(e->mean[i]) || e->mean[i] < 0)
            return mr_fail(err, MR_BAD_FORMAT, "entry '%s': value %zu is %g", e->name, i, (double)e->mean[i]);
    return MR_OK;
}

enum mr_status column_weights_add(struct column_weights *m, struct gguf_string tensor, const float *mean, size_t n,
                                  struct mr_error *err)
{
    struct entry *e = NULL;
    MR_TRY(add_entry(m, &e, tensor.s, tensor.n, n, err));
    memcpy(e->mean, mean, n * sizeof *mean);
    return check_values(e, err);
}

static bool read_int(FILE *f, int32_t *out, int32_t low, int32_t high)
{
    return fread(out, sizeof *out, 1, f) == 1 && *out >= low && *out <= high;
}

/* The values of a .dat file are means times the number of calls. */
static enum mr_status read_dat_entry(struct column_weights *m, FILE *f, struct mr_error *err)
{
    char name[NAME_MAX_BYTES];
    int32_t n_name, n_call, n_value;
    struct entry *e;
    if (!read_int(f, &n_name, 1, NAME_MAX_BYTES) || fread(name, 1, (size_t)n_name, f) != (size_t)n_name ||
        !read_int(f, &n_call, 0, INT32_MAX) || !read_int(f, &n_value, 1, VALUES_MAX))
        return mr_fail(err, MR_BAD_FORMAT, "entry %d is damaged, or the file is no importance matrix", m->n);
    MR_TRY(add_entry(m, &e, name, (size_t)n_name, (size_t)n_value, err));
    if (fread(e->mean, sizeof(float), e->n_value, f) != e->n_value)
        return mr_fail(err, MR_BAD_FORMAT, "entry '%s' ends past the file", e->name);
    for (size_t i = 0; n_call > 0 && i < e->n_value; i++)
        e->mean[i] /= (float)n_call;
    return check_values(e, err);
}

static enum mr_status read_dat(struct column_weights *m, const char *path, struct mr_error *err)
{
    FILE *f = fopen(path, "rb");
    int32_t n;
    enum mr_status status = MR_OK;
    if (f == NULL)
        return mr_fail(err, errno == ENOENT ? MR_NOT_FOUND : MR_IO, "%s", strerror(errno));
    if (!read_int(f, &n, 1, ENTRIES_MAX))
        status = mr_fail(err, MR_BAD_FORMAT, "it is no importance matrix");
    for (int32_t i = 0; i < n && status == MR_OK; i++)
        status = read_dat_entry(m, f, err);
    fclose(f);
    return status;
}

static const char sum_end[] = ".in_sum2", count_end[] = ".counts";

/* Sums of squares over counts, matrix by matrix. */
static enum mr_status read_gguf_entry(struct column_weights *m, const struct gguf *g, const struct gguf_tensor *sum,
                                      struct mr_error *err)
{
    char name[NAME_MAX_BYTES + sizeof count_end];
    const size_t n_name = sum->name.n - (sizeof sum_end - 1);
    struct entry *e;
    memcpy(name, sum->name.s, n_name);
    memcpy(name + n_name, count_end, sizeof count_end);
    const struct gguf_tensor *count = gguf_tensor_find(g, name);
    const size_t n_value = (size_t)(sum->dims[0] * sum->dims[1]), n_matrix = (size_t)sum->dims[1];
    if (count == NULL || count->quant->type != QUANT_F32 || count->bytes != n_matrix * sizeof(float) ||
        sum->quant->type != QUANT_F32 || sum->bytes != n_value * sizeof(float))
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%s' is missing or has another shape or type than its sums", name);
    MR_TRY(add_entry(m, &e, name, n_name, n_value, err));
    MR_TRY(gguf_read(g, sum, 0, e->mean, sum->bytes, err));
    for (size_t k = 0; k < n_matrix; k++) {
        float calls;
        MR_TRY(gguf_read(g, count, k * sizeof calls, &calls, sizeof calls, err));
        for (size_t i = 0; i < n_value / n_matrix; i++)
            e->mean[k * (n_value / n_matrix) + i] = calls > 0 ? e->mean[k * (n_value / n_matrix) + i] / calls : 0;
    }
    return check_values(e, err);
}

static enum mr_status read_gguf(struct column_weights *m, const struct gguf *g, struct mr_error *err)
{
    for (int i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        const size_t n_end = sizeof sum_end - 1;
        if (t->name.n > n_end && t->name.n < NAME_MAX_BYTES && memcmp(t->name.s + t->name.n - n_end, sum_end, n_end) == 0)
            MR_TRY(read_gguf_entry(m, g, t, err));
    }
    return m->n > 0 ? MR_OK : mr_fail(err, MR_BAD_FORMAT, "it is no importance matrix: no tensor ends with '%s'", sum_end);
}

static bool is_gguf(const char *path)
{
    char magic[4] = {0};
    FILE *f = fopen(path, "rb");
    const bool is = f != NULL && fread(magic, 1, 4, f) == 4 && memcmp(magic, "GGUF", 4) == 0;
    if (f != NULL)
        fclose(f);
    return is;
}

enum mr_status column_weights_read(struct column_weights **out, const char *path, struct mr_error *err)
{
    struct column_weights *m = mem_zero_array(1, sizeof *m);
    struct gguf *g;
    *out = NULL;
    if (m == NULL)
        return no_memory(err);
    enum mr_status status;
    if (is_gguf(path)) {
        status = gguf_open(&g, path, err);
        if (status == MR_OK) {
            status = read_gguf(m, g, err);
            gguf_close(g);
        }
    } else {
        status = read_dat(m, path, err);
    }
    if (status != MR_OK) {
        column_weights_free(m);
        return mr_fail_in(err, status, "'%s'", path);
    }
    *out = m;
    return MR_OK;
}

const float *column_weights_find(const struct column_weights *m, struct gguf_string tensor, int64_t n_column, int64_t matrix,
                                 bool *fits)
{
    *fits = true;
    for (int i = 0; m != NULL && i < m->n; i++) {
        const struct entry *e = &m->entry[i];
        if (e->n_name != tensor.n || memcmp(e->name, tensor.s, tensor.n) != 0)
            continue;
        if (e->n_value == (size_t)n_column)
            return e->mean;
        *fits = e->n_value % (size_t)n_column == 0 && (size_t)matrix < e->n_value / (size_t)n_column;
        return *fits ? e->mean + matrix * n_column : NULL;
    }
    return NULL;
}
