/* eval_tasks.c: reads tasks, each called as its file without "samples_" and what lm-eval puts behind: a date. */
#include "cli/eval_tasks.h"

#include <stdio.h>
#include <string.h>

#include "cli/read_input.h"

static void name_of(char *out, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *stem = slash != NULL ? slash + 1 : path;
    if (strncmp(stem, "samples_", 8) == 0)
        stem += 8;
    size_t n = strcspn(stem, ".");
    const char *date = strstr(stem, "_20");
    if (date != NULL && date > stem && (size_t)(date - stem) < n)
        n = (size_t)(date - stem);
    snprintf(out, EVALUATION_NAME_BYTES, "%.*s", n < 63 ? (int)n : 63, stem);
}

static enum mr_status read_one(struct eval_tasks *t, const char *path, struct mr_error *err)
{
    struct string_buffer text;
    string_buffer_init(&text);
    enum mr_status status = read_file(&text, path, err);
    if (status == MR_OK) {
        status = task_read(&t->task[t->n], text.s != NULL ? text.s : "", text.n, err);
        if (status != MR_OK)
            mr_fail_in(err, status, "%s", path);
    }
    string_buffer_release(&text);
    name_of(t->stem[t->n], path);
    t->name[t->n] = t->stem[t->n];
    t->n += status == MR_OK;
    return status;
}

enum mr_status eval_tasks_read(struct eval_tasks *t, const struct argument_list *files, struct mr_error *err)
{
    if (files->n > EVALUATION_TASKS_MAX)
        return mr_fail(err, MR_BAD_INPUT, "--tasks: %d files, at most %d are read", files->n, EVALUATION_TASKS_MAX);
    for (int i = 0; i < files->n; i++)
        MR_TRY(read_one(t, files->s[i], err));
    return MR_OK;
}

void eval_tasks_release(struct eval_tasks *t)
{
    for (int i = 0; i < t->n; i++)
        task_release(&t->task[i]);
    t->n = 0;
}
