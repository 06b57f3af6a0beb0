/* batch_clerk.c: what is done with a job before its lines are run and when no more are; and what is forgotten. Each step may
 * end at any moment and be taken again. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/batch/batch_job.h"
#include "server/batch/batch_service_state.h"
#include "server/metrics.h"
#include "server/server.h"
#include "server/settings.h"

static bool go_on(void *context)
{
    const struct batch_service *b = context;
    return !atomic_load(&b->stop);
}

static enum mr_status set_counts(struct batch_record *r, const struct batch_counts *c, struct mr_error *err)
{
    json_t *counts = json_pack("{s:I, s:I, s:I}", "total", (json_int_t)c->n_line, "completed", (json_int_t)c->n_ok, "failed",
                               (json_int_t)c->n_failed);
    return json_object_set_new(r->body, "request_counts", counts) == 0 ? MR_OK
                                                                       : mr_fail(err, MR_NO_MEMORY, "no memory for the batch");
}

/* The store's job of a record, new where it has none. */
static enum mr_status find_job(struct batch_service *b, const struct batch_record *r, struct batch_job *out,
                               struct mr_error *err)
{
    const enum mr_status status = batch_store_find_job(b->store, r->id, out, err);
    if (status != MR_NOT_FOUND)
        return status;
    *out = (struct batch_job){.status = BATCH_VALIDATING};
    memcpy(out->name, r->id, sizeof r->id);
    return batch_store_add_job(b->store, out, err);
}

/* ---- checking ---- */

static enum mr_status refuse(struct batch_service *b, struct batch_record *r, const struct batch_job *job, json_t *faults,
                             struct mr_error *err)
{
    if (json_object_set_new(r->body, "errors", json_pack("{s:s, s:O}", "object", "list", "data", faults)) != 0)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the batch");
    MR_TRY(batch_service_move(b, r, "validating", "failed", NULL, 0, err));
    return batch_store_drop_job(b->store, job->id, err);
}

static enum mr_status accept(struct batch_service *b, struct batch_record *r, const struct batch_job *job, struct mr_error *err)
{
    struct batch_counts counts;
    MR_TRY(batch_store_count(b->store, job->id, &counts, err));
    MR_TRY(set_counts(r, &counts, err));
    return batch_service_move(b, r, "validating", "in_progress", NULL, 0, err);
}

static enum mr_status check(struct batch_service *b, struct batch_record *r, const char *input, struct mr_error *err)
{
    struct batch_job job;
    struct batch_faults faults = {0};
    struct mr_error why = {{0}};
    const struct batch_check how = {.input = input,
                                    .url = batch_record_text(r, "endpoint"),
                                    .max_lines = b->server->settings->batch_lines,
                                    .go_on = go_on,
                                    .context = b};
    MR_TRY(find_job(b, r, &job, err));
    enum mr_status status = batch_job_check(b->store, &job, &how, &faults, &why);
    if (status == MR_NOT_FOUND && json_array_append_new(faults.list, json_pack("{s:s, s:s, s:n, s:n}", "code", "file_not_found",
                                                                               "message", why.message, "param", "line")) == 0)
        status = MR_BAD_INPUT;
    if (status == MR_OK)
        status = accept(b, r, &job, err);
    else if (status == MR_BAD_INPUT)
        status = refuse(b, r, &job, faults.list, err);
    json_decref(faults.list);
    return status;
}

/* ---- ending ---- */

