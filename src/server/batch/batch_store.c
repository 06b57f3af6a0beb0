/* batch_store.c: statements and transactions. */
#include "server/batch/batch_store.h"

#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "server/batch/batch_store_state.h"
#include "server/batch/durable_file.h"

enum {
    BUSY_MS = 10000,      /* somebody who looks into the file with a program of their own has its locks for a moment */
    RESULTS_TOGETHER = 64 /* of one look, while nobody else can look */
};

#define RECORD_COLUMNS "SELECT seq, kind, id, owner, tag, expires, bytes, body FROM record "

static const char *const statement_text[SQL_N] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_NEXT_JOB] = "SELECT id, name, model, status FROM job WHERE id > ?1 ORDER BY id LIMIT 1",
    [SQL_ADD_JOB] = "INSERT INTO job(name, model, status) VALUES(?1, ?2, ?3)",
    [SQL_SET_STATUS] = "UPDATE job SET status = ?2 WHERE id = ?1",
    [SQL_ADD_LINE] = "INSERT INTO line(job, line, at, n, custom_id, state, result) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [SQL_CLEAR_LINES] = "DELETE FROM line WHERE job = ?1",
    [SQL_PENDING] = "SELECT line, at, n FROM line WHERE job = ?1 AND line > ?2 AND state = 0 ORDER BY line LIMIT ?3",
    [SQL_RECORD] = "UPDATE line SET state = ?3, result = ?4 WHERE job = ?1 AND line = ?2 AND state = 0",
    [SQL_COUNT] = "SELECT count(*), coalesce(sum(state = 1), 0), coalesce(sum(state = 2), 0) FROM line WHERE job = ?1",
    [SQL_RESULTS] = "SELECT line, result FROM line WHERE job = ?1 AND state = ?2 AND line > ?3 ORDER BY line LIMIT ?4",
    [SQL_FIND_JOB] = "SELECT id, name, model, status FROM job WHERE name = ?1",
    [SQL_DROP_JOB] = "DELETE FROM job WHERE id = ?1",
    [SQL_PUT] = "INSERT INTO record(kind, id, owner, tag, expires, bytes, body) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)"
                " ON CONFLICT(id) DO UPDATE SET tag = ?4, expires = ?5, bytes = ?6, body = ?7",
    [SQL_GET] = RECORD_COLUMNS "WHERE kind = ?1 AND id = ?2",
    [SQL_OLDEST] =
        RECORD_COLUMNS "WHERE kind = ?1 AND (?2 = '' OR tag = ?2) AND (?3 = 0 OR (expires > 0 AND expires <= ?3)) AND seq > ?4"
                       " ORDER BY seq LIMIT 1",
    [SQL_LIST_UP] = RECORD_COLUMNS "WHERE kind = ?1 AND owner = ?2 AND (?3 = '' OR tag = ?3) AND seq > ?4"
                                   " ORDER BY seq LIMIT ?5",
    [SQL_LIST_DOWN] = RECORD_COLUMNS "WHERE kind = ?1 AND owner = ?2 AND (?3 = '' OR tag = ?3) AND seq < ?4"
                                     " ORDER BY seq DESC LIMIT ?5",
    [SQL_REMOVE] = "DELETE FROM record WHERE id = ?1",
    [SQL_SUM] = "SELECT count(*), coalesce(sum(bytes), 0) FROM record WHERE kind = ?1 AND (?2 = '' OR tag = ?2)"
                " AND (?3 OR owner = ?4)",
};

static const char schema[] = "CREATE TABLE IF NOT EXISTS job(id INTEGER PRIMARY KEY, name TEXT NOT NULL, model TEXT NOT NULL,"
                             " status INTEGER NOT NULL);"
                             "CREATE TABLE IF NOT EXISTS line(job INTEGER NOT NULL, line INTEGER NOT NULL,"
                             " at INTEGER NOT NULL, n INTEGER NOT NULL, custom_id BLOB, state INTEGER NOT NULL, result BLOB,"
                             " PRIMARY KEY(job, line), UNIQUE(job, custom_id));"
                             "CREATE TABLE IF NOT EXISTS record(seq INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER NOT NULL,"
                             " id TEXT NOT NULL UNIQUE, owner INTEGER NOT NULL, tag TEXT NOT NULL, expires INTEGER NOT NULL,"
                             " bytes INTEGER NOT NULL, body TEXT NOT NULL);"
                             "CREATE INDEX IF NOT EXISTS record_of ON record(kind, owner, seq);"
                             "CREATE INDEX IF NOT EXISTS record_tag ON record(kind, tag, seq);"
                             "PRAGMA user_version = 1;";

