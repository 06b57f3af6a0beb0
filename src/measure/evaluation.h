/* evaluation.h: what a model is worth: perplexity of a text, alone or beside a base model, and tasks. */
#ifndef MEASURE_EVALUATION_H
#define MEASURE_EVALUATION_H

#include "base/string_buffer.h"
#include "measure/perplexity.h"
#include "measure/task.h"

enum {
    EVALUATION_TASKS_MAX = 16,
    EVALUATION_NAME_BYTES = 64,
    EVALUATION_WINDOW = 2048 /* tokens, or the model's own context where that is shorter */
};

struct evaluation_plan {
    const char *text; /* n_text bytes; NULL: none */
    size_t n_text;
    int window, stride;      /* as in perplexity.h; 0: EVALUATION_WINDOW, half a window */
    const struct task *task; /* n_task of them */
    const char *const *task_name;
    int n_task;
    struct mr_model *base; /* NULL: none */
    const struct mr_adapter_use *adapter;
    int32_t n_adapter;
    /* What is at work ("text", a task's name), done and in all; false: stop. NULL: nobody listens. */
    bool (*go_on)(void *context, const char *what, int64_t done, int64_t total);
    void (*hear)(void *context, const char *task, const struct task_sample *sample); /* of each item; NULL: nobody listens */
    void *context;
};

struct evaluation {
    char name[EVALUATION_NAME_BYTES];
    uint64_t file_bytes;
    size_t weight_bytes; /* in memory */
    const char *precision;
    bool has_text, has_base;
    struct perplexity text;
    int n_task;
    char task_name[EVALUATION_TASKS_MAX][EVALUATION_NAME_BYTES];
    struct task_result task[EVALUATION_TASKS_MAX];
};

/* CANCELLED: go_on said so. */
enum mr_status evaluate(struct evaluation *out, struct mr_model *model, const struct evaluation_plan *plan,
                        struct mr_error *err);

/* A table in Markdown, a row for each model. */
void evaluation_table(const struct evaluation *e, int n, struct string_buffer *out);

/* Size against perplexity, or without a text against the first task's errors, with 95 % intervals, as SVG. */
void evaluation_plot(const struct evaluation *e, int n, struct string_buffer *out);

#endif
