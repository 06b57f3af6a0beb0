/* sse.h: frames of a text/event-stream (WHATWG HTML, 9.2). */
#ifndef SERVER_API_SSE_H
#define SERVER_API_SSE_H

#include <jansson.h>

#include "base/string_buffer.h"

#define SSE_TYPE       "text/event-stream"
#define SSE_KEEP_ALIVE ": keep-alive\n\n"

/* "data: VALUE", with "event: NAME" in front unless it is NULL. Takes the reference. */
void sse_write(struct string_buffer *out, const char *event, json_t *value);

#endif