enum mr_status batch_store_fail(const struct batch_store *s, struct mr_error *err)
{
    static const struct {
        int code;
        enum mr_status status;
    } known[] = {{SQLITE_FULL, MR_FULL},
                 {SQLITE_NOMEM, MR_NO_MEMORY},
                 {SQLITE_CORRUPT, MR_BAD_FORMAT},
                 {SQLITE_NOTADB, MR_BAD_FORMAT},
                 {SQLITE_BUSY, MR_BUSY}};
    const bool is_cut = sqlite3_extended_errcode(s->db) == SQLITE_IOERR_SHORT_READ;
    enum mr_status status = is_cut ? MR_BAD_FORMAT : MR_IO;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (sqlite3_errcode(s->db) == known[i].code)
            status = known[i].status;
    return mr_fail(err, status, "the state of the batch: %s", sqlite3_errmsg(s->db));
}

enum mr_status batch_store_finish(struct batch_store *s, enum batch_statement k, struct mr_error *err)
{
    const int rc = sqlite3_step(s->statement[k]);
    const enum mr_status status = rc == SQLITE_DONE || rc == SQLITE_ROW ? MR_OK : batch_store_fail(s, err);
    sqlite3_reset(s->statement[k]);
    sqlite3_clear_bindings(s->statement[k]);
    return status;
}

static sqlite3_stmt *bind_job(struct batch_store *s, enum batch_statement k, int64_t job)
{
    sqlite3_bind_int64(s->statement[k], 1, job);
    return s->statement[k];
}

enum mr_status batch_store_settle(struct batch_store *s, enum mr_status status, struct mr_error *err)
{
    if (status == MR_OK)
        status = batch_store_finish(s, SQL_COMMIT, err);
    if (status != MR_OK && !sqlite3_get_autocommit(s->db))
        batch_store_finish(s, SQL_ROLLBACK, NULL);
    return status;
}

/* A file that was cut is seen here, not in the middle of the work. */
static enum mr_status check(struct batch_store *s, struct mr_error *err)
{
    sqlite3_stmt *q = NULL;
    if (sqlite3_prepare_v2(s->db, "PRAGMA quick_check(1)", -1, &q, NULL) != SQLITE_OK)
        return batch_store_fail(s, err);
    const int rc = sqlite3_step(q);
    const char *verdict = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(q, 0) : NULL;
    enum mr_status status = MR_OK;
    if (rc != SQLITE_ROW)
        status = batch_store_fail(s, err);
    else if (verdict == NULL || strcmp(verdict, "ok") != 0)
        status = mr_fail(err, MR_BAD_FORMAT, "the state of the batch is damaged: %s", verdict != NULL ? verdict : "");
    sqlite3_finalize(q);
    return status;
}