/* A file of results as a record; false: there is none, since it would be empty. */
static enum mr_status describe(struct batch_service *b, const struct batch_record *job, const char *id, const char *suffix,
                               const char *path, struct batch_record *out, struct mr_error *err)
{
    const int64_t now = batch_service_now(), own = batch_record_int(job, "output_keep_s"),
                  keep = b->server->settings->batch_keep_s;
    struct stat s;
    char name[BATCH_ID_MAX + 32];
    if (stat(path, &s) != 0)
        return mr_fail(err, MR_IO, "cannot find '%s'", path);
    const int64_t expires = own > 0 ? now + own : keep > 0 ? now + keep : 0;
    *out = (struct batch_record){.kind = BATCH_RECORD_FILE, .owner = job->owner, .tag = "batch_output", .expires_s = expires};
    memcpy(out->id, id, strlen(id) + 1);
    snprintf(name, sizeof name, "%s_%s.jsonl", job->id, suffix);
    out->bytes = (int64_t)s.st_size;
    out->body = json_pack("{s:s, s:s, s:I, s:I, s:s, s:s, s:s}", "id", id, "object", "file", "bytes", (json_int_t)s.st_size,
                          "created_at", (json_int_t)now, "filename", name, "purpose", "batch_output", "status", "processed");
    if (out->body == NULL || (expires > 0 && json_object_set_new(out->body, "expires_at", json_integer(expires)) != 0))
        return mr_fail(err, MR_NO_MEMORY, "no memory for the batch");
    return MR_OK;
}

/* The two files of a job: ids that follow from its own, so that a step that is taken again writes the same ones. */
struct ending {
    char id[2][BATCH_ID_MAX + 1];
    struct string_buffer path[2];
    struct batch_record file[2];
    int n_file;
};

static void name_files(struct ending *e, const struct batch_service *b, const struct batch_record *r)
{
    static const char *const part[] = {"out", "err"};
    for (int i = 0; i < 2; i++) {
        snprintf(e->id[i], sizeof e->id[i], "file-%.40s-%s", r->id + strlen("batch_"), part[i]);
        string_buffer_init(&e->path[i]);
        batch_service_path(b, e->id[i], &e->path[i]);
    }
}

static enum mr_status add_file(struct batch_service *b, struct ending *e, struct batch_record *r, int i, int64_t n,
                               struct mr_error *err)
{
    static const char *const member[] = {"output_file_id", "error_file_id"}, *const suffix[] = {"output", "error"};
    if (n == 0) {
        unlink(e->path[i].s); /* an empty output */
        return MR_OK;
    }
    const enum mr_status status = describe(b, r, e->id[i], suffix[i], e->path[i].s, &e->file[e->n_file], err);
    e->n_file++;
    if (status == MR_OK && json_object_set_new(r->body, member[i], json_string(e->id[i])) != 0)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the batch");
    return status;
}

static enum mr_status write_files(struct batch_service *b, struct ending *e, struct batch_record *r, struct batch_job *job,
                                  const char *to, struct mr_error *err)
{
    struct batch_counts counts;
    if (e->path[0].failed || e->path[1].failed)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the batch");
    MR_TRY(batch_store_count(b->store, job->id, &counts, err));
    MR_TRY(batch_job_write(b->store, job, e->path[0].s, e->path[1].s, err));
    MR_TRY(set_counts(r, &counts, err));
    MR_TRY(add_file(b, e, r, 0, counts.n_ok, err));
    MR_TRY(add_file(b, e, r, 1, counts.n_failed, err));
    const int keep = b->server->settings->batch_keep_s;
    char from[sizeof r->tag];
    memcpy(from, r->tag, sizeof from);
    r->expires_s = keep > 0 ? batch_service_now() + keep : 0; /* of the record, from now on */
    return batch_service_move(b, r, from, to, e->file, e->n_file, err);
}

/* Lines that were not run say why, and are counted. */
static enum mr_status abandon(struct batch_service *b, const struct batch_job *job, const char *input,
                              const struct batch_fault *why, enum batch_line_end line_end, struct mr_error *err)
{
    struct batch_counts before, after;
    MR_TRY(batch_store_count(b->store, job->id, &before, err));
    const enum mr_status status = batch_job_abandon(b->store, job, input, why, err);
    if (batch_store_count(b->store, job->id, &after, NULL) == MR_OK && after.n_failed > before.n_failed)
        metrics_batch_lines(b->server->metrics, line_end, after.n_failed - before.n_failed);
    return status;
}

