/* json_fields.c: members by type, faults by path. */
#include "server/api/json_fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/api_error.h"

static void set_message(struct api_error *e, int http, const char *param, const char *message)
{
    struct mr_error err;
    *e = (struct api_error){.http = http};
    snprintf(e->param, sizeof e->param, "%s", param);
    mr_fail(&err, MR_BAD_INPUT, *param != '\0' ? "%s: %s" : "%s%s", param, message); /* what a client wrote may stand in it */
    memcpy(e->message, err.message, sizeof e->message);
    mr_fail(&err, MR_BAD_INPUT, "%s", e->param);
    snprintf(e->param, sizeof e->param, "%.*s", (int)sizeof e->param - 1, err.message);
}

void api_error_at(struct api_error *e, int http, const char *param, const char *fmt, ...)
{
    char message[MR_ERROR_MAX];
    va_list args;
    if (e->http != 0)
        return;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    set_message(e, http, param, message);
}

/* Messages of the chat template's checks begin with the path of a field: its length, or 0. */
static size_t leading_path(const char *message)
{
    static const char *const field[] = {
        "messages", "tools", "tool_choice", "documents", "reasoning_effort", "chat_template_kwargs"};
    const size_t n = strspn(message, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.[]");
    for (size_t i = 0; message[n] == ':' && i < sizeof field / sizeof *field; i++) {
        const size_t length = strlen(field[i]);
        if (strncmp(message, field[i], length) == 0 && (n == length || message[length] == '[' || message[length] == '.'))
            return n;
    }
    return 0;
}

void api_error_take_status(struct api_error *e, enum mr_status status, const char *param, const struct mr_error *err)
{
    struct api_error plain;
    if (e->http != 0)
        return;
    api_error_of_status(&plain, status, err->message);
    set_message(e, plain.http, param, plain.message);
    const size_t n = *param == '\0' ? leading_path(e->message) : 0;
    if (n > 0)
        snprintf(e->param, sizeof e->param, "%.*s", (int)(n < sizeof e->param ? n : sizeof e->param - 1), e->message);
}

static void path_of(const struct json_fields *f, const char *name, char *out, size_t n)
{
    snprintf(out, n, "%s%s%s", f->path, *f->path != '\0' ? "." : "", name);
}

void json_fields_fail(const struct json_fields *f, const char *name, const char *fmt, ...)
{
    char path[128], message[MR_ERROR_MAX];
    va_list args;
    if (json_fields_failed(f))
        return;
    path_of(f, name, path, sizeof path);
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    set_message(f->error, 400, path, message);
}

const json_t *json_fields_get(const struct json_fields *f, const char *name)
{
    const json_t *v = json_object_get(f->object, name);
    return v == NULL || json_is_null(v) ? NULL : v;
}

/* The member, unless something failed before. */
static const json_t *take(const struct json_fields *f, const char *name)
{
    return json_fields_failed(f) ? NULL : json_fields_get(f, name);
}

bool json_fields_object(const struct json_fields *f, const char *name, const char *path, struct json_fields *out)
{
    const json_t *v = take(f, name);
    *out = (struct json_fields){.object = v, .path = path, .error = f->error};
    if (v != NULL && !json_is_object(v))
        json_fields_fail(f, name, "must be an object");
    return v != NULL && !json_fields_failed(f);
}

bool json_fields_bool(const struct json_fields *f, const char *name, bool *out)
{
    const json_t *v = take(f, name);
    if (v == NULL)
        return false;
    if (!json_is_boolean(v)) {
        json_fields_fail(f, name, "must be true or false");
        return false;
    }
    *out = json_is_true(v);
    return true;
}

bool json_number_int(const json_t *v, int64_t low, int64_t high, int64_t *out)
{
    int64_t n;
    if (json_is_integer(v)) {
        n = json_integer_value(v);
    } else {
        const double d = json_is_real(v) ? json_real_value(v) : NAN;
        if (!(fabs(d) < 9007199254740992.0) || floor(d) != d) /* 2^53: beyond it a double is no integer of its own */
            return false;
        n = (int64_t)d;
    }
    if (n < low || n > high)
        return false;
    *out = n;
    return true;
}

bool json_fields_int(const struct json_fields *f, const char *name, int64_t low, int64_t high, int64_t *out)
{
    const json_t *v = take(f, name);
    if (v == NULL)
        return false;
    if (json_number_int(v, low, high, out))
        return true;
    json_fields_fail(f, name, "must be an integer from %lld to %lld", (long long)low, (long long)high);
    return false;
}

bool json_fields_int32(const struct json_fields *f, const char *name, int32_t low, int32_t high, int32_t *out)
{
    int64_t n;
    if (!json_fields_int(f, name, low, high, &n))
        return false;
    *out = (int32_t)n;
    return true;
}

bool json_fields_float(const struct json_fields *f, const char *name, double low, double high, float *out)
{
    const json_t *v = take(f, name);
    if (v == NULL)
        return false;
    const double d = json_is_number(v) ? json_number_value(v) : NAN;
    if (!(d >= low && d <= high)) {
        json_fields_fail(f, name, "must be a number from %g to %g", low, high);
        return false;
    }
    *out = (float)d;
    return true;
}

bool json_fields_string(const struct json_fields *f, const char *name, const char **out)
{
    const json_t *v = take(f, name);
    if (v == NULL)
        return false;
    if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v)) {
        json_fields_fail(f, name, json_is_string(v) ? "must not hold a NUL byte" : "must be a string");
        return false;
    }
    *out = json_string_value(v);
    return true;
}

bool json_fields_array(const struct json_fields *f, const char *name, const json_t **out)
{
    const json_t *v = take(f, name);
    if (v == NULL)
        return false;
    if (!json_is_array(v)) {
        json_fields_fail(f, name, "must be a list");
        return false;
    }
    *out = v;
    return true;
}

json_t *json_fields_parse(const char *body, size_t n, struct api_error *error)
{
    json_error_t why;
    json_t *root = json_loadb(body != NULL ? body : "", n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (root == NULL && json_error_code(&why) == json_error_out_of_memory)
        api_error_at(error, 503, "", "no memory for the request");
    else if (root == NULL)
        api_error_at(error, 400, "", "the body is no JSON: %s, line %d, column %d", why.text, why.line, why.column);
    if (root != NULL && !json_is_object(root)) {
        api_error_at(error, 400, "", "the body must be a JSON object");
        json_decref(root);
        return NULL;
    }
    return root;
}
