/* checkpoint.h: the state of a training run in a file that is always whole: written beside, flushed, renamed. It holds the
 * weights, both moments, the step and the curve so far; what a step does follows from these, so a run that is resumed goes on
 * bit by bit as if nothing had happened. */
#ifndef COMPRESS_CHECKPOINT_H
#define COMPRESS_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "train/draft_heads.h"

/* The run's figures since the point before. */
struct curve_point {
    int64_t step, n_token;                                      /* behind which it stands; tokens trained on so far */
    double seconds;                                             /* of training so far */
    float rate, norm;                                           /* of the last step: its rate, and its gradient's length */
    float loss, cross_entropy, divergence, accuracy, agreement; /* mean over the training tokens */
    float held_cross_entropy, held_divergence, held_accuracy, held_agreement; /* over the held-out ones; -1: not measured */
    float held_head[DRAFT_HEADS_MAX]; /* of heads for speculation, held out: share of right tokens of each; -1 likewise */
    double tokens_per_s, mfu;         /* mfu 0: the peak is unknown */
};

struct curve {
    struct curve_point *point;
    size_t n, capacity;
};

struct train_state {
    uint64_t recipe; /* a sum over all that decides what a step does; another one is refused */
    int64_t step;    /* steps done */
    size_t n_array;  /* floats of each array */
    float *array[3]; /* weights, first and second moments */
    struct curve curve;
};

enum mr_status checkpoint_write(const struct train_state *s, const char *path, struct mr_error *err);
/* *found: there was a file. BAD_FORMAT: it is damaged; BAD_INPUT: of another run; in both cases s is as it was, but for the
 * contents of the arrays. */
enum mr_status checkpoint_read(struct train_state *s, const char *path, bool *found, struct mr_error *err);

#endif
