/* json_fields.h: typed reading of the members of a JSON object that a client sent. The first fault is kept, with the member's
 * path and what it must be, and later reads change nothing, so that a reader checks once at the end.
 * A member that is null counts as absent. Members that nobody reads are ignored. */
#ifndef SERVER_API_JSON_FIELDS_H
#define SERVER_API_JSON_FIELDS_H

#include "server/exchange.h"

struct json_fields {
    const json_t *object;
    const char *path;        /* of the object: "options"; "": the body itself */
    struct api_error *error; /* its http is 0 while all is well */
};

/* A member of f that is an object, absent (then *out has no members) or wrong. Whether it is there. path: of the member, kept.
 */
bool json_fields_object(const struct json_fields *f, const char *name, const char *path, struct json_fields *out);

/* NULL: absent. */
const json_t *json_fields_get(const struct json_fields *f, const char *name);

/* Each: whether the member is there and right; *out changes only then. */
bool json_fields_bool(const struct json_fields *f, const char *name, bool *out);
bool json_fields_int(const struct json_fields *f, const char *name, int64_t low, int64_t high, int64_t *out);
bool json_fields_int32(const struct json_fields *f, const char *name, int32_t low, int32_t high, int32_t *out);
bool json_fields_float(const struct json_fields *f, const char *name, double low, double high, float *out);
bool json_fields_string(const struct json_fields *f, const char *name, const char **out); /* borrowed; no NUL byte in it */
bool json_fields_array(const struct json_fields *f, const char *name, const json_t **out);

/* 400: "PATH.NAME: MESSAGE". */
void json_fields_fail(const struct json_fields *f, const char *name, const char *fmt, ...) MR_PRINTF(3, 4);
/* The same for another place: param is the whole path. */
void api_error_at(struct api_error *e, int http, const char *param, const char *fmt, ...) MR_PRINTF(4, 5);
/* What the engine said: http by status. */
void api_error_take_status(struct api_error *e, enum mr_status status, const char *param, const struct mr_error *err);

static inline bool json_fields_failed(const struct json_fields *f) { return f->error->http != 0; }

/* The body as an object, json_decref it; NULL: error is set. Duplicate members and bytes that are not UTF-8 are refused; a
 * string may hold NUL bytes. */
json_t *json_fields_parse(const char *body, size_t n, struct api_error *error);

/* An integer, also written as 5.0; false: none, or out of range. */
bool json_number_int(const json_t *v, int64_t low, int64_t high, int64_t *out);

#endif
