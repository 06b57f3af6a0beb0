/* batch_job.h: a job's way from its input to its files: its lines are checked and stored, run (batch_run.h), and written out.
 * Each step may end at any moment and be taken again: what it has done stays, and nothing is done twice. */
#ifndef SERVER_BATCH_BATCH_JOB_H
#define SERVER_BATCH_BATCH_JOB_H

#include "server/batch/batch_input.h"
#include "server/batch/batch_store.h"

enum {
    BATCH_FAULTS_MAX = 100 /* that are told */
};

/* Lines of the input that are no requests: [{"code", "message", "param", "line"}]. */
struct batch_faults {
    json_t *list; /* BATCH_FAULTS_MAX at most; json_decref it */
    int64_t n;    /* of all */
};

struct batch_check {
    const char *input;            /* file */
    const char *url;              /* that every line asks; NULL: any */
    int64_t max_lines;            /* 0: any number */
    bool keep_going;              /* such lines become results of their own */
    bool (*go_on)(void *context); /* asked now and then; NULL: yes */
    void *context;
};

/* Read all lines, and have the job in progress once they are stored. BAD_INPUT: there are faults; the job has no lines, and
 * stays as it is. */
enum mr_status batch_job_check(struct batch_store *store, const struct batch_job *job, const struct batch_check *check,
                               struct batch_faults *faults, struct mr_error *err);

/* Lines without a result get this one: they were not run. Those of a job that has not been checked are forgotten. */
enum mr_status batch_job_abandon(struct batch_store *store, const struct batch_job *job, const char *input,
                                 const struct batch_fault *why, struct mr_error *err);

/* Write the results, in the order of the input, to the output and the errors, each of which appears whole or not at all. A file
 * that would be empty is not made, but the output is where there are no errors. */
enum mr_status batch_job_write(struct batch_store *store, const struct batch_job *job, const char *output, const char *errors,
                               struct mr_error *err);

#endif
