/* prune_source.h: the parameters of a smaller model, made one at a time from those of a larger one, in memory or in its file:
 * key/value heads are merged first, then what a mask leaves is kept. Memory holds a few times the largest parameter.
 * Threads: one calls. */
#ifndef COMPRESS_PRUNE_SOURCE_H
#define COMPRESS_PRUNE_SOURCE_H

#include "compress/prune.h"

struct prune_source {
    struct param_source source; /* of `to`; before prune_source_keep: of the merged model */
    const struct gguf *file;    /* where the model is a shape alone */
    const struct train_model *from, *merged;
    const struct structures *mask; /* of the merged one; NULL: all stays */
    float *read, *joined, *kept;
    bool (*go_on)(void *context); /* asked before each parameter; NULL: nobody is */
    void *context;
};

/* merged: what prune_merge_plan made of m, or m itself. All are borrowed. NO_MEMORY. Reading gives CANCELLED where go_on says
 * so. */
enum mr_status prune_source_init(struct prune_source *s, const struct train_model *m, const struct train_model *merged,
                                 const struct gguf *file, struct mr_error *err);
/* From here on only what the mask leaves. */
void prune_source_keep(struct prune_source *s, const struct structures *mask);
void prune_source_release(struct prune_source *s);

#endif
