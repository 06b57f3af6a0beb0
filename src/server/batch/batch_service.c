/* batch_service.c: the life of the two threads, and the records that they and the endpoints change. */
#include "server/batch/batch_service_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread_start.h"
#include "server/batch/durable_file.h"
#include "server/server.h"
#include "server/settings.h"

enum {
    IDLE_MS = 1000,
    TROUBLE_MS = 2000, /* before what has failed is tried again: a disk may be full */
    ID_RANDOM_BYTES = 12
};

int64_t batch_service_now(void) { return (int64_t)time(NULL); }

struct batch_store *batch_service_store(struct batch_service *b) { return b->store; }

void batch_service_path(const struct batch_service *b, const char *id, struct string_buffer *out)
{
    string_buffer_printf(out, "%s/files/%s", b->folder, id);
}

void batch_service_new_id(char out[BATCH_ID_MAX + 1], const char *prefix)
{
    unsigned char random[ID_RANDOM_BYTES];
    arc4random_buf(random, sizeof random);
    int n = snprintf(out, BATCH_ID_MAX + 1, "%s", prefix);
    for (size_t i = 0; i < sizeof random; i++)
        n += snprintf(out + n, (size_t)(BATCH_ID_MAX + 1 - n), "%02x", random[i]);
}

/* ---- life ---- */

static enum mr_status make_folders(const struct batch_service *b, struct mr_error *err)
{
    struct string_buffer path;
    string_buffer_init(&path);
    batch_service_path(b, "", &path);
    enum mr_status status = path.failed ? mr_fail(err, MR_NO_MEMORY, "no memory for the batches") : MR_OK;
    if (status == MR_OK && mkdir(path.s, 0700) != 0 && errno != EEXIST)
        status = mr_fail(err, MR_IO, "cannot make '%s': %s", path.s, strerror(errno));
    if (status == MR_OK)
        status = durable_folder_sync(path.s, err);
    string_buffer_release(&path);
    return status;
}

