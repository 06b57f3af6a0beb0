/* batch_job.c: the steps before and after the lines are run. */
#include "server/batch/batch_job.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "server/batch/batch_result.h"
#include "server/batch/durable_file.h"

enum {
    TOGETHER = 512 /* lines of one transaction */
};

/* What is read and not stored yet. */
struct checking {
    struct batch_store *store;
    const struct batch_job *job;
    const struct batch_check *check;
    struct batch_faults *faults;
    struct batch_line line[TOGETHER];
    struct batch_request request[TOGETHER]; /* the custom_ids are theirs */
    char *result[TOGETHER];
    struct batch_fault fault[TOGETHER]; /* told when the lines are stored, in their order */
    int n;
    int64_t n_line;
    bool is_too_long;
};

static void add_fault(struct checking *c, int32_t line, const struct batch_fault *fault)
{
    if (c->faults->n++ < BATCH_FAULTS_MAX)
        json_array_append_new(c->faults->list, json_pack("{s:s, s:s, s:s?, s:i}", "code", fault->code, "message",
                                                         fault->message, "param", fault->param, "line", (int)line));
}

/* The line's result is that it is none. */
static enum mr_status make_result(struct checking *c, int i, const struct batch_fault *fault, struct mr_error *err)
{
    struct string_buffer text;
    struct batch_line *l = &c->line[i];
    string_buffer_init(&text);
    batch_result_write_fault(&text, c->job->name, l->line, c->request[i].custom_id, fault);
    if (text.failed) {
        string_buffer_release(&text);
        return mr_fail(err, MR_NO_MEMORY, "no memory for a result");
    }
    l->custom_id = NULL; /* it is the other line's, or none */
    l->state = BATCH_LINE_FAILED;
    l->result = c->result[i] = text.s;
    l->n_result = text.n;
    return MR_OK;
}

static void clear(struct checking *c)
{
    for (int i = 0; i < c->n; i++) {
        json_decref(c->request[i].root);
        free(c->result[i]);
        c->result[i] = NULL;
    }
    c->n = 0;
}

/* Store the lines; duplicates are seen by the index. */
static enum mr_status flush(struct checking *c, struct mr_error *err)
{
    int n_again = 0;
    enum mr_status status = batch_store_add_lines(c->store, c->job->id, c->line, c->n, err);
    for (int i = 0; status == MR_OK && i < c->n; i++) {
        if (c->line[i].is_duplicate)
            batch_fault_set(&c->fault[i], "duplicate_custom_id", "custom_id", "another line has this custom_id");
        if (c->fault[i].code != NULL)
            add_fault(c, c->line[i].line, &c->fault[i]);
        if (!c->line[i].is_duplicate)
            continue;
        if (c->check->keep_going)
            status = make_result(c, i, &c->fault[i], err);
        c->line[n_again++] = c->line[i];
    }
    if (status == MR_OK && c->check->keep_going && n_again > 0)
        status = batch_store_add_lines(c->store, c->job->id, c->line, n_again, err);
    clear(c);
    return status;
}

static enum mr_status take(struct checking *c, const struct batch_text *text, struct mr_error *err)
{
    const int i = c->n;
    struct batch_line *l = &c->line[i];
    struct batch_fault *fault = &c->fault[i];
    *fault = (struct batch_fault){0};
    *l = (struct batch_line){.line = text->line, .offset = text->offset, .n = (int64_t)text->n};
    bool ok = batch_request_parse(&c->request[i], text, c->check->url, fault);
    c->n++;
    c->n_line++;
    if (ok && json_string_length(c->request[i].custom_id) > BATCH_CUSTOM_ID_MAX) {
        batch_fault_set(fault, "invalid_custom_id", "custom_id", "custom_id has more than %d bytes", BATCH_CUSTOM_ID_MAX);
        ok = false;
    }
    if (!ok)
        return make_result(c, i, fault, err);
    l->custom_id = json_string_value(c->request[i].custom_id);
    l->n_custom_id = json_string_length(c->request[i].custom_id);
    return MR_OK;
}

static void refuse_more(struct checking *c, int32_t line)
{
    struct batch_fault fault;
    batch_fault_set(&fault, "too_many_tasks", NULL, "the input has more than %lld lines", (long long)c->check->max_lines);
    c->is_too_long = true;
    add_fault(c, line, &fault);
}

static enum mr_status read_lines(struct checking *c, struct batch_reader *r, struct mr_error *err)
{
    struct batch_text text;
    enum mr_status status;
    while ((status = batch_reader_next(r, &text, err)) == MR_OK) {
        MR_TRY(take(c, &text, err));
        if (c->check->max_lines > 0 && c->n_line > c->check->max_lines) {
            const int32_t line = text.line;
            MR_TRY(flush(c, err));
            refuse_more(c, line);
            return MR_OK;
        }
        if (c->n < TOGETHER)
            continue;
        MR_TRY(flush(c, err));
        if (c->check->go_on != NULL && !c->check->go_on(c->check->context))
            return mr_fail(err, MR_CANCELLED, "stopped");
    }
    return status == MR_NOT_FOUND ? flush(c, err) : status;
}

