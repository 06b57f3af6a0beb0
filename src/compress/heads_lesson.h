/* heads_lesson.h: what heads for speculation learn: head k at position t the token t + 2 + k of the text, and, with kl_weight,
 * the base's own distribution over it. The loss of head k counts 0.8^k (Cai et al. 2024, arXiv:2401.10774, section 2.2.1).
 * A head in the style of EAGLE is the one of k = 0; with feature_weight it also learns the base's feature of position t + 1. */
#ifndef COMPRESS_HEADS_LESSON_H
#define COMPRESS_HEADS_LESSON_H

#include "compress/lesson_sums.h"
#include "train/draft_heads.h"
#include "train/eagle.h"

struct heads_lesson; /* opaque */

struct heads_lesson_options {
    const struct draft_heads *heads; /* borrowed; one of the two is NULL */
    const struct eagle *eagle;       /* borrowed */
    const struct train_model *base;  /* borrowed */
    int n_seq, n_tok;                /* windows at a time, at most, and their tokens */
    int k;                           /* of the base's most probable tokens that count; at least 1 */
    float ce_weight, kl_weight, feature_weight, temperature, scale;
    size_t memory_bytes; /* for activations of a head in the style of EAGLE */
    struct thread_pool *pool;
    unsigned cpu_features;
};

/* NO_MEMORY. */
enum mr_status heads_lesson_create(struct heads_lesson **out, const struct heads_lesson_options *options, struct mr_error *err);
void heads_lesson_free(struct heads_lesson *l); /* takes NULL */

/* One micro-batch: `pass`, the base's, reads token[n_seq * n_tok], whose next tokens are label; the heads guess from its
 * features. Returns the loss, adds to sums and, where it is not NULL, to grad. */
double heads_lesson_run(struct heads_lesson *l, struct train_pass *pass, const int32_t *token, const int32_t *label, int n_seq,
                        float *grad, struct lesson_sums *sums);

#endif