/* Lines that were not run say why; the files come to be; the lines are forgotten. */
static enum mr_status end(struct batch_service *b, struct batch_record *r, const char *input, const char *to,
                          const struct batch_fault *why, struct mr_error *err)
{
    struct batch_job job;
    struct ending e = {.n_file = 0};
    MR_TRY(find_job(b, r, &job, err));
    if (why != NULL) {
        const bool is_cancelled = strcmp(to, "cancelled") == 0;
        MR_TRY(abandon(b, &job, input, why, is_cancelled ? BATCH_LINES_CANCELLED : BATCH_LINES_EXPIRED, err));
    }
    name_files(&e, b, r);
    enum mr_status status = write_files(b, &e, r, &job, to, err);
    for (int i = 0; i < e.n_file; i++)
        batch_record_release(&e.file[i]);
    for (int i = 0; i < 2; i++)
        string_buffer_release(&e.path[i]);
    return status == MR_OK ? batch_store_drop_job(b->store, job.id, err) : status;
}

/* ---- what there is to do ---- */

static enum mr_status work_on(struct batch_service *b, struct batch_record *r, struct mr_error *err)
{
    struct batch_fault why;
    struct string_buffer input;
    enum mr_status status;
    string_buffer_init(&input);
    batch_service_path(b, batch_record_text(r, "input_file_id"), &input);
    if (input.failed) {
        status = mr_fail(err, MR_NO_MEMORY, "no memory for the batch");
    } else if (strcmp(r->tag, "validating") == 0) {
        status = check(b, r, input.s, err);
    } else if (strcmp(r->tag, "finalizing") == 0) {
        status = end(b, r, input.s, "completed", NULL, err);
    } else if (strcmp(r->tag, "cancelling") == 0) {
        batch_fault_set(&why, "batch_cancelled", NULL, "the batch was cancelled before this request was run");
        status = end(b, r, input.s, "cancelled", &why, err);
    } else {
        batch_fault_set(&why, "batch_expired", NULL, "the completion window was over before this request was run");
        status = end(b, r, input.s, "expired", &why, err);
    }
    string_buffer_release(&input);
    return status == MR_BUSY ? MR_OK : status; /* it is something else now, which is looked at next */
}

static bool is_running(struct batch_service *b, const struct batch_record *r)
{
    pthread_mutex_lock(&b->lock);
    const bool is = strcmp(b->running, r->id) == 0;
    pthread_mutex_unlock(&b->lock);
    return is;
}

/* The oldest job of a status that the runner does not have. until_s: as in batch_records_oldest. */
static enum mr_status take(struct batch_service *b, const char *tag, int64_t until_s, struct mr_error *err)
{
    struct batch_record r;
    enum mr_status status;
    int64_t after = 0;
    while ((status = batch_records_oldest(b->store, BATCH_RECORD_JOB, tag, until_s, after, &r, err)) == MR_OK) {
        const bool is_free = !is_running(b, &r);
        if (is_free)
            status = work_on(b, &r, err);
        after = r.seq;
        batch_record_release(&r);
        if (is_free)
            return status;
    }
    return status;
}

/* Files and ended jobs whose time is over. OK: there was one. */
static enum mr_status forget(struct batch_service *b, enum batch_record_kind kind, const char *tag, struct mr_error *err)
{
    struct batch_record r;
    enum mr_status status;
    int64_t after = 0;
    while ((status = batch_records_oldest(b->store, kind, tag, batch_service_now(), after, &r, err)) == MR_OK) {
        status =
            kind == BATCH_RECORD_FILE ? batch_service_remove_file(b, r.id, err) : batch_records_remove(b->store, r.id, err);
        after = r.seq;
        batch_record_release(&r);
        if (status != MR_BUSY)
            return status;
    }
    return status;
}

static const char *const ended[] = {"completed", "failed", "expired", "cancelled"};