static enum mr_status conclude(struct checking *c, struct mr_error *err)
{
    struct batch_fault empty;
    if (c->n_line == 0) {
        batch_fault_set(&empty, "empty_file", NULL, "the input has no lines");
        add_fault(c, 1, &empty);
    }
    if (c->faults->n == 0 || (c->check->keep_going && c->n_line > 0 && !c->is_too_long))
        return batch_store_set_status(c->store, c->job->id, BATCH_IN_PROGRESS, err);
    MR_TRY(batch_store_clear_lines(c->store, c->job->id, err));
    return mr_fail(err, MR_BAD_INPUT, "%lld lines are wrong", (long long)c->faults->n);
}

enum mr_status batch_job_check(struct batch_store *store, const struct batch_job *job, const struct batch_check *check,
                               struct batch_faults *faults, struct mr_error *err)
{
    struct batch_reader r = {.fd = -1};
    *faults = (struct batch_faults){.list = json_array()};
    struct checking *c = mem_zero_array(1, sizeof *c);
    enum mr_status status = c != NULL && faults->list != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for the lines");
    if (status == MR_OK) {
        c->store = store;
        c->job = job;
        c->check = check;
        c->faults = faults;
        status = batch_store_clear_lines(store, job->id, err);
    }
    if (status == MR_OK)
        status = batch_reader_open(&r, check->input, err);
    if (status == MR_OK)
        status = read_lines(c, &r, err);
    if (status == MR_OK)
        status = conclude(c, err);
    if (c != NULL)
        clear(c);
    free(c);
    batch_reader_close(&r);
    return status;
}

/* ---- lines that are not run ---- */

static enum mr_status abandon_line(const struct batch_reader *r, const struct batch_job *job, struct batch_line *l,
                                   const struct batch_fault *why, struct mr_error *err)
{
    struct string_buffer text, result;
    struct batch_request request;
    struct batch_fault fault;
    string_buffer_init(&text);
    string_buffer_init(&result);
    enum mr_status status = batch_reader_reread(r, l->offset, (size_t)l->n, &text, err);
    if (status == MR_OK) {
        const struct batch_text t = {.text = text.s, .n = text.n, .line = l->line};
        batch_request_parse(&request, &t, NULL, &fault);
        batch_result_write_fault(&result, job->name, l->line, request.custom_id, why);
        json_decref(request.root);
        if (result.failed)
            status = mr_fail(err, MR_NO_MEMORY, "no memory for a result");
    }
    string_buffer_release(&text);
    l->state = BATCH_LINE_FAILED;
    l->result = result.s;
    l->n_result = result.n;
    return status;
}

/* The next ones; *n: how many. */
static enum mr_status abandon_some(struct batch_store *store, const struct batch_job *job, const struct batch_reader *r,
                                   const struct batch_fault *why, struct batch_line *line, int *n, struct mr_error *err)
{
    *n = TOGETHER;
    enum mr_status status = batch_store_pending(store, job->id, 0, line, n, err);
    for (int i = 0; status == MR_OK && i < *n; i++)
        status = abandon_line(r, job, &line[i], why, err);
    if (status == MR_OK && *n > 0)
        status = batch_store_record(store, job->id, line, *n, err);
    for (int i = 0; i < *n; i++)
        free((char *)(uintptr_t)line[i].result);
    return status;
}

enum mr_status batch_job_abandon(struct batch_store *store, const struct batch_job *job, const char *input,
                                 const struct batch_fault *why, struct mr_error *err)
{
    struct batch_reader r = {.fd = -1};
    if (job->status == BATCH_VALIDATING)
        return batch_store_clear_lines(store, job->id, err);
    struct batch_line *line = mem_zero_array(TOGETHER, sizeof *line);
    enum mr_status status =
        line != NULL ? batch_reader_open(&r, input, err) : mr_fail(err, MR_NO_MEMORY, "no memory for lines");
    for (int n = 1; status == MR_OK && n > 0;)
        status = abandon_some(store, job, &r, why, line, &n, err);
    batch_reader_close(&r);
    free(line);
    return status;
}

/* ---- files ---- */

struct writing {
    struct durable_file file;
    int64_t n;
};

static enum mr_status write_line(void *context, const char *result, size_t n, struct mr_error *err)
{
    struct writing *w = context;
    w->n++;
    MR_TRY(durable_file_add(&w->file, result, n, err));
    return durable_file_add(&w->file, "\n", 1, err);
}

static enum mr_status write_results(struct batch_store *store, int64_t job, enum batch_line_state state, const char *path,
                                    bool even_empty, struct mr_error *err)
{
    struct writing w = {.n = 0};
    enum mr_status status = durable_file_open(&w.file, path, err);
    if (status == MR_OK)
        status = batch_store_results(store, job, state, write_line, &w, err);
    if (status == MR_OK && (w.n > 0 || even_empty))
        status = durable_file_commit(&w.file, err);
    durable_file_discard(&w.file);
    return status;
}

enum mr_status batch_job_write(struct batch_store *store, const struct batch_job *job, const char *output, const char *errors,
                               struct mr_error *err)
{
    struct batch_counts counts;
    MR_TRY(batch_store_count(store, job->id, &counts, err));
    MR_TRY(batch_store_set_status(store, job->id, BATCH_FINALIZING, err));
    MR_TRY(write_results(store, job->id, BATCH_LINE_FAILED, errors, false, err));
    MR_TRY(write_results(store, job->id, BATCH_LINE_OK, output, counts.n_failed == 0, err));
    return batch_store_set_status(store, job->id, BATCH_COMPLETED, err);
}
