/* batch_metrics.c: what the metrics are told of batches: all anew when a record changes, in between the lines that get
 * results. */
#include <math.h>
#include <string.h>

#include "server/batch/batch_service_state.h"
#include "server/metrics.h"
#include "server/server.h"

static int64_t count_of(const json_t *counts, const char *name) { return json_integer_value(json_object_get(counts, name)); }

/* Lines of a job in progress that have no result. Its record says how many had one when the server began; of the job that ran
 * since then more is known. */
static int64_t pending(const struct batch_service *b, const struct batch_record *job)
{
    const struct batch_counts *c = &b->progress.counts;
    if (strcmp(b->counted, job->id) == 0 && c->n_line > 0)
        return c->n_line - c->n_ok - c->n_failed;
    const json_t *counts = json_object_get(job->body, "request_counts");
    return count_of(counts, "total") - count_of(counts, "completed") - count_of(counts, "failed");
}

static enum mr_status count_in_progress(struct batch_service *b, struct metrics_batches *m)
{
    struct batch_record job;
    enum mr_status status;
    int64_t after = 0;
    while ((status = batch_records_oldest(b->store, BATCH_RECORD_JOB, "in_progress", 0, after, &job, NULL)) == MR_OK) {
        const int64_t n = pending(b, &job);
        if (n > 0 && m->n_pending == 0)
            m->oldest_s = fmax(0, (double)(batch_service_now() - batch_record_int(&job, "created_at")));
        m->n_pending += n;
        m->n_in_progress++;
        after = job.seq;
        batch_record_release(&job);
    }
    return status == MR_NOT_FOUND ? MR_OK : status;
}

void batch_service_survey(struct batch_service *b)
{
    struct metrics_batches m = {0};
    const struct {
        const char *tag;
        int64_t *n;
    } other[] = {{"validating", &m.n_validating}, {"finalizing", &m.n_finalizing}, {"cancelling", &m.n_cancelling}};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        struct batch_sum sum;
        if (batch_records_sum(b->store, BATCH_RECORD_JOB, other[i].tag, NULL, &sum, NULL) != MR_OK)
            return; /* the next change tells it */
        *other[i].n = sum.n;
    }
    if (count_in_progress(b, &m) != MR_OK)
        return;
    b->n_pending = m.n_pending;
    metrics_set_batches(b->server->metrics, &m);
}

void batch_service_progress(struct batch_service *b, const struct batch_progress *p)
{
    const struct batch_counts before = b->progress.counts, *now = &p->counts;
    b->progress = *p;
    if (before.n_line == 0) { /* it begins: what others have recorded was told by them */
        batch_service_survey(b);
        return;
    }
    const int64_t n_ok = now->n_ok - before.n_ok, n_failed = now->n_failed - before.n_failed;
    if (n_ok + n_failed == 0)
        return;
    metrics_batch_lines(b->server->metrics, BATCH_LINES_COMPLETED, n_ok);
    metrics_batch_lines(b->server->metrics, BATCH_LINES_FAILED, n_failed);
    if (!atomic_load(&b->leave)) { /* else they are not among those that wait */
        b->n_pending -= n_ok + n_failed;
        metrics_set_lines_pending(b->server->metrics, b->n_pending);
    }
}
