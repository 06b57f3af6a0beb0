/* prune_latency.h: the shape for a target in time: how much of a model must go until a token of an answer takes so much less
 * time on this machine. Shapes are tried by halving, each as a file beside the output, timed in turn with the whole model. */
#ifndef COMPRESS_PRUNE_LATENCY_H
#define COMPRESS_PRUNE_LATENCY_H

#include "compress/prune_source.h"
#include "measure/answer_time.h"

struct prune_latency {
    double target; /* time of a token, over that of the whole model */
    unsigned parts;
    enum quant_type type; /* of the files, as of the output */
    const char *beside;   /* path that their names begin with */
    struct answer_timing timing;
    bool (*go_on)(void *context, int64_t done, int64_t total); /* shapes that were timed, and at most; may be NULL */
    void *context;
};

/* The largest shape that keeps the target, and what it was measured to take. BAD_INPUT: the smallest one does not.
 * FULL: no room for both files. source: of the whole model. */
enum mr_status prune_shape_within(struct prune_shape *out, double *measured, const struct train_model *m,
                                  struct prune_source *source, const struct gguf *file, const struct prune_latency *o,
                                  struct mr_error *err);

#endif
