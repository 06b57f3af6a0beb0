/* teacher.c: records of windows in a file, and the pass that makes them. */
#include "compress/teacher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

struct cache_header {
    char magic[8];
    uint64_t teacher, text;
    int32_t k, n_tok;
    float temperature;
    uint32_t n_window;
};

struct teacher {
    struct teacher_options o;
    struct train_pass *pass;
    int32_t *token, *label, *id; /* of a micro-batch */
    float *p;
    char *record; /* of a window: its sum, id[n_tok][k], p[n_tok][k] */
    size_t record_bytes;
    int fd; /* -1: none */
};

static enum mr_status fail_file(const struct teacher *t, const char *what, struct mr_error *err)
{
    return mr_fail(err, MR_IO, "cannot %s '%s': %s", what, t->o.cache, strerror(errno));
}

static enum mr_status open_cache(struct teacher *t, struct mr_error *err)
{
    const struct train_model *m = t->o.model;
    struct cache_header found, mine = {.teacher = digest_bytes(0, m->w, m->n_weight * sizeof *m->w),
                                       .text = text_windows_digest(t->o.windows),
                                       .k = t->o.k,
                                       .n_tok = t->o.windows->n_tok,
                                       .temperature = t->o.temperature,
                                       .n_window = t->o.windows->n_window};
    memcpy(mine.magic, "MRTEACH1", sizeof mine.magic);
    t->fd = open(t->o.cache, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (t->fd < 0)
        return fail_file(t, "open", err);
    const ssize_t n = pread(t->fd, &found, sizeof found, 0);
    if (n < 0)
        return fail_file(t, "read", err);
    if (n == 0)
        return pwrite(t->fd, &mine, sizeof mine, 0) == (ssize_t)sizeof mine ? MR_OK : fail_file(t, "write", err);
    if (n != (ssize_t)sizeof found || memcmp(&found, &mine, sizeof mine) != 0)
        return mr_fail(err, MR_BAD_INPUT, "'%s' was made for another teacher, text, window, top-k or temperature", t->o.cache);
    return MR_OK;
}

static enum mr_status create(struct teacher *t, struct mr_error *err)
{
    const size_t rows = (size_t)t->o.n_seq * (size_t)t->o.windows->n_tok;
    const size_t entries = (size_t)t->o.windows->n_tok * (size_t)t->o.k;
    const struct train_pass_options o = {.n_seq = t->o.n_seq,
                                         .n_tok = t->o.windows->n_tok,
                                         .is_forward = true,
                                         .pool = t->o.pool,
                                         .cpu_features = t->o.cpu_features};
    t->record_bytes = sizeof(uint64_t) + entries * (sizeof(int32_t) + sizeof(float));
    t->token = mem_array(rows, sizeof *t->token);
    t->label = mem_array(rows, sizeof *t->label);
    t->id = mem_array(rows * (size_t)t->o.k, sizeof *t->id);
    t->p = mem_array(rows * (size_t)t->o.k, sizeof *t->p);
    t->record = mem_array(t->record_bytes, 1);
    if (t->token == NULL || t->label == NULL || t->id == NULL || t->p == NULL || t->record == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for what the teacher says of %zu tokens", rows);
    MR_TRY(train_pass_create(&t->pass, t->o.model, &o, err));
    return t->o.cache != NULL ? open_cache(t, err) : MR_OK;
}

enum mr_status teacher_create(struct teacher **out, const struct teacher_options *options, struct mr_error *err)
{
    *out = NULL;
    struct teacher *t = mem_zero_array(1, sizeof *t);
    if (t == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a teacher");
    t->o = *options;
    t->fd = -1;
    const enum mr_status status = create(t, err);
    if (status == MR_OK)
        *out = t;
    else
        teacher_free(t);
    return status;
}

void teacher_free(struct teacher *t)
{
    if (t == NULL)
        return;
    if (t->fd >= 0)
        close(t->fd);
    train_pass_free(t->pass);
    free(t->token);
    free(t->label);
    free(t->id);
    free(t->p);
    free(t->record);
    free(t);
}

static off_t place_of(const struct teacher *t, uint32_t window)
{
    return (off_t)(sizeof(struct cache_header) + (size_t)window * t->record_bytes);
}

static size_t entries(const struct teacher *t) { return (size_t)t->o.windows->n_tok * (size_t)t->o.k; }

static uint64_t sum_of(const struct teacher *t, uint32_t window)
{
    return digest_bytes((uint64_t)window + 1, t->record + sizeof(uint64_t), t->record_bytes - sizeof(uint64_t));
}

/* Whether the file has the window. */
static bool read_record(struct teacher *t, uint32_t window, int32_t *id, float *p)
{
    uint64_t sum;
    if (t->fd < 0 || pread(t->fd, t->record, t->record_bytes, place_of(t, window)) != (ssize_t)t->record_bytes)
        return false;
    memcpy(&sum, t->record, sizeof sum);
    memcpy(id, t->record + sizeof sum, entries(t) * sizeof *id);
    memcpy(p, t->record + sizeof sum + entries(t) * sizeof *id, entries(t) * sizeof *p);
    if (sum != sum_of(t, window))
        return false;
    for (size_t i = 0; i < entries(t); i++)
        if (id[i] < 0 || id[i] >= t->o.model->h.n_vocab)
            return false;
    return true;
}

static enum mr_status write_record(struct teacher *t, uint32_t window, const int32_t *id, const float *p, struct mr_error *err)
{
    if (t->fd < 0)
        return MR_OK;
    memcpy(t->record + sizeof(uint64_t), id, entries(t) * sizeof *id);
    memcpy(t->record + sizeof(uint64_t) + entries(t) * sizeof *id, p, entries(t) * sizeof *p);
    const uint64_t sum = sum_of(t, window);
    memcpy(t->record, &sum, sizeof sum);
    return pwrite(t->fd, t->record, t->record_bytes, place_of(t, window)) == (ssize_t)t->record_bytes
               ? MR_OK
               : fail_file(t, "write", err);
}

static double keep_best(void *context, struct compute *c, float *logits, int first, int n, bool backward)
{
    (void)backward;
    struct teacher *t = context;
    const size_t at = (size_t)first * (size_t)t->o.k;
    loss_best(c, t->id + at, t->p + at, logits, n, t->o.model->h.n_vocab, t->o.k, t->o.temperature);
    return 0;
}

/* The windows whose place among those asked for is in slot[n]. */
static enum mr_status run(struct teacher *t, const uint32_t *window, const int *slot, int n, int32_t *id, float *p,
                          struct mr_error *err)
{
    const size_t n_tok = (size_t)t->o.windows->n_tok;
    const struct train_loss loss = {.logits = t->o.k > 0 ? keep_best : NULL, .context = t};
    for (int i = 0; i < n; i++)
        text_windows_read(t->o.windows, window[slot[i]], t->token + (size_t)i * n_tok, t->label + (size_t)i * n_tok);
    train_pass_run(t->pass, t->token, n, &loss, NULL);
    for (int i = 0; i < n && t->o.k > 0; i++) {
        const size_t from = (size_t)i * entries(t), to = (size_t)slot[i] * entries(t);
        memcpy(id + to, t->id + from, entries(t) * sizeof *id);
        memcpy(p + to, t->p + from, entries(t) * sizeof *p);
        MR_TRY(write_record(t, window[slot[i]], id + to, p + to, err));
    }
    return MR_OK;
}

enum mr_status teacher_ask(struct teacher *t, const uint32_t *window, int n, int32_t *id, float *p, int *n_run,
                           struct mr_error *err)
{
    int slot[TEACHER_MAX_SEQ];
    *n_run = 0;
    for (int i = 0; i < n; i++)
        if (t->o.wants_hidden || !read_record(t, window[i], id + (size_t)i * entries(t), p + (size_t)i * entries(t)))
            slot[(*n_run)++] = i;
    return *n_run > 0 ? run(t, window, slot, *n_run, id, p, err) : MR_OK;
}

const float *teacher_hidden(const struct teacher *t, int layer) { return train_pass_hidden(t->pass, layer); }
