/* slab.h: one tensor, a few megabytes of rows at a time, from one type to another. */
#ifndef COMPRESS_SLAB_H
#define COMPRESS_SLAB_H

#include "base/thread_pool.h"
#include "compress/quantize.h"
#include "format/gguf_write.h"

/* What changes each row before it is encoded: x[n] of row `row`, on thread `thread` of the pool. */
struct slab_edit {
    void (*row)(const void *context, float *x, size_t n, int64_t row, int thread);
    const void *context;
};

struct slab_work {
    const struct gguf *g;
    const struct gguf_tensor *tensor;
    const struct quant *to; /* its own, and no edit: copied */
    const struct column_weights *importance;
    struct gguf_writer *w;
    struct thread_pool *pool;
    const struct slab_edit *edit; /* NULL: rows are encoded as they are */
};

/* Fills bytes, has_importance and error of the step. */
enum mr_status slab_run(const struct slab_work *work, struct quantize_step *step, struct mr_error *err);

#endif
