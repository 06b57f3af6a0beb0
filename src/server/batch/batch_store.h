/* batch_store.h: jobs and their lines on the disk: SQLite in WAL mode (sqlite.org/wal.html) with synchronous=FULL, so that what
 * a function has written stays when the process or the power ends. A line is pending until its result is recorded, and a result
 * is recorded once.
 * Threads: any; one lock. */
#ifndef SERVER_BATCH_BATCH_STORE_H
#define SERVER_BATCH_BATCH_STORE_H

#include <stdint.h>

#include "base/string_buffer.h"

struct batch_store;

enum batch_status {
    BATCH_VALIDATING, /* its lines are not all there yet */
    BATCH_IN_PROGRESS,
    BATCH_FINALIZING, /* every line has its result; files are being written */
    BATCH_COMPLETED   /* the files are there */
};

enum batch_line_state {
    BATCH_LINE_PENDING,
    BATCH_LINE_OK,    /* its result belongs to the output */
    BATCH_LINE_FAILED /* to the errors */
};

enum {
    BATCH_NAME_MAX = 128,
    BATCH_CUSTOM_ID_MAX = 4096 /* bytes */
};

struct batch_job {
    int64_t id;
    char name[BATCH_NAME_MAX + 1];  /* what the caller knows it by */
    char model[BATCH_NAME_MAX + 1]; /* that answers */
    enum batch_status status;
};

struct batch_line {
    int32_t line; /* in the input, from 1 */
    int64_t offset, n;
    const char *custom_id; /* NULL: none; n_custom_id bytes */
    size_t n_custom_id;
    enum batch_line_state state;
    const char *result; /* a line of the output or the errors, without its end; NULL: pending */
    size_t n_result;
    bool is_duplicate; /* told by batch_store_add_lines: another line has the custom_id; it was not added */
};

struct batch_counts {
    int64_t n_line, n_ok, n_failed;
};

/* Open the folder's batch.db, and make both where they are missing. BUSY: another process has them open. BAD_FORMAT: the file
 * is damaged. */
enum mr_status batch_store_open(struct batch_store **out, const char *folder, struct mr_error *err);
void batch_store_close(struct batch_store *s); /* takes NULL */
/* Put a damaged batch.db aside, as batch.db.damaged: nobody has it open. */
enum mr_status batch_store_put_aside(const char *folder, struct mr_error *err);
/* Remove what batch_store_open made. */
void batch_store_remove(const char *folder);

/* The first job, the one behind an id, the one of a name. NOT_FOUND: there is none. */
enum mr_status batch_store_first_job(struct batch_store *s, struct batch_job *out, struct mr_error *err);
enum mr_status batch_store_next_job(struct batch_store *s, int64_t after, struct batch_job *out, struct mr_error *err);
enum mr_status batch_store_find_job(struct batch_store *s, const char *name, struct batch_job *out, struct mr_error *err);
/* Sets job->id. */
enum mr_status batch_store_add_job(struct batch_store *s, struct batch_job *job, struct mr_error *err);
enum mr_status batch_store_set_status(struct batch_store *s, int64_t job, enum batch_status status, struct mr_error *err);
/* Forget a job and its lines. */
enum mr_status batch_store_drop_job(struct batch_store *s, int64_t job, struct mr_error *err);

/* Add lines, all or none but for duplicates. */
enum mr_status batch_store_add_lines(struct batch_store *s, int64_t job, struct batch_line *line, int n, struct mr_error *err);
enum mr_status batch_store_clear_lines(struct batch_store *s, int64_t job, struct mr_error *err);
/* Up to *n pending lines behind this one, in order; *n says how many. Without texts. */
enum mr_status batch_store_pending(struct batch_store *s, int64_t job, int32_t after, struct batch_line *out, int *n,
                                   struct mr_error *err);
/* Record results, all or none: line, state and result are read. What has one keeps it. */
enum mr_status batch_store_record(struct batch_store *s, int64_t job, const struct batch_line *line, int n,
                                  struct mr_error *err);
enum mr_status batch_store_count(struct batch_store *s, int64_t job, struct batch_counts *out, struct mr_error *err);
/* Results of this state in the order of the input; take's text is borrowed until it returns, and its failure ends it. */
enum mr_status batch_store_results(struct batch_store *s, int64_t job, enum batch_line_state state,
                                   enum mr_status (*take)(void *context, const char *result, size_t n, struct mr_error *err),
                                   void *context, struct mr_error *err);

#endif
