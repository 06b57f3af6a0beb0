/* calibration_write.c: both forms of files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/string_buffer.h"
#include "compress/calibration_state.h"
#include "format/gguf_write.h"

static bool was_met(const struct met *m)
{
    for (int k = 0; k < m->n_matrix; k++)
        if (m->count[k] > 0)
            return true;
    return false;
}

static enum mr_status declare(struct gguf_writer *w, const struct met *m, const char *end, int64_t n_column,
                              struct mr_error *err)
{
    const int64_t dims[] = {n_column, m->n_matrix};
    struct string_buffer name;
    string_buffer_init(&name);
    string_buffer_add(&name, m->name.s, m->name.n);
    string_buffer_puts(&name, end);
    const enum mr_status status =
        name.failed ? mr_fail(err, MR_NO_MEMORY, "no memory for the statistics")
                    : gguf_declare_tensor(w, (struct gguf_string){name.s, name.n}, quant_find(QUANT_F32), 2, dims, err);
    string_buffer_release(&name);
    return status;
}

static enum mr_status write_sums(struct gguf_writer *w, const struct met *m, struct mr_error *err)
{
    for (int64_t i = 0; i < (int64_t)m->n_matrix * m->n_in; i++) {
        const float v = (float)m->sum[i];
        MR_TRY(gguf_write_data(w, &v, sizeof v, err));
    }
    for (int k = 0; k < m->n_matrix; k++) {
        const float v = (float)m->count[k];
        MR_TRY(gguf_write_data(w, &v, sizeof v, err));
    }
    return MR_OK;
}

static enum mr_status write_gguf(const struct calibration *c, struct gguf_writer *w, const char *source, struct mr_error *err)
{
    const struct gguf_string data = {source, strlen(source)};
    MR_TRY(gguf_put_string(w, "general.type", (struct gguf_string){"imatrix", 7}, err));
    MR_TRY(gguf_put_strings(w, "imatrix.datasets", &data, 1, err));
    int64_t rows = 0;
    for (int i = 0; i < c->n_met; i++)
        rows = c->met[i].count[0] > rows ? c->met[i].count[0] : rows;
    MR_TRY(gguf_put_int(w, "imatrix.chunk_count", GGUF_U32, rows / c->n_window > 0 ? rows / c->n_window : 1, err));
    MR_TRY(gguf_put_int(w, "imatrix.chunk_size", GGUF_U32, c->n_window, err));
    for (int i = 0; i < c->n_met; i++)
        if (was_met(&c->met[i])) {
            MR_TRY(declare(w, &c->met[i], ".in_sum2", c->met[i].n_in, err));
            MR_TRY(declare(w, &c->met[i], ".counts", 1, err));
        }
    MR_TRY(gguf_begin_data(w, err));
    for (int i = 0; i < c->n_met; i++)
        if (was_met(&c->met[i]))
            MR_TRY(write_sums(w, &c->met[i], err));
    return gguf_writer_finish(w, err);
}

static void put_int(FILE *f, int32_t v) { fwrite(&v, sizeof v, 1, f); }

/* Means, times one call each. */
static void write_dat_entry(const struct met *m, FILE *f)
{
    put_int(f, (int32_t)m->name.n);
    fwrite(m->name.s, 1, m->name.n, f);
    put_int(f, 1);
    put_int(f, m->n_in * m->n_matrix);
    for (int k = 0; k < m->n_matrix; k++)
        for (int i = 0; i < m->n_in; i++) {
            const int64_t count = m->count[k] > 0 ? m->count[k] : 1;
            const float v = (float)(m->sum[(size_t)k * (size_t)m->n_in + (size_t)i] / (double)count);
            fwrite(&v, sizeof v, 1, f);
        }
}

static bool write_dat(const struct calibration *c, const char *path, const char *source)
{
    FILE *f = fopen(path, "wb");
    if (f == NULL)
        return false;
    put_int(f, calibration_n(c));
    for (int i = 0; i < c->n_met; i++)
        if (was_met(&c->met[i]))
            write_dat_entry(&c->met[i], f);
    put_int(f, 1);
    put_int(f, (int32_t)strlen(source));
    fwrite(source, 1, strlen(source), f);
    bool ok = fflush(f) == 0 && !ferror(f);
    ok = fsync(fileno(f)) == 0 && ok;
    return fclose(f) == 0 && ok;
}

static enum mr_status write_dat_whole(const struct calibration *c, const char *path, const char *source, struct mr_error *err)
{
    struct string_buffer partial;
    enum mr_status status = MR_OK;
    string_buffer_init(&partial);
    string_buffer_printf(&partial, "%s.%ld.partial", path, (long)getpid());
    if (partial.failed) {
        status = mr_fail(err, MR_NO_MEMORY, "no memory for '%s'", path);
    } else if (!write_dat(c, partial.s, source) || rename(partial.s, path) != 0) {
        status = mr_fail(err, MR_IO, "cannot write '%s': %s", path, strerror(errno));
        unlink(partial.s);
    }
    string_buffer_release(&partial);
    return status;
}

enum mr_status calibration_write(const struct calibration *c, const char *path, const char *source, struct mr_error *err)
{
    const size_t n = strlen(path);
    struct gguf_writer *w;
    if (n > 4 && strcmp(path + n - 4, ".dat") == 0)
        return write_dat_whole(c, path, source, err);
    MR_TRY(gguf_writer_create(&w, path, err));
    const enum mr_status status = write_gguf(c, w, source, err);
    gguf_writer_free(w);
    return status;
}
