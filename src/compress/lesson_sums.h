/* lesson_sums.h: what the rows of a lesson add up to between two points of the curve. */
#ifndef COMPRESS_LESSON_SUMS_H
#define COMPRESS_LESSON_SUMS_H

#include "compress/checkpoint.h"
#include "train/loss.h"

struct lesson_sums {
    double loss, cross_entropy, divergence;
    int64_t n, n_right, n_agree;                                          /* tokens that count, over all heads */
    int64_t n_of_head[DRAFT_HEADS_MAX], n_right_of_head[DRAFT_HEADS_MAX]; /* of heads for speculation alone */
};

/* Add n rows of one head (-1: of the student itself); the loss of them, weighted. */
double lesson_sums_add(struct lesson_sums *s, const struct loss_targets *t, const struct row_loss *rows, int n, int head);

/* Means, of training tokens or held-out ones, into the point; left alone where nothing counted. */
void lesson_sums_training(const struct lesson_sums *s, struct curve_point *p);
void lesson_sums_held_out(const struct lesson_sums *s, struct curve_point *p);

#endif
