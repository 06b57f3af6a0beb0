/* task.h: tasks with a right answer: of several continuations the likeliest one must be the right one, or a generated answer
 * must be the expected text. They are read in the form in which EleutherAI's lm-eval writes its samples (--log_samples, one
 * JSON object a line: "arguments" and "target"), and scored as it scores them. */
#ifndef MEASURE_TASK_H
#define MEASURE_TASK_H

#include "millrace.h"

struct task_choice {
    char *context, *continuation;
};

struct task_item {
    struct task_choice *choice; /* n_choice of them; 1: right where the continuation is what greedy decoding gives */
    int n_choice;
    int gold;
    char *prompt; /* not NULL: an answer is generated instead, until a stop string, and must be target, blanks at its ends
                     left out */
    char **until;
    int n_until;
    int max_tokens;
    char *target;
};

struct task {
    struct task_item *item;
    int n;
};

/* JSONL. Lines of a document that was seen under another "filter" are left out. BAD_FORMAT names the line and the field. */
enum mr_status task_read(struct task *out, const char *text, size_t n, struct mr_error *err);
void task_release(struct task *t);

/* A share of n, its standard error as of a sample, and the 95 % interval after Wilson (1927). */
struct task_rate {
    double rate, error, low, high;
};
struct task_rate task_rate_of(int n_right, int n);

struct task_result {
    int n_choice_items, n_generated_items;
    struct task_rate acc;      /* the likeliest continuation is the right one */
    struct task_rate acc_norm; /* the same by log-likelihood a character, a blank in front not counted */
    struct task_rate exact;    /* of generated answers */
};

struct continuation_score; /* continuation.h */

/* How one item came out. */
struct task_sample {
    int item; /* its number in the task */
    const struct task_item *of;
    const struct continuation_score *score; /* [of->n_choice]; NULL: an answer was generated */
    const char *answer;
    bool is_right, is_right_norm; /* by acc or exact; by acc_norm */
};

struct task_options {
    int n_ctx;                                                     /* tokens; what is longer loses its beginning */
    void (*hear)(void *context, const struct task_sample *sample); /* of each item; NULL: nobody listens */
    bool (*go_on)(void *context, int64_t done, int64_t total);
    void *context;
};

/* CANCELLED: go_on said so. */
enum mr_status task_run(struct task_result *out, const struct task *t, struct mr_model *model,
                        const struct task_options *options, struct mr_error *err);

#endif
