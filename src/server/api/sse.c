/* sse.c: an event and its data on one line each. */
#include "server/api/sse.h"

#include "server/api/json_text.h"

void sse_write(struct string_buffer *out, const char *event, json_t *value)
{
    if (event != NULL)
        string_buffer_printf(out, "event: %s\n", event);
    string_buffer_puts(out, "data: ");
    json_text_value(out, value);
    string_buffer_puts(out, "\n\n");
}
