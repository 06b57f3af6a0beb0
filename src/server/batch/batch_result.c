/* batch_result.c: the reply's body stands in its line as the endpoint wrote it. */
#include "server/batch/batch_result.h"

#include <string.h>

#include "server/api/json_text.h"

enum {
    NAME_PART = 24 /* of the job's name, in the ids of its lines */
};

static void begin(struct string_buffer *out, const char *job, int32_t line, const json_t *custom_id)
{
    static const char prefix[] = "batch_"; /* of a server's jobs */
    const char *name = strncmp(job, prefix, sizeof prefix - 1) == 0 ? job + sizeof prefix - 1 : job;
    string_buffer_printf(out, "{\"id\":\"batch_req_%.*s_%d\",\"custom_id\":", NAME_PART, name, (int)line);
    if (custom_id != NULL)
        json_text_string(out, json_string_value(custom_id), json_string_length(custom_id));
    else
        string_buffer_puts(out, "null");
}

void batch_result_write(struct string_buffer *out, const char *job, int32_t line, const json_t *custom_id,
                        const struct local_reply *reply)
{
    begin(out, job, line, custom_id);
    string_buffer_printf(out, ",\"response\":{\"status_code\":%d,\"request_id\":\"%s\",\"body\":", reply->http, reply->id);
    const size_t at = out->n;
    string_buffer_add(out, reply->body, reply->n);
    for (size_t i = at; i < out->n; i++) /* between JSON's tokens: in its strings they are escaped */
        if (out->s[i] == '\n' || out->s[i] == '\r')
            out->s[i] = ' ';
    string_buffer_puts(out, "},\"error\":null}");
}

void batch_result_write_fault(struct string_buffer *out, const char *job, int32_t line, const json_t *custom_id,
                              const struct batch_fault *fault)
{
    begin(out, job, line, custom_id);
    string_buffer_printf(out, ",\"response\":null,\"error\":{\"code\":\"%s\",\"message\":", fault->code);
    json_text_string(out, fault->message, strlen(fault->message));
    if (fault->param != NULL)
        string_buffer_printf(out, ",\"param\":\"%s\"", fault->param);
    string_buffer_printf(out, ",\"line\":%d}}", (int)line);
}
