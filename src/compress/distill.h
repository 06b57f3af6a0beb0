/* distill.h: training a model on a text, with a teacher or without one. A step goes over n_seq * accumulate windows of n_tok
 * tokens; micro-batches of n_seq pass at a time, and their gradients add up before the weights move.
 * A run with a checkpoint may end at any moment and in any way: run again with the same options, it goes on where the last
 * checkpoint stands, and gives the same weights, bit by bit, as one that was never interrupted. */
#ifndef COMPRESS_DISTILL_H
#define COMPRESS_DISTILL_H

#include "compress/checkpoint.h"
#include "compress/text_windows.h"
#include "train/adamw.h"
#include "train/eagle.h"
#include "train/train_lora.h"

enum {
    DISTILL_MAX_SEQ = 256 /* windows of a micro-batch */
};

struct distill_options {
    struct train_model *student;       /* its weights move */
    const struct train_model *teacher; /* NULL: the text alone teaches */
    struct lora *lora;                 /* an adapter on the student, which stands still; NULL: none */
    struct draft_heads *heads;         /* these are trained, and the student stands still and teaches; NULL: none */
    struct eagle *eagle;               /* likewise; hidden_weight is that of features; NULL: none */
    const struct text_windows *windows;
    int n_seq, accumulate;
    int64_t n_step;
    float rate, floor; /* the highest rate; the share of it that the last step has */
    int64_t n_warmup;
    struct adamw adamw;
    float ce_weight, kl_weight, hidden_weight; /* of cross-entropy, divergence, mean square of hidden states */
    int k;
    float temperature;
    const char *cache;                                     /* file of the teacher's answers; NULL: none */
    const char *checkpoint;                                /* NULL: none */
    int64_t checkpoint_every, report_every, measure_every; /* steps; measure: on the held-out windows. 0: at the end only */
    bool is_bf16;                                          /* products of operands rounded to bf16; not for heads */
    size_t memory_bytes;                                   /* for activations */
    double peak_flops;                                     /* operations a second of all threads in f32; 0: unknown */
    struct thread_pool *pool;
    unsigned cpu_features;
    /* After each report; false: stop, with a checkpoint where there is a file for it. May be NULL. */
    bool (*report)(void *context, const struct curve_point *point);
    /* Asked at each step: false likewise. May be NULL. */
    bool (*go_on)(void *context);
    void *context;
};

struct distill_options distill_defaults(void);

/* Train. curve: the caller frees curve->point. first_step: where the run began, above 0 where it was resumed.
 * BAD_INPUT: options that do not fit each other or the models. BAD_FORMAT: the loss is no longer a number. CANCELLED: told to
 * stop. */
enum mr_status distill_run(const struct distill_options *options, struct curve *curve, int64_t *first_step,
                           struct mr_error *err);

#endif
