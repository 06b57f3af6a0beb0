/* upload.c: fields of the form are small and kept; the file goes on. */
#include "server/upload.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "server/api/json_fields.h"
#include "server/api_error.h"
#include "server/batch/batch_service.h"
#include "server/exchange_state.h"
#include "server/server.h"
#include "server/settings.h"

enum {
    PIECE_BYTES = 64 << 10
};

size_t upload_body_max(const struct exchange *x)
{
    const size_t file = x->server->settings->batch_file_bytes;
    return file < SIZE_MAX - UPLOAD_FORM_BYTES ? file + UPLOAD_FORM_BYTES : file;
}

static void fail_disk(struct exchange *x, const struct mr_error *err)
{
    api_error_set(&x->refusal, 503, "file: %s", err->message);
}

static bool begin_file(struct upload *u, const char *name)
{
    struct string_buffer path;
    struct mr_error err = {{0}};
    if (u->has_file) {
        api_error_at(&u->x->refusal, 400, "file", "file: stands twice");
        return false;
    }
    u->has_file = true;
    if (name == NULL || strlen(name) > UPLOAD_VALUE_MAX) {
        api_error_at(&u->x->refusal, 400, "file", "file: must be a file with a name of up to %d bytes", UPLOAD_VALUE_MAX);
        return false;
    }
    memcpy(u->name, name, strlen(name) + 1);
    batch_service_new_id(u->id, "file-");
    string_buffer_init(&path);
    batch_service_path(u->x->server->batches, u->id, &path);
    const enum mr_status status =
        path.failed ? mr_fail(&err, MR_NO_MEMORY, "no memory") : durable_file_open(&u->file, path.s, &err);
    string_buffer_release(&path);
    if (status != MR_OK)
        fail_disk(u->x, &err);
    return status == MR_OK;
}

static bool take_file(struct upload *u, const char *name, const char *bytes, uint64_t at, size_t n)
{
    struct mr_error err = {{0}};
    const size_t max = u->x->server->settings->batch_file_bytes;
    if ((!u->has_file || (at == 0 && u->bytes > 0)) && !begin_file(u, name))
        return false;
    if (n > max - (size_t)u->bytes) {
        api_error_at(&u->x->refusal, 413, "file", "file: has more than %zu bytes", max);
        return false;
    }
    if (durable_file_add(&u->file, bytes, n, &err) != MR_OK) {
        fail_disk(u->x, &err);
        return false;
    }
    u->bytes += (int64_t)n;
    return true;
}

static bool take_field(struct upload *u, char *out, const char *name, const char *bytes, uint64_t at, size_t n)
{
    if (at > UPLOAD_VALUE_MAX || n > UPLOAD_VALUE_MAX - at || memchr(bytes, '\0', n) != NULL) {
        api_error_at(&u->x->refusal, 400, name, "%s: must be a text of up to %d bytes", name, UPLOAD_VALUE_MAX);
        return false;
    }
    memcpy(out + at, bytes, n);
    out[at + n] = '\0';
    return true;
}

static enum MHD_Result take(void *context, enum MHD_ValueKind kind, const char *key, const char *name, const char *type,
                            const char *encoding, const char *bytes, uint64_t at, size_t n)
{
    struct upload *u = context;
    (void)kind;
    (void)type;
    (void)encoding;
    bool ok = true;
    if (key == NULL)
        return MHD_YES;
    if (strcmp(key, "file") == 0)
        ok = take_file(u, name, bytes, at, n);
    else if (strcmp(key, "purpose") == 0)
        ok = take_field(u, u->purpose, key, bytes, at, n);
    else if (strcmp(key, "expires_after[anchor]") == 0)
        ok = take_field(u, u->anchor, key, bytes, at, n);
    else if (strcmp(key, "expires_after[seconds]") == 0)
        ok = take_field(u, u->seconds, key, bytes, at, n);
    return ok ? MHD_YES : MHD_NO;
}

static bool begin(struct exchange *x)
{
    const char *type = exchange_header(x, "Content-Type");
    if (x->server->batches == NULL) {
        api_error_set(&x->refusal, 403, "files and batches need a folder: batch.state_dir (--state-dir)");
        return false;
    }
    struct upload *u = type != NULL && strncasecmp(type, "multipart/form-data", 19) == 0 ? mem_zero_array(1, sizeof *u) : NULL;
    if (u != NULL) {
        u->x = x;
        u->file.fd = -1;
        x->upload = u;
        u->form = MHD_create_post_processor(x->connection, PIECE_BYTES, take, u);
    }
    if (u == NULL || u->form == NULL)
        api_error_set(&x->refusal, 400, "a file is sent as multipart/form-data with a boundary");
    return x->refusal.http == 0;
}

void upload_take(struct exchange *x)
{
    if (x->upload == NULL && !begin(x))
        return;
    if (MHD_post_process(x->upload->form, x->body.s, x->body.n) != MHD_YES && x->refusal.http == 0)
        api_error_set(&x->refusal, 400, "the form is damaged");
}

bool upload_end(struct exchange *x)
{
    if (x->body.n > 0 || x->upload == NULL)
        upload_take(x);
    if (x->refusal.http != 0)
        return false;
    struct MHD_PostProcessor *form = x->upload->form;
    x->upload->form = NULL;
    if (MHD_destroy_post_processor(form) != MHD_YES && x->refusal.http == 0)
        api_error_set(&x->refusal, 400, "the form is cut");
    return x->refusal.http == 0;
}

void upload_free(struct upload *u)
{
    if (u == NULL)
        return;
    if (u->form != NULL)
        MHD_destroy_post_processor(u->form);
    durable_file_discard(&u->file);
    free(u);
}
