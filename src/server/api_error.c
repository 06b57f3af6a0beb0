/* api_error.c: errors as clients read them. */
#include "server/api_error.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int http_of_status(enum mr_status status)
{
    switch (status) {
    case MR_BAD_INPUT:
    case MR_NO_SUPPORT:
        return 400;
    case MR_NOT_FOUND:
        return 404;
    case MR_BUSY:
    case MR_FULL:
        return 429;
    case MR_NO_MEMORY:
        return 503;
    default:
        return 500;
    }
}

void api_error_of_status(struct api_error *out, enum mr_status status, const char *message)
{
    api_error_set(out, http_of_status(status), "%s", message != NULL && *message != '\0' ? message : mr_status_text(status));
}

void api_error_set(struct api_error *out, int http, const char *fmt, ...)
{
    struct mr_error clean;
    va_list args;
    va_start(args, fmt);
    mr_fail_va(&clean, MR_BAD_INPUT, fmt, args);
    va_end(args);
    *out = (struct api_error){.http = http};
    memcpy(out->message, clean.message, sizeof out->message);
}

const char *api_error_type(const struct api_error *e)
{
    static const struct {
        int http;
        const char *type;
    } known[] = {
        {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
        {429, "rate_limit_error"},     {503, "overloaded_error"},
    };
    for (size_t i = 0; e->type == NULL && i < sizeof known / sizeof *known; i++)
        if (e->http == known[i].http)
            return known[i].type;
    if (e->type != NULL)
        return e->type;
    return e->http >= 500 ? "server_error" : "invalid_request_error";
}

void api_error_write(const struct api_error *e, struct string_buffer *out)
{
    json_t *error = json_pack("{s:{s:s, s:s, s:s?, s:s?}}", "error", "message", e->message, "type", api_error_type(e), "param",
                              e->param[0] != '\0' ? e->param : NULL, "code", e->code);
    if (e->n_ctx > 0) { /* llama-server's words */
        json_t *inner = json_object_get(error, "error");
        json_object_set_new(inner, "n_prompt_tokens", json_integer(e->n_prompt));
        json_object_set_new(inner, "n_ctx", json_integer(e->n_ctx));
    }
    char *text = error != NULL ? json_dumps(error, JSON_COMPACT) : NULL;
    json_decref(error);
    string_buffer_puts(out, text != NULL ? text : "{\"error\":{\"message\":\"no memory\",\"type\":\"server_error\"}}");
    free(text);
}