enum mr_status batch_service_open(struct batch_service **out, struct server *s, const char *folder, struct mr_error *err)
{
    pthread_condattr_t monotonic;
    *out = NULL;
    struct batch_service *b = mem_zero_array(1, sizeof *b);
    if (b == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the batches");
    b->server = s;
    pthread_mutex_init(&b->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&b->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    b->folder = mem_string(folder, strlen(folder));
    enum mr_status status = b->folder != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for the batches");
    if (status == MR_OK)
        status = batch_store_open(&b->store, folder, err);
    if (status == MR_OK)
        status = make_folders(b, err);
    if (status == MR_OK)
        status = batch_clerk_tidy(b, err);
    if (status != MR_OK) {
        batch_service_free(b);
        return mr_fail_in(err, status, "state_dir");
    }
    batch_service_survey(b); /* no thread is there yet */
    *out = b;
    return MR_OK;
}

void batch_service_wait(struct batch_service *b, int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    if (!atomic_load(&b->stop))
        pthread_cond_timedwait(&b->wake, &b->lock, &until);
}

static void *clerk(void *context)
{
    struct batch_service *b = context;
    while (!atomic_load(&b->stop)) {
        const enum mr_status status = batch_clerk_step(b, NULL);
        if (status == MR_OK)
            continue;
        pthread_mutex_lock(&b->lock);
        batch_service_wait(b, status == MR_NOT_FOUND ? IDLE_MS : TROUBLE_MS);
        pthread_mutex_unlock(&b->lock);
    }
    return NULL;
}

/* The oldest job behind seq `after` that has lines to run; those whose time is over are the clerk's. */
static enum mr_status next_ready(struct batch_service *b, int64_t after, struct batch_record *job)
{
    enum mr_status status;
    while ((status = batch_records_oldest(b->store, BATCH_RECORD_JOB, "in_progress", 0, after, job, NULL)) == MR_OK) {
        if (job->expires_s > batch_service_now())
            return MR_OK;
        after = job->seq;
        batch_record_release(job);
    }
    return status;
}

bool batch_service_has_other(struct batch_service *b, uint64_t owner)
{
    struct batch_record job;
    bool found = false;
    for (int64_t after = 0; !found && next_ready(b, after, &job) == MR_OK; batch_record_release(&job)) {
        after = job.seq;
        found = job.owner != owner;
    }
    return found;
}

/* Keys take turns, each with its oldest job: a short one does not wait for the end of another's long one. */
static enum mr_status next_job(struct batch_service *b, struct batch_record *job)
{
    struct batch_record other;
    enum mr_status status = next_ready(b, 0, job);
    if (status != MR_OK)
        return status;
    int64_t after = job->seq;
    while ((status = next_ready(b, after, &other)) == MR_OK) {
        /* The distance behind the last one's, round the circle of all ids. */
        const bool is_sooner = other.owner - b->last_owner - 1 < job->owner - b->last_owner - 1;
        after = other.seq;
        batch_record_release(is_sooner ? job : &other);
        if (is_sooner)
            *job = other;
    }
    if (status == MR_NOT_FOUND)
        return MR_OK;
    batch_record_release(job);
    return status;
}

static void *runner(void *context)
{
    struct batch_service *b = context;
    pthread_mutex_lock(&b->lock);
    while (!atomic_load(&b->stop)) {
        struct batch_record job;
        enum mr_status status = next_job(b, &job);
        if (status == MR_OK) {
            snprintf(b->running, sizeof b->running, "%s", job.id);
            snprintf(b->counted, sizeof b->counted, "%s", job.id);
            b->last_owner = job.owner;
            b->progress = (struct batch_progress){0};
            atomic_store(&b->leave, false);
            pthread_mutex_unlock(&b->lock);
            status = batch_runner_step(b, &job, NULL);
            batch_record_release(&job);
            pthread_mutex_lock(&b->lock);
            b->running[0] = '\0';
            pthread_cond_broadcast(&b->wake);
        }
        if (status != MR_OK && status != MR_CANCELLED)
            batch_service_wait(b, status == MR_NOT_FOUND ? IDLE_MS : TROUBLE_MS);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

enum mr_status batch_service_start(struct batch_service *b, struct mr_error *err)
{
    b->has_clerk = thread_start(&b->clerk, clerk, b);
    b->has_runner = thread_start(&b->runner, runner, b);
    return b->has_clerk && b->has_runner ? MR_OK : mr_fail(err, MR_NO_MEMORY, "the threads of batches could not be started");
}

void batch_service_stop(struct batch_service *b)
{
    if (b == NULL)
        return;
    pthread_mutex_lock(&b->lock);
    atomic_store(&b->stop, true);
    pthread_cond_broadcast(&b->wake);
    pthread_mutex_unlock(&b->lock);
    if (b->has_clerk)
        pthread_join(b->clerk, NULL);
    if (b->has_runner)
        pthread_join(b->runner, NULL);
    b->has_clerk = b->has_runner = false;
}

void batch_service_free(struct batch_service *b)
{
    if (b == NULL)
        return;
    batch_service_stop(b);
    batch_store_close(b->store);
    pthread_cond_destroy(&b->wake);
    pthread_mutex_destroy(&b->lock);
    free(b->folder);
    free(b);
}

/* ---- records ---- */

static bool set_status(struct batch_record *job, const char *to)
{
    char name[BATCH_TAG_MAX + 8];
    snprintf(name, sizeof name, "%s_at", to);
    snprintf(job->tag, sizeof job->tag, "%s", to);
    return json_object_set_new(job->body, "status", json_string(to)) == 0 &&
           json_object_set_new(job->body, name, json_integer(batch_service_now())) == 0;
}

/* The lock is held. */
static enum mr_status move(struct batch_service *b, struct batch_record *job, const char *from, const char *to,
                           const struct batch_record *file, int n_file, struct mr_error *err)
{
    struct batch_record now, all[3];
    MR_TRY(batch_records_get(b->store, BATCH_RECORD_JOB, job->id, &now, err));
    const bool is_from = strcmp(now.tag, from) == 0;
    batch_record_release(&now);
    if (!is_from)
        return mr_fail(err, MR_BUSY, "the batch is not %s any more", from);
    if (!set_status(job, to))
        return mr_fail(err, MR_NO_MEMORY, "no memory for the batch");
    for (int i = 0; i < n_file && i < 2; i++)
        all[i] = file[i];
    all[n_file] = *job;
    return batch_records_put(b->store, all, n_file + 1, err);
}

enum mr_status batch_service_move(struct batch_service *b, struct batch_record *job, const char *from, const char *to,
                                  const struct batch_record *file, int n_file, struct mr_error *err)
{
    pthread_mutex_lock(&b->lock);
    const enum mr_status status = move(b, job, from, to, file, n_file, err);
    batch_service_survey(b);
    pthread_cond_broadcast(&b->wake);
    pthread_mutex_unlock(&b->lock);
    return status;
}

static const char *const live[] = {"validating", "in_progress", "finalizing", "cancelling"};

/* Of a key that have not ended. The lock is held. */
static enum mr_status count_live(struct batch_service *b, uint64_t owner, int64_t *n, struct mr_error *err)
{
    *n = 0;
    for (size_t i = 0; i < sizeof live / sizeof *live; i++) {
        struct batch_sum sum;
        MR_TRY(batch_records_sum(b->store, BATCH_RECORD_JOB, live[i], &owner, &sum, err));
        *n += sum.n;
    }
    return MR_OK;
}

/* The lock is held. */
static enum mr_status add(struct batch_service *b, struct batch_record *job, struct mr_error *err)
{
    struct batch_record input;
    int64_t n;
    MR_TRY(count_live(b, job->owner, &n, err));
    if (n >= b->server->settings->batch_jobs)
        return mr_fail(err, MR_BUSY, "%lld batches have not ended, and no more are allowed", (long long)n);
    MR_TRY(batch_records_get(b->store, BATCH_RECORD_FILE, batch_record_text(job, "input_file_id"), &input, err));
    batch_record_release(&input); /* it was there a moment ago, and stays from now on */
    batch_service_new_id(job->id, "batch_");
    snprintf(job->tag, sizeof job->tag, "validating");
    if (json_object_set_new(job->body, "id", json_string(job->id)) != 0 ||
        json_object_set_new(job->body, "status", json_string(job->tag)) != 0)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the batch");
    return batch_records_put(b->store, job, 1, err);
}

enum mr_status batch_service_add(struct batch_service *b, struct batch_record *job, struct mr_error *err)
{
    pthread_mutex_lock(&b->lock);
    const enum mr_status status = add(b, job, err);
    batch_service_survey(b);
    pthread_cond_broadcast(&b->wake);
    pthread_mutex_unlock(&b->lock);
    return status;
}

/* The lock is held. */
static enum mr_status cancel(struct batch_service *b, struct batch_record *job, struct mr_error *err)
{
    if (strcmp(job->tag, "cancelling") == 0)
        return MR_OK;
    if (strcmp(job->tag, "validating") != 0 && strcmp(job->tag, "in_progress") != 0)
        return mr_fail(err, MR_BAD_INPUT, "a batch that is %s cannot be cancelled", job->tag);
    if (!set_status(job, "cancelling"))
        return mr_fail(err, MR_NO_MEMORY, "no memory for the batch");
    MR_TRY(batch_records_put(b->store, job, 1, err));
    if (strcmp(b->running, job->id) == 0)
        atomic_store(&b->leave, true);
    return MR_OK;
}

enum mr_status batch_service_cancel(struct batch_service *b, const char *id, uint64_t owner, struct batch_record *job,
                                    struct mr_error *err)
{
    pthread_mutex_lock(&b->lock);
    enum mr_status status = batch_records_get(b->store, BATCH_RECORD_JOB, id, job, err);
    if (status == MR_OK && job->owner != owner)
        status = mr_fail(err, MR_NOT_FOUND, "no such object");
    if (status == MR_OK)
        status = cancel(b, job, err);
    batch_service_survey(b);
    pthread_cond_broadcast(&b->wake);
    pthread_mutex_unlock(&b->lock);
    return status;
}

void batch_service_show(struct batch_service *b, json_t *job)
{
    const char *id = json_string_value(json_object_get(job, "id"));
    pthread_mutex_lock(&b->lock);
    const struct batch_counts *c = &b->progress.counts;
    if (id != NULL && strcmp(id, b->running) == 0 && c->n_line > 0)
        json_object_set_new(job, "request_counts",
                            json_pack("{s:I, s:I, s:I}", "total", (json_int_t)c->n_line, "completed", (json_int_t)c->n_ok,
                                      "failed", (json_int_t)c->n_failed));
    pthread_mutex_unlock(&b->lock);
}

/* Whether a job that has not ended reads the file. The lock is held. */
static enum mr_status check_unused(struct batch_service *b, const char *id, struct mr_error *err)
{
    for (size_t i = 0; i < sizeof live / sizeof *live; i++) {
        struct batch_record job;
        enum mr_status status;
        int64_t after = 0;
        while ((status = batch_records_oldest(b->store, BATCH_RECORD_JOB, live[i], 0, after, &job, err)) == MR_OK) {
            const bool is_used = strcmp(batch_record_text(&job, "input_file_id"), id) == 0;
            after = job.seq;
            batch_record_release(&job);
            if (is_used)
                return mr_fail(err, MR_BUSY, "a batch that has not ended reads this file");
        }
        if (status != MR_NOT_FOUND)
            return status;
    }
    return MR_OK;
}

enum mr_status batch_service_remove_file(struct batch_service *b, const char *id, struct mr_error *err)
{
    struct string_buffer path;
    pthread_mutex_lock(&b->lock);
    enum mr_status status = check_unused(b, id, err);
    if (status == MR_OK)
        status = batch_records_remove(b->store, id, err);
    pthread_mutex_unlock(&b->lock);
    if (status != MR_OK)
        return status;
    string_buffer_init(&path);
    batch_service_path(b, id, &path);
    if (!path.failed)
        unlink(path.s); /* what stays of it goes with the next start */
    string_buffer_release(&path);
    return MR_OK;
}
