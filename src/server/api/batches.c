/* batches.c: jobs made, told and cancelled; what is done with them is in batch/. */
#include "server/api/batches.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/api/json_fields.h"
#include "server/api/record_list.h"
#include "server/api_error.h"
#include "server/batch/batch_input.h"

enum {
    LIST_MAX = 100,
    LIST_DEFAULT = 20,
    METADATA_MAX = 16, /* members, as OpenAI has it */
    METADATA_KEY_MAX = 64,
    METADATA_VALUE_MAX = 512,
    WINDOW_MAX_S = 30 * 24 * 3600,
    KEEP_MIN_S = 3600,
    KEEP_MAX_S = 2592000,
    RETRY_MS = 60000
};

static void read_metadata(const struct json_fields *f, json_t **out)
{
    struct json_fields metadata;
    const char *name;
    json_t *value;
    if (!json_fields_object(f, "metadata", "metadata", &metadata))
        return;
    if (json_object_size(metadata.object) > METADATA_MAX)
        json_fields_fail(f, "metadata", "has more than %d members", METADATA_MAX);
    json_object_foreach((json_t *)(uintptr_t)metadata.object, name, value)
    {
        if (strlen(name) > METADATA_KEY_MAX || !json_is_string(value) || json_string_length(value) > METADATA_VALUE_MAX)
            json_fields_fail(f, "metadata", "must have names of up to %d bytes and texts of up to %d", METADATA_KEY_MAX,
                             METADATA_VALUE_MAX);
    }
    *out = (json_t *)(uintptr_t)metadata.object;
}

/* "24h", as OpenAI has it, and other numbers of days, hours, minutes or seconds; seconds, or 0: wrong. */
static int64_t window_seconds(const char *text)
{
    static const struct {
        const char *unit;
        int64_t seconds;
    } known[] = {{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}};
    char *end;
    const long n = strtol(text, &end, 10);
    if (*text < '1' || *text > '9' || n > WINDOW_MAX_S)
        return 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(end, known[i].unit) == 0)
            return n * known[i].seconds <= WINDOW_MAX_S ? n * known[i].seconds : 0;
    return 0;
}

struct asked {
    const char *input, *endpoint, *window;
    int64_t window_s, keep_s; /* keep_s 0: not said */
    json_t *metadata;         /* borrowed; NULL: none */
};

static void read_keep(const struct json_fields *f, struct asked *a)
{
    struct json_fields keep;
    const char *anchor = "";
    if (!json_fields_object(f, "output_expires_after", "output_expires_after", &keep))
        return;
    if (!json_fields_string(&keep, "anchor", &anchor) || strcmp(anchor, "created_at") != 0)
        json_fields_fail(&keep, "anchor", "must be 'created_at'");
    if (!json_fields_int(&keep, "seconds", KEEP_MIN_S, KEEP_MAX_S, &a->keep_s))
        json_fields_fail(&keep, "seconds", "is missing");
}

static void read_fields(const struct json_fields *f, struct asked *a)
{
    if (!json_fields_string(f, "input_file_id", &a->input))
        json_fields_fail(f, "input_file_id", "is missing");
    if (!json_fields_string(f, "endpoint", &a->endpoint))
        json_fields_fail(f, "endpoint", "is missing");
    else if (!batch_url_is_known(a->endpoint))
        json_fields_fail(f, "endpoint", "must be /v1/chat/completions, /v1/completions, /v1/responses or /v1/embeddings");
    if (!json_fields_string(f, "completion_window", &a->window))
        json_fields_fail(f, "completion_window", "is missing");
    else if ((a->window_s = window_seconds(a->window)) == 0)
        json_fields_fail(f, "completion_window", "must be a time such as '24h', of up to 30 days");
    read_keep(f, a);
    read_metadata(f, &a->metadata);
}

/* It is this client's, and of the right purpose. */
static void check_input(const struct exchange *x, struct batch_service *b, const struct json_fields *f, const char *id)
{
    struct batch_record r;
    struct mr_error err = {{0}};
    const enum mr_status status = batch_records_get(batch_service_store(b), BATCH_RECORD_FILE, id, &r, &err);
    if (status != MR_OK || r.owner != record_owner(x))
        json_fields_fail(f, "input_file_id", "no such file");
    else if (strcmp(r.tag, "batch") != 0)
        json_fields_fail(f, "input_file_id", "the file's purpose is '%s', and must be 'batch'", r.tag);
    if (status == MR_OK)
        batch_record_release(&r);
}

