/* api_error.h: errors as clients read them. */
#ifndef SERVER_API_ERROR_H
#define SERVER_API_ERROR_H

#include "base/string_buffer.h"
#include "server/exchange.h"

/* By a status of the engine's, as exchange_fail_status does. err may be NULL. */
void api_error_of_status(struct api_error *out, enum mr_status status, const char *message);
/* By an HTTP status and a message of printf's kind. */
void api_error_set(struct api_error *out, int http, const char *fmt, ...) MR_PRINTF(3, 4);

const char *api_error_type(const struct api_error *e); /* its own, or what fits its status: "invalid_request_error" */

/* {"error": {"message", "type", "param", "code"}}, as OpenAI's clients read it. */
void api_error_write(const struct api_error *e, struct string_buffer *out);

#endif