static enum mr_status prepare(struct batch_store *s, struct mr_error *err)
{
    static const char mode[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF;";
    if (sqlite3_exec(s->db, mode, NULL, NULL, NULL) != SQLITE_OK || sqlite3_exec(s->db, schema, NULL, NULL, NULL) != SQLITE_OK)
        return batch_store_fail(s, err);
    MR_TRY(check(s, err));
    for (int i = 0; i < SQL_N; i++)
        if (sqlite3_prepare_v3(s->db, statement_text[i], -1, SQLITE_PREPARE_PERSISTENT, &s->statement[i], NULL) != SQLITE_OK)
            return batch_store_fail(s, err);
    return MR_OK;
}

static void path_in(struct string_buffer *out, const char *folder, const char *name)
{
    string_buffer_init(out);
    string_buffer_printf(out, "%s/%s", folder, name);
}

static enum mr_status open_database(struct batch_store *s, const char *folder, struct mr_error *err)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    struct string_buffer path;
    path_in(&path, folder, "batch.db");
    enum mr_status status = MR_OK;
    if (path.failed)
        status = mr_fail(err, MR_NO_MEMORY, "no memory for the batch");
    else if (sqlite3_open_v2(path.s, &s->db, flags, NULL) != SQLITE_OK)
        status = s->db != NULL ? batch_store_fail(s, err) : mr_fail(err, MR_NO_MEMORY, "no memory for the batch");
    else
        status = sqlite3_busy_timeout(s->db, BUSY_MS) == SQLITE_OK ? prepare(s, err) : batch_store_fail(s, err);
    if (status == MR_OK)
        status = durable_folder_sync(path.s, err);
    string_buffer_release(&path);
    return status;
}

enum mr_status batch_store_open(struct batch_store **out, const char *folder, struct mr_error *err)
{
    *out = NULL;
    struct batch_store *s = mem_zero_array(1, sizeof *s);
    if (s == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the batch");
    pthread_mutex_init(&s->lock, NULL);
    enum mr_status status = durable_folder_lock(&s->lock_fd, folder, err);
    if (status == MR_OK)
        status = open_database(s, folder, err);
    if (status != MR_OK)
        batch_store_close(s);
    else
        *out = s;
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "%s", folder);
}

void batch_store_close(struct batch_store *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < SQL_N; i++)
        sqlite3_finalize(s->statement[i]);
    sqlite3_close(s->db);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

enum mr_status batch_store_put_aside(const char *folder, struct mr_error *err)
{
    static const char *const part[] = {"-wal", "-shm", ""}; /* the log goes with its file */
    enum mr_status status = MR_OK;
    for (size_t i = 0; status == MR_OK && i < sizeof part / sizeof *part; i++) {
        struct string_buffer from, to;
        path_in(&from, folder, "batch.db");
        path_in(&to, folder, "batch.db.damaged");
        string_buffer_puts(&from, part[i]);
        string_buffer_puts(&to, part[i]);
        if (from.failed || to.failed)
            status = mr_fail(err, MR_NO_MEMORY, "no memory for the batch");
        else if (rename(from.s, to.s) != 0 && *part[i] == '\0')
            status = mr_fail(err, MR_IO, "cannot rename '%s'", from.s);
        string_buffer_release(&from);
        string_buffer_release(&to);
    }
    return status;
}

void batch_store_remove(const char *folder)
{
    static const char *const name[] = {"batch.db-wal",         "batch.db-shm",     "batch.db", "batch.db.damaged-wal",
                                       "batch.db.damaged-shm", "batch.db.damaged", "lock"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        struct string_buffer path;
        path_in(&path, folder, name[i]);
        if (!path.failed)
            unlink(path.s);
        string_buffer_release(&path);
    }
    rmdir(folder);
}

/* ---- jobs ---- */

static void copy_name(char out[BATCH_NAME_MAX + 1], const unsigned char *name)
{
    snprintf(out, BATCH_NAME_MAX + 1, "%s", name != NULL ? (const char *)name : "");
}

/* The row of a statement that selects a job. The lock is held. */
static enum mr_status read_job(struct batch_store *s, enum batch_statement k, struct batch_job *out, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    sqlite3_stmt *q = s->statement[k];
    const int rc = sqlite3_step(q);
    *out = (struct batch_job){0};
    if (rc == SQLITE_ROW) {
        out->id = sqlite3_column_int64(q, 0);
        copy_name(out->name, sqlite3_column_text(q, 1));
        copy_name(out->model, sqlite3_column_text(q, 2));
        const int value = sqlite3_column_int(q, 3);
        out->status = (enum batch_status)value;
        if (value < BATCH_VALIDATING || value > BATCH_COMPLETED)
            status = mr_fail(err, MR_BAD_FORMAT, "the state of the batch: status %d", value);
    } else {
        status = rc == SQLITE_DONE ? MR_NOT_FOUND : batch_store_fail(s, err);
    }
    sqlite3_reset(q);
    return status;
}

