/* teacher.h: what a teacher says of windows of text: its k most probable next tokens, computed once and kept in a file.
 * The file belongs to one teacher, text, k and temperature. A window's record carries a sum over itself, so one that was cut by
 * a crash is computed again. */
#ifndef COMPRESS_TEACHER_H
#define COMPRESS_TEACHER_H

#include "compress/text_windows.h"
#include "train/loss.h"
#include "train/train_pass.h"

struct teacher; /* opaque */

enum {
    TEACHER_MAX_SEQ = 256
};

struct teacher_options {
    const struct train_model *model;    /* borrowed */
    const struct text_windows *windows; /* borrowed */
    const char *cache;                  /* NULL: nothing is kept */
    int n_seq;                          /* windows asked for at a time, at most; up to TEACHER_MAX_SEQ */
    int k;
    float temperature;
    bool wants_hidden; /* states are asked for, so that the teacher always runs */
    struct thread_pool *pool;
    unsigned cpu_features;
};

/* BAD_INPUT: the file was made for something else. IO, NO_MEMORY. */
enum mr_status teacher_create(struct teacher **out, const struct teacher_options *options, struct mr_error *err);
void teacher_free(struct teacher *t); /* takes NULL */

/* id[n][n_tok][k], p likewise, of n <= n_seq windows. *n_run: windows that the teacher itself had to read. */
enum mr_status teacher_ask(struct teacher *t, const uint32_t *window, int n, int32_t *id, float *p, int *n_run,
                           struct mr_error *err);
/* States behind `layer` blocks of the windows last asked for; wants_hidden was set. */
const float *teacher_hidden(const struct teacher *t, int layer);

#endif