static json_t *describe(const struct asked *a, int64_t now)
{
    json_t *body =
        json_pack("{s:s, s:s, s:n, s:s, s:s, s:n, s:n, s:I, s:I, s:{s:i, s:i, s:i}, s:O?}", "object", "batch", "endpoint",
                  a->endpoint, "errors", "input_file_id", a->input, "completion_window", a->window, "output_file_id",
                  "error_file_id", "created_at", (json_int_t)now, "expires_at", (json_int_t)(now + a->window_s),
                  "request_counts", "total", 0, "completed", 0, "failed", 0, "metadata", a->metadata);
    static const char *const later[] = {"in_progress_at", "finalizing_at", "completed_at", "failed_at",
                                        "expired_at",     "cancelling_at", "cancelled_at"};
    for (size_t i = 0; body != NULL && i < sizeof later / sizeof *later; i++)
        json_object_set_new(body, later[i], json_null());
    if (a->keep_s > 0)
        json_object_set_new(body, "output_keep_s", json_integer(a->keep_s));
    return body;
}

/* What is ours alone stays here. */
static void show(struct batch_service *b, json_t *body)
{
    batch_service_show(b, body);
    json_object_del(body, "output_keep_s");
}

static void reply(struct exchange *x, struct batch_service *b, struct batch_record *r)
{
    show(b, r->body);
    exchange_reply_json(x, 200, r->body);
    r->body = NULL;
}

static void add(struct exchange *x, struct batch_service *b, const struct asked *a)
{
    const int64_t now = (int64_t)time(NULL);
    struct batch_record job = {.kind = BATCH_RECORD_JOB, .owner = record_owner(x), .expires_s = now + a->window_s};
    struct mr_error err = {{0}};
    job.body = describe(a, now);
    const enum mr_status status =
        job.body != NULL ? batch_service_add(b, &job, &err) : mr_fail(&err, MR_NO_MEMORY, "no memory for the batch");
    if (status == MR_OK) {
        reply(x, b, &job);
    } else if (status == MR_BUSY) {
        struct api_error e;
        api_error_set(&e, 429, "%s", err.message);
        e.retry_after_ms = RETRY_MS;
        exchange_fail(x, &e);
    } else {
        record_fail(x, status, &err, NULL);
    }
    batch_record_release(&job);
}

void batches_create(struct exchange *x)
{
    struct batch_service *b = record_service(x);
    struct api_error e = {0};
    struct asked a = {0};
    size_t n;
    if (b == NULL)
        return;
    const char *text = exchange_body(x, &n);
    json_t *body = json_fields_parse(text, n, &e);
    const struct json_fields f = {.object = body, .path = "", .error = &e};
    if (e.http == 0)
        read_fields(&f, &a);
    if (e.http == 0)
        check_input(x, b, &f, a.input);
    if (e.http != 0)
        exchange_fail(x, &e);
    else
        add(x, b, &a);
    json_decref(body);
}

void batches_list(struct exchange *x)
{
    struct batch_service *b = record_service(x);
    struct batch_listing l = {.kind = BATCH_RECORD_JOB, .tag = "", .limit = LIST_DEFAULT};
    if (b != NULL)
        record_list(x, b, &l, LIST_MAX, show);
}

void batches_get(struct exchange *x)
{
    struct batch_service *b = record_service(x);
    struct batch_record r;
    if (b != NULL && record_of_path(x, b, BATCH_RECORD_JOB, &r))
        reply(x, b, &r);
}

void batches_cancel(struct exchange *x)
{
    struct batch_service *b = record_service(x);
    struct batch_record r = {0};
    struct mr_error err = {{0}};
    struct api_error e = {0};
    if (b == NULL)
        return;
    const enum mr_status status = batch_service_cancel(b, exchange_parameter(x, "id"), record_owner(x), &r, &err);
    if (status == MR_OK) {
        reply(x, b, &r);
    } else if (status == MR_BAD_INPUT) {
        api_error_at(&e, 409, "id", "%s", err.message);
        exchange_fail(x, &e);
    } else {
        record_fail(x, status, &err, "id");
    }
    batch_record_release(&r);
}
