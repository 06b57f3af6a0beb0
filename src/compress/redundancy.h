/* redundancy.h: what share of a model's parameters can be taken away at equal loss: the largest share of the attention heads,
 * and of the feed-forward channels, of each layer without which the loss over a text rises by no more than a given amount; and
 * the same with all layers at once. Heads go in the order of the rise that each of them causes alone, channels, 32 at a time,
 * in that of their activation times the length of their column (importance.h). */
#ifndef COMPRESS_REDUNDANCY_H
#define COMPRESS_REDUNDANCY_H

#include "compress/importance.h"

struct redundancy_options {
    const struct text_windows *windows; /* the training ones are read, all at a time */
    double rise;                        /* nats a token that the loss may rise by */
    struct thread_pool *pool;
    unsigned cpu_features;
    bool (*go_on)(void *context, int64_t done, int64_t total); /* layers; may be NULL */
    void *context;
};

/* What can go, of how many, and the share of the parameters of its kind (q, k, v, o; gate, up, down) that goes with it: keys
 * and values go with the last query head that reads them. rise: that of what can go. */
struct removable {
    int n, of;
    double share, rise;
};

struct redundancy {
    int n_layer;
    double loss;                              /* of the whole model, nats a token */
    struct removable *heads, *channels;       /* [n_layer] */
    struct removable all_heads, all_channels; /* of each layer the same share, all at once; n of one layer */
};

/* CANCELLED; BAD_FORMAT: the loss is not a number. Release in any case. */
enum mr_status redundancy_measure(struct redundancy *out, const struct train_model *m, const struct redundancy_options *options,
                                  struct mr_error *err);
void redundancy_release(struct redundancy *r);

/* The same from a file and a text, in windows of n_tok tokens, at most n_window of them. */
struct redundancy_job {
    const char *in, *text;
    size_t n_text;
    int n_tok, n_window;
    double rise;
    int threads;
    const char *cpu;
    bool (*go_on)(void *context, int64_t done, int64_t total);
    void *context;
};
enum mr_status redundancy_job_run(struct redundancy *out, const struct redundancy_job *job, struct mr_error *err);

#endif
