/* files.c: the form of an upload checked, and files told, given and forgotten. */
#include "server/api/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/api/json_fields.h"
#include "server/api/record_list.h"
#include "server/exchange_state.h"
#include "server/server.h"
#include "server/settings.h"
#include "server/upload.h"

enum {
    LIST_MAX = 10000,
    KEEP_MIN_S = 3600, /* of expires_after, as OpenAI has it */
    KEEP_MAX_S = 2592000
};

static const char *const purposes[] = {"batch", "user_data", "assistants", "fine-tune", "vision", "evals"};

static bool check_purpose(const struct upload *u, struct api_error *e)
{
    for (size_t i = 0; i < sizeof purposes / sizeof *purposes; i++)
        if (strcmp(u->purpose, purposes[i]) == 0)
            return true;
    api_error_at(e, 400, "purpose", u->purpose[0] == '\0' ? "purpose: is missing" : "purpose: unknown; batches read 'batch'");
    return false;
}

/* When the file is forgotten; 0: never. */
static bool read_expiry(const struct upload *u, const struct server *s, int64_t now, int64_t *out, struct api_error *e)
{
    char *end;
    const int32_t keep = s->settings->batch_keep_s;
    *out = keep > 0 ? now + keep : 0;
    if (u->anchor[0] == '\0' && u->seconds[0] == '\0')
        return true;
    if (strcmp(u->anchor, "created_at") != 0) {
        api_error_at(e, 400, "expires_after.anchor", "expires_after.anchor: must be 'created_at'");
        return false;
    }
    const long seconds = strtol(u->seconds, &end, 10);
    if (end == u->seconds || *end != '\0' || seconds < KEEP_MIN_S || seconds > KEEP_MAX_S) {
        api_error_at(e, 400, "expires_after.seconds", "expires_after.seconds: must be a number from %d to %d", KEEP_MIN_S,
                     KEEP_MAX_S);
        return false;
    }
    *out = now + seconds;
    return true;
}

static bool check_room(const struct exchange *x, struct batch_service *b, const struct upload *u, struct api_error *e)
{
    const uint64_t owner = record_owner(x);
    const size_t max = exchange_server(x)->settings->batch_store_bytes;
    struct batch_sum sum;
    struct mr_error err = {{0}};
    if (batch_records_sum(batch_service_store(b), BATCH_RECORD_FILE, "", &owner, &sum, &err) != MR_OK) {
        api_error_set(e, 503, "%s", err.message);
        return false;
    }
    if ((uint64_t)(sum.bytes + u->bytes) <= max)
        return true;
    api_error_at(e, 413, "file", "file: all files together may have %zu bytes; delete some", max);
    return false;
}

static json_t *describe(const struct upload *u, int64_t now, int64_t expires)
{
    json_t *body = json_pack("{s:s, s:s, s:I, s:I, s:o, s:s, s:s}", "id", u->id, "object", "file", "bytes",
                             (json_int_t)u->bytes, "created_at", (json_int_t)now, "filename", json_string_nocheck(u->name),
                             "purpose", u->purpose, "status", "processed");
    if (expires > 0)
        json_object_set_new(body, "expires_at", json_integer(expires));
    return body;
}

/* The bytes first, then the record that tells of them: what is told of is there. */
static enum mr_status keep(const struct exchange *x, struct batch_service *b, struct upload *u, int64_t now, int64_t expires,
                           struct mr_error *err)
{
    struct batch_record r = {.kind = BATCH_RECORD_FILE, .owner = record_owner(x), .expires_s = expires, .bytes = u->bytes};
    memcpy(r.id, u->id, sizeof r.id);
    snprintf(r.tag, sizeof r.tag, "%.*s", BATCH_TAG_MAX, u->purpose);
    r.body = describe(u, now, expires);
    if (r.body == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the file");
    enum mr_status status = durable_file_commit(&u->file, err);
    if (status == MR_OK && (status = batch_records_put(batch_service_store(b), &r, 1, err)) != MR_OK)
        batch_service_remove_file(b, u->id, NULL);
    batch_record_release(&r);
    return status;
}

/* Names come as bytes; what is no UTF-8 would make no JSON. */
static bool check_name(const struct upload *u, struct api_error *e)
{
    json_t *name = json_string(u->name);
    json_decref(name);
    if (name == NULL)
        api_error_at(e, 400, "file", "file: its name is not UTF-8");
    return name != NULL;
}

void files_create(struct exchange *x)
{
    struct batch_service *b = record_service(x);
    struct api_error e = {0};
    struct mr_error err = {{0}};
    const int64_t now = (int64_t)time(NULL);
    int64_t expires = 0;
    if (b == NULL)
        return;
    if (!upload_end(x)) {
        exchange_fail(x, &x->refusal);
        return;
    }
    struct upload *u = x->upload;
    if (!u->has_file)
        api_error_at(&e, 400, "file", "file: is missing");
    else if (check_purpose(u, &e) && read_expiry(u, x->server, now, &expires, &e) && check_name(u, &e))
        check_room(x, b, u, &e);
    if (e.http != 0) {
        exchange_fail(x, &e);
        return;
    }
    const enum mr_status status = keep(x, b, u, now, expires, &err);
    if (status == MR_OK)
        exchange_reply_json(x, 200, describe(u, now, expires));
    else
        record_fail(x, status, &err, "file");
}

void files_list(struct exchange *x)
{
    struct batch_service *b = record_service(x);
    const char *purpose = exchange_query(x, "purpose");
    struct batch_listing l = {.kind = BATCH_RECORD_FILE, .tag = purpose != NULL ? purpose : "", .limit = LIST_MAX};
    if (b != NULL)
        record_list(x, b, &l, LIST_MAX, NULL);
}

void files_get(struct exchange *x)
{
    struct batch_service *b = record_service(x);
    struct batch_record r;
    if (b != NULL && record_of_path(x, b, BATCH_RECORD_FILE, &r))
        exchange_reply_json(x, 200, r.body);
}

void files_content(struct exchange *x)
{
    struct batch_service *b = record_service(x);
    struct batch_record r;
    struct string_buffer path;
    struct mr_error err;
    struct stat s;
    if (b == NULL || !record_of_path(x, b, BATCH_RECORD_FILE, &r))
        return;
    string_buffer_init(&path);
    batch_service_path(b, r.id, &path);
    const int fd = path.failed ? -1 : open(path.s, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &s) == 0) {
        exchange_reply_file(x, "application/octet-stream", fd, (int64_t)s.st_size);
    } else {
        mr_fail(&err, MR_IO, "cannot read '%s': %s", r.id, strerror(errno));
        if (fd >= 0)
            close(fd);
        record_fail(x, MR_IO, &err, "id");
    }
    string_buffer_release(&path);
    batch_record_release(&r);
}

void files_delete(struct exchange *x)
{
    struct batch_service *b = record_service(x);
    struct batch_record r;
    struct mr_error err = {{0}};
    struct api_error e = {0};
    if (b == NULL || !record_of_path(x, b, BATCH_RECORD_FILE, &r))
        return;
    const enum mr_status status = batch_service_remove_file(b, r.id, &err);
    if (status == MR_OK) {
        exchange_reply_json(x, 200, json_pack("{s:s, s:s, s:b}", "id", r.id, "object", "file", "deleted", 1));
    } else if (status == MR_BUSY) {
        api_error_at(&e, 409, "id", "%s", err.message);
        exchange_fail(x, &e);
    } else {
        record_fail(x, status, &err, "id");
    }
    batch_record_release(&r);
}