enum mr_status batch_store_first_job(struct batch_store *s, struct batch_job *out, struct mr_error *err)
{
    return batch_store_next_job(s, 0, out, err);
}

enum mr_status batch_store_next_job(struct batch_store *s, int64_t after, struct batch_job *out, struct mr_error *err)
{
    pthread_mutex_lock(&s->lock);
    bind_job(s, SQL_NEXT_JOB, after);
    const enum mr_status status = read_job(s, SQL_NEXT_JOB, out, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum mr_status batch_store_find_job(struct batch_store *s, const char *name, struct batch_job *out, struct mr_error *err)
{
    pthread_mutex_lock(&s->lock);
    sqlite3_bind_text(s->statement[SQL_FIND_JOB], 1, name, -1, SQLITE_STATIC);
    const enum mr_status status = read_job(s, SQL_FIND_JOB, out, err);
    sqlite3_clear_bindings(s->statement[SQL_FIND_JOB]);
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum mr_status batch_store_add_job(struct batch_store *s, struct batch_job *job, struct mr_error *err)
{
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = s->statement[SQL_ADD_JOB];
    sqlite3_bind_text(q, 1, job->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(q, 2, job->model, -1, SQLITE_STATIC);
    sqlite3_bind_int(q, 3, (int)job->status);
    const enum mr_status status = batch_store_finish(s, SQL_ADD_JOB, err);
    job->id = sqlite3_last_insert_rowid(s->db);
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum mr_status batch_store_set_status(struct batch_store *s, int64_t job, enum batch_status status, struct mr_error *err)
{
    pthread_mutex_lock(&s->lock);
    sqlite3_bind_int(bind_job(s, SQL_SET_STATUS, job), 2, (int)status);
    const enum mr_status written = batch_store_finish(s, SQL_SET_STATUS, err);
    pthread_mutex_unlock(&s->lock);
    return written;
}

enum mr_status batch_store_drop_job(struct batch_store *s, int64_t job, struct mr_error *err)
{
    pthread_mutex_lock(&s->lock);
    enum mr_status status = batch_store_finish(s, SQL_BEGIN, err);
    bind_job(s, SQL_CLEAR_LINES, job);
    bind_job(s, SQL_DROP_JOB, job);
    if (status == MR_OK)
        status = batch_store_finish(s, SQL_CLEAR_LINES, err);
    if (status == MR_OK)
        status = batch_store_finish(s, SQL_DROP_JOB, err);
    status = batch_store_settle(s, status, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- lines ---- */

static enum mr_status add_line(struct batch_store *s, int64_t job, struct batch_line *l, struct mr_error *err)
{
    sqlite3_stmt *q = bind_job(s, SQL_ADD_LINE, job);
    sqlite3_bind_int(q, 2, l->line);
    sqlite3_bind_int64(q, 3, l->offset);
    sqlite3_bind_int64(q, 4, l->n);
    if (l->custom_id != NULL)
        sqlite3_bind_blob64(q, 5, l->custom_id, l->n_custom_id, SQLITE_STATIC);
    sqlite3_bind_int(q, 6, (int)l->state);
    if (l->result != NULL)
        sqlite3_bind_blob64(q, 7, l->result, l->n_result, SQLITE_STATIC);
    const int rc = sqlite3_step(q);
    l->is_duplicate = rc == SQLITE_CONSTRAINT && l->custom_id != NULL;
    const enum mr_status status = rc == SQLITE_DONE || l->is_duplicate ? MR_OK : batch_store_fail(s, err);
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    return status;
}

enum mr_status batch_store_add_lines(struct batch_store *s, int64_t job, struct batch_line *line, int n, struct mr_error *err)
{
    pthread_mutex_lock(&s->lock);
    enum mr_status status = batch_store_finish(s, SQL_BEGIN, err);
    for (int i = 0; status == MR_OK && i < n; i++)
        status = add_line(s, job, &line[i], err);
    status = batch_store_settle(s, status, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum mr_status batch_store_clear_lines(struct batch_store *s, int64_t job, struct mr_error *err)
{
    pthread_mutex_lock(&s->lock);
    bind_job(s, SQL_CLEAR_LINES, job);
    const enum mr_status status = batch_store_finish(s, SQL_CLEAR_LINES, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum mr_status batch_store_pending(struct batch_store *s, int64_t job, int32_t after, struct batch_line *out, int *n,
                                   struct mr_error *err)
{
    const int max = *n;
    int rc;
    *n = 0;
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = bind_job(s, SQL_PENDING, job);
    sqlite3_bind_int(q, 2, after);
    sqlite3_bind_int(q, 3, max);
    while ((rc = sqlite3_step(q)) == SQLITE_ROW && *n < max)
        out[(*n)++] = (struct batch_line){
            .line = sqlite3_column_int(q, 0), .offset = sqlite3_column_int64(q, 1), .n = sqlite3_column_int64(q, 2)};
    const enum mr_status status = rc == SQLITE_DONE || rc == SQLITE_ROW ? MR_OK : batch_store_fail(s, err);
    sqlite3_reset(q);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static enum mr_status record(struct batch_store *s, int64_t job, const struct batch_line *l, struct mr_error *err)
{
    sqlite3_stmt *q = bind_job(s, SQL_RECORD, job);
    sqlite3_bind_int(q, 2, l->line);
    sqlite3_bind_int(q, 3, (int)l->state);
    sqlite3_bind_blob64(q, 4, l->result, l->n_result, SQLITE_STATIC);
    return batch_store_finish(s, SQL_RECORD, err);
}

enum mr_status batch_store_record(struct batch_store *s, int64_t job, const struct batch_line *line, int n,
                                  struct mr_error *err)
{
    pthread_mutex_lock(&s->lock);
    enum mr_status status = batch_store_finish(s, SQL_BEGIN, err);
    for (int i = 0; status == MR_OK && i < n; i++)
        status = record(s, job, &line[i], err);
    status = batch_store_settle(s, status, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum mr_status batch_store_count(struct batch_store *s, int64_t job, struct batch_counts *out, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    *out = (struct batch_counts){0};
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = bind_job(s, SQL_COUNT, job);
    if (sqlite3_step(q) == SQLITE_ROW)
        *out = (struct batch_counts){
            .n_line = sqlite3_column_int64(q, 0), .n_ok = sqlite3_column_int64(q, 1), .n_failed = sqlite3_column_int64(q, 2)};
    else
        status = batch_store_fail(s, err);
    sqlite3_reset(q);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* Some of the results behind *after, which becomes the last of them; *n: how many. */
static enum mr_status some_results(struct batch_store *s, int64_t job, enum batch_line_state state, int32_t *after, int *n,
                                   enum mr_status (*take)(void *context, const char *result, size_t n, struct mr_error *err),
                                   void *context, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    int rc = SQLITE_DONE;
    sqlite3_stmt *q = bind_job(s, SQL_RESULTS, job);
    sqlite3_bind_int(q, 2, (int)state);
    sqlite3_bind_int(q, 3, *after);
    sqlite3_bind_int(q, 4, RESULTS_TOGETHER);
    *n = 0;
    while (status == MR_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        const void *result = sqlite3_column_blob(q, 1);
        *after = sqlite3_column_int(q, 0);
        *n += 1;
        status = take(context, result != NULL ? result : "", (size_t)sqlite3_column_bytes(q, 1), err);
    }
    if (status == MR_OK && rc != SQLITE_DONE)
        status = batch_store_fail(s, err);
    sqlite3_reset(q);
    return status;
}

enum mr_status batch_store_results(struct batch_store *s, int64_t job, enum batch_line_state state,
                                   enum mr_status (*take)(void *context, const char *result, size_t n, struct mr_error *err),
                                   void *context, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    int32_t after = 0;
    for (int n = 1; status == MR_OK && n > 0;) { /* others get their turn in between */
        pthread_mutex_lock(&s->lock);
        status = some_results(s, job, state, &after, &n, take, context, err);
        pthread_mutex_unlock(&s->lock);
    }
    return status;
}
