/* batch_records.c: records to rows and back. */
#include "server/batch/batch_records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/batch/batch_store_state.h"

void batch_record_release(struct batch_record *r)
{
    json_decref(r->body);
    r->body = NULL;
}

int64_t batch_record_int(const struct batch_record *r, const char *name)
{
    return json_integer_value(json_object_get(r->body, name));
}

const char *batch_record_text(const struct batch_record *r, const char *name)
{
    const char *text = json_string_value(json_object_get(r->body, name));
    return text != NULL ? text : "";
}

static enum mr_status put(struct batch_store *s, const struct batch_record *r, struct mr_error *err)
{
    char *body = json_dumps(r->body, JSON_COMPACT);
    if (body == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for '%s'", r->id);
    sqlite3_stmt *q = s->statement[SQL_PUT];
    sqlite3_bind_int(q, 1, (int)r->kind);
    sqlite3_bind_text(q, 2, r->id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 3, (int64_t)r->owner);
    sqlite3_bind_text(q, 4, r->tag, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 5, r->expires_s);
    sqlite3_bind_int64(q, 6, r->bytes);
    sqlite3_bind_text(q, 7, body, -1, SQLITE_STATIC);
    const enum mr_status status = batch_store_finish(s, SQL_PUT, err);
    free(body);
    return status;
}

enum mr_status batch_records_put(struct batch_store *s, const struct batch_record *record, int n, struct mr_error *err)
{
    pthread_mutex_lock(&s->lock);
    enum mr_status status = batch_store_finish(s, SQL_BEGIN, err);
    for (int i = 0; status == MR_OK && i < n; i++)
        status = put(s, &record[i], err);
    status = batch_store_settle(s, status, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void copy(char *out, size_t size, const unsigned char *text)
{
    snprintf(out, size, "%s", text != NULL ? (const char *)text : "");
}

static enum mr_status read_row(sqlite3_stmt *q, struct batch_record *out, struct mr_error *err)
{
    *out = (struct batch_record){.seq = sqlite3_column_int64(q, 0),
                                 .kind = (enum batch_record_kind)sqlite3_column_int(q, 1),
                                 .owner = (uint64_t)sqlite3_column_int64(q, 3),
                                 .expires_s = sqlite3_column_int64(q, 5),
                                 .bytes = sqlite3_column_int64(q, 6)};
    copy(out->id, sizeof out->id, sqlite3_column_text(q, 2));
    copy(out->tag, sizeof out->tag, sqlite3_column_text(q, 4));
    const unsigned char *body = sqlite3_column_text(q, 7);
    out->body = body != NULL ? json_loads((const char *)body, JSON_ALLOW_NUL, NULL) : NULL;
    return json_is_object(out->body) ? MR_OK : mr_fail(err, MR_BAD_FORMAT, "the state of '%s' is damaged", out->id);
}

/* The statement's first row; its lock is held. */
static enum mr_status read_first(struct batch_store *s, enum batch_statement k, struct batch_record *out, struct mr_error *err)
{
    sqlite3_stmt *q = s->statement[k];
    const int rc = sqlite3_step(q);
    enum mr_status status;
    *out = (struct batch_record){0};
    if (rc == SQLITE_ROW)
        status = read_row(q, out, err);
    else
        status = rc == SQLITE_DONE ? mr_fail(err, MR_NOT_FOUND, "no such object") : batch_store_fail(s, err);
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    if (status != MR_OK)
        batch_record_release(out);
    return status;
}

enum mr_status batch_records_get(struct batch_store *s, enum batch_record_kind kind, const char *id, struct batch_record *out,
                                 struct mr_error *err)
{
    pthread_mutex_lock(&s->lock);
    sqlite3_bind_int(s->statement[SQL_GET], 1, (int)kind);
    sqlite3_bind_text(s->statement[SQL_GET], 2, id, -1, SQLITE_STATIC);
    const enum mr_status status = read_first(s, SQL_GET, out, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum mr_status batch_records_oldest(struct batch_store *s, enum batch_record_kind kind, const char *tag, int64_t until_s,
                                    int64_t after, struct batch_record *out, struct mr_error *err)
{
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = s->statement[SQL_OLDEST];
    sqlite3_bind_int(q, 1, (int)kind);
    sqlite3_bind_text(q, 2, tag, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 3, until_s);
    sqlite3_bind_int64(q, 4, after);
    const enum mr_status status = read_first(s, SQL_OLDEST, out, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static enum mr_status list(struct batch_store *s, sqlite3_stmt *q, int limit, json_t *out, bool *more, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    int rc, n = 0;
    *more = false;
    while (status == MR_OK && (rc = sqlite3_step(q)) != SQLITE_DONE) {
        struct batch_record r;
        if (rc != SQLITE_ROW)
            return batch_store_fail(s, err);
        *more = n++ == limit;
        if (*more)
            break;
        status = read_row(q, &r, err);
        if (status == MR_OK && json_array_append(out, r.body) != 0)
            status = mr_fail(err, MR_NO_MEMORY, "no memory for the list");
        batch_record_release(&r);
    }
    return status;
}

enum mr_status batch_records_list(struct batch_store *s, const struct batch_listing *l, json_t *out, bool *more,
                                  struct mr_error *err)
{
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = s->statement[l->ascending ? SQL_LIST_UP : SQL_LIST_DOWN];
    sqlite3_bind_int(q, 1, (int)l->kind);
    sqlite3_bind_int64(q, 2, (int64_t)l->owner);
    sqlite3_bind_text(q, 3, l->tag, -1, SQLITE_STATIC);
    sqlite3_bind_int64(q, 4, l->after == 0 && !l->ascending ? INT64_MAX : l->after);
    sqlite3_bind_int(q, 5, l->limit + 1);
    const enum mr_status status = list(s, q, l->limit, out, more, err);
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum mr_status batch_records_remove(struct batch_store *s, const char *id, struct mr_error *err)
{
    pthread_mutex_lock(&s->lock);
    sqlite3_bind_text(s->statement[SQL_REMOVE], 1, id, -1, SQLITE_STATIC);
    const enum mr_status status = batch_store_finish(s, SQL_REMOVE, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum mr_status batch_records_sum(struct batch_store *s, enum batch_record_kind kind, const char *tag, const uint64_t *owner,
                                 struct batch_sum *out, struct mr_error *err)
{
    enum mr_status status = MR_OK;
    *out = (struct batch_sum){0};
    pthread_mutex_lock(&s->lock);
    sqlite3_stmt *q = s->statement[SQL_SUM];
    sqlite3_bind_int(q, 1, (int)kind);
    sqlite3_bind_text(q, 2, tag, -1, SQLITE_STATIC);
    sqlite3_bind_int(q, 3, owner == NULL);
    sqlite3_bind_int64(q, 4, owner != NULL ? (int64_t)*owner : 0);
    if (sqlite3_step(q) == SQLITE_ROW)
        *out = (struct batch_sum){.n = sqlite3_column_int64(q, 0), .bytes = sqlite3_column_int64(q, 1)};
    else
        status = batch_store_fail(s, err);
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    pthread_mutex_unlock(&s->lock);
    return status;
}
