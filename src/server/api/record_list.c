/* record_list.c: pages go on behind an id, so that what comes meanwhile moves nothing. */
#include "server/api/record_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/json_fields.h"
#include "server/api_error.h"
#include "server/keys.h"
#include "server/server.h"

struct batch_service *record_service(struct exchange *x)
{
    struct batch_service *b = exchange_server(x)->batches;
    struct api_error e;
    if (b != NULL)
        return b;
    api_error_set(&e, 403, "files and batches need a folder: batch.state_dir (--state-dir)");
    exchange_fail(x, &e);
    return NULL;
}

uint64_t record_owner(const struct exchange *x)
{
    const struct api_key *key = exchange_key(x);
    return key != NULL ? key->id : 0;
}

void record_fail(struct exchange *x, enum mr_status status, const struct mr_error *err, const char *param)
{
    struct api_error e;
    api_error_of_status(&e, status, err->message);
    if (status == MR_FULL || status == MR_IO) /* the disk */
        e.http = 503;
    if (param != NULL)
        snprintf(e.param, sizeof e.param, "%s", param);
    exchange_fail(x, &e);
}

bool record_of_path(struct exchange *x, struct batch_service *b, enum batch_record_kind kind, struct batch_record *out)
{
    const char *id = exchange_parameter(x, "id");
    struct mr_error err = {{0}};
    enum mr_status status = batch_records_get(batch_service_store(b), kind, id, out, &err);
    if (status == MR_OK && out->owner != record_owner(x)) {
        batch_record_release(out);
        status = MR_NOT_FOUND;
    }
    if (status == MR_NOT_FOUND)
        mr_fail(&err, status, "no such %s: %s", kind == BATCH_RECORD_FILE ? "file" : "batch", id);
    if (status != MR_OK)
        record_fail(x, status, &err, "id");
    return status == MR_OK;
}

/* ---- pages ---- */

static bool read_limit(const char *text, int max, int *out, struct api_error *e)
{
    char *end = NULL;
    const long n = text != NULL ? strtol(text, &end, 10) : 0;
    if (text == NULL)
        return true;
    if (end == text || *end != '\0' || n < 1 || n > max) {
        api_error_at(e, 400, "limit", "limit: must be a number from 1 to %d", max);
        return false;
    }
    *out = (int)n;
    return true;
}

static bool read_after(struct exchange *x, struct batch_service *b, struct batch_listing *l, struct api_error *e)
{
    const char *after = exchange_query(x, "after");
    struct batch_record r;
    struct mr_error err = {{0}};
    if (after == NULL)
        return true;
    const enum mr_status status = batch_records_get(batch_service_store(b), l->kind, after, &r, &err);
    const bool is_there = status == MR_OK && r.owner == l->owner;
    l->after = is_there ? r.seq : 0;
    if (status == MR_OK)
        batch_record_release(&r);
    if (!is_there)
        api_error_at(e, 400, "after", "after: no such object");
    return is_there;
}

static bool read_order(struct exchange *x, struct batch_listing *l, struct api_error *e)
{
    const char *order = exchange_query(x, "order");
    l->ascending = order != NULL && strcmp(order, "asc") == 0;
    if (order == NULL || l->ascending || strcmp(order, "desc") == 0)
        return true;
    api_error_at(e, 400, "order", "order: must be 'asc' or 'desc'");
    return false;
}

static json_t *id_at(const json_t *list, size_t i)
{
    json_t *id = json_object_get(json_array_get(list, i), "id");
    return id != NULL ? json_incref(id) : json_null();
}

void record_list(struct exchange *x, struct batch_service *b, struct batch_listing *l, int max_limit,
                 void (*each)(struct batch_service *b, json_t *body))
{
    struct api_error e = {0};
    struct mr_error err = {{0}};
    bool more;
    l->owner = record_owner(x);
    if (!read_limit(exchange_query(x, "limit"), max_limit, &l->limit, &e) || !read_order(x, l, &e) ||
        !read_after(x, b, l, &e)) {
        exchange_fail(x, &e);
        return;
    }
    json_t *list = json_array();
    const enum mr_status status = batch_records_list(batch_service_store(b), l, list, &more, &err);
    if (status != MR_OK) {
        json_decref(list);
        record_fail(x, status, &err, NULL);
        return;
    }
    const size_t n = json_array_size(list);
    for (size_t i = 0; each != NULL && i < n; i++)
        each(b, json_array_get(list, i));
    json_t *first = id_at(list, 0), *last = id_at(list, n > 0 ? n - 1 : 0);
    exchange_reply_json(x, 200,
                        json_pack("{s:s, s:o, s:o, s:o, s:b}", "object", "list", "data", list, "first_id", first, "last_id",
                                  last, "has_more", more));
}