static enum mr_status forget_jobs(struct batch_service *b, struct mr_error *err)
{
    enum mr_status status = MR_NOT_FOUND;
    for (size_t i = 0; status == MR_NOT_FOUND && i < sizeof ended / sizeof *ended; i++)
        status = forget(b, BATCH_RECORD_JOB, ended[i], err);
    return status;
}

enum mr_status batch_clerk_step(struct batch_service *b, struct mr_error *err)
{
    static const char *const tag[] = {"validating", "cancelling", "finalizing"};
    enum mr_status status = MR_NOT_FOUND;
    for (size_t i = 0; status == MR_NOT_FOUND && i < sizeof tag / sizeof *tag; i++)
        status = take(b, tag[i], 0, err);
    if (status == MR_NOT_FOUND)
        status = take(b, "in_progress", batch_service_now(), err);
    if (status == MR_NOT_FOUND)
        status = forget(b, BATCH_RECORD_FILE, "", err);
    return status == MR_NOT_FOUND ? forget_jobs(b, err) : status;
}

/* ---- after another process ---- */

static bool is_job_over(struct batch_service *b, const char *id)
{
    struct batch_record r;
    bool is_over = false;
    const enum mr_status status = batch_records_get(b->store, BATCH_RECORD_JOB, id, &r, NULL);
    for (size_t i = 0; status == MR_OK && i < sizeof ended / sizeof *ended; i++)
        is_over |= strcmp(r.tag, ended[i]) == 0;
    if (status == MR_OK)
        batch_record_release(&r);
    return is_over || status == MR_NOT_FOUND;
}

/* Lines of jobs whose end was written already. */
static enum mr_status drop_ended(struct batch_service *b, struct mr_error *err)
{
    struct batch_job job = {0};
    enum mr_status status;
    while ((status = batch_store_next_job(b->store, job.id, &job, err)) == MR_OK)
        if (is_job_over(b, job.name))
            MR_TRY(batch_store_drop_job(b->store, job.id, err));
    return status == MR_NOT_FOUND ? MR_OK : status;
}

/* Counts of jobs that will go on. */
static enum mr_status count_again(struct batch_service *b, struct mr_error *err)
{
    struct batch_record r;
    struct batch_job job;
    struct batch_counts counts;
    int64_t after = 0;
    enum mr_status status;
    while ((status = batch_records_oldest(b->store, BATCH_RECORD_JOB, "in_progress", 0, after, &r, err)) == MR_OK) {
        after = r.seq;
        status = batch_store_find_job(b->store, r.id, &job, err);
        if (status == MR_OK)
            status = batch_store_count(b->store, job.id, &counts, err);
        if (status == MR_OK)
            status = set_counts(&r, &counts, err);
        if (status == MR_OK)
            status = batch_records_put(b->store, &r, 1, err);
        batch_record_release(&r);
        MR_TRY(status);
    }
    return status == MR_NOT_FOUND ? MR_OK : status;
}

/* Bytes of files that nobody was told of, or that were deleted. */
static void remove_orphans(struct batch_service *b)
{
    struct string_buffer path;
    string_buffer_init(&path);
    batch_service_path(b, "", &path);
    DIR *folder = path.failed ? NULL : opendir(path.s);
    for (const struct dirent *d; folder != NULL && (d = readdir(folder)) != NULL;) {
        struct batch_record r;
        if (d->d_name[0] == '.')
            continue;
        const enum mr_status status = batch_records_get(b->store, BATCH_RECORD_FILE, d->d_name, &r, NULL);
        if (status == MR_OK)
            batch_record_release(&r);
        string_buffer_clear(&path);
        batch_service_path(b, d->d_name, &path);
        if (status == MR_NOT_FOUND && !path.failed)
            unlink(path.s);
    }
    if (folder != NULL)
        closedir(folder);
    string_buffer_release(&path);
}

enum mr_status batch_clerk_tidy(struct batch_service *b, struct mr_error *err)
{
    remove_orphans(b);
    MR_TRY(drop_ended(b, err));
    return count_again(b, err);
}
