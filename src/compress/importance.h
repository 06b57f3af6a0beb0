/* importance.h: how much each structure of a model matters.
 *   weight      length of the weights that would go
 *   activation  mean size of what the structure gives to the residual stream: |activation| times the length of its column
 *   taylor      |sum of weight times gradient|, the first-order change of the loss if the structure went, mean over
 *               micro-batches of the text (Molchanov et al. 2019, arXiv:1906.10771, section 3.1)
 *   removal     what the loss over the text rises by when the structure is taken away, measured (removal.h)
 * Dimensions of the width and layers have no activation of their own: there, activation is weight. */
#ifndef COMPRESS_IMPORTANCE_H
#define COMPRESS_IMPORTANCE_H

#include "compress/prune.h"
#include "compress/text_windows.h"
#include "train/train_pass.h"

enum importance {
    IMPORTANCE_TAYLOR,
    IMPORTANCE_ACTIVATION,
    IMPORTANCE_WEIGHT,
    IMPORTANCE_REMOVAL,
    N_IMPORTANCES
};

struct importance_options {
    enum importance method;
    unsigned parts;                     /* enum prune_part: what removal measures */
    const struct text_windows *windows; /* the training ones are read; NULL for weight */
    const struct param_source *params;  /* for weight, where the model is a shape alone */
    size_t memory_bytes;
    struct thread_pool *pool;
    unsigned cpu_features;
    bool (*go_on)(void *context, int64_t done, int64_t total); /* windows, or removals; may be NULL */
    void *context;
};

/* score: created for m's shape. CANCELLED; BAD_FORMAT: the loss is not a number. */
enum mr_status importance_measure(struct structures *score, const struct train_model *m,
                                  const struct importance_options *options, struct mr_error *err);

#endif
