/* eval_tasks.h: the files of --tasks. */
#ifndef CLI_EVAL_TASKS_H
#define CLI_EVAL_TASKS_H

#include "cli/arguments.h"
#include "measure/evaluation.h"

struct eval_tasks {
    struct task task[EVALUATION_TASKS_MAX];
    const char *name[EVALUATION_TASKS_MAX]; /* in stem */
    char stem[EVALUATION_TASKS_MAX][EVALUATION_NAME_BYTES];
    int n;
};

/* *t is zeroed. Release it in any case. */
enum mr_status eval_tasks_read(struct eval_tasks *t, const struct argument_list *files, struct mr_error *err);
void eval_tasks_release(struct eval_tasks *t);

#endif
