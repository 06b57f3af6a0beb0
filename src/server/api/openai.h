/* openai.h: what OpenAI's endpoints have in common. */
#ifndef SERVER_API_OPENAI_H
#define SERVER_API_OPENAI_H

#include "server/api/job.h"

#define SYSTEM_FINGERPRINT "millrace-" MILLRACE_VERSION

/* stream, stream_options, seed, stop and all else that chat and text completions share. logit_bias and the like included. */
void openai_read_common(struct job *j);
/* "stop", "length", "tool_calls". */
const char *openai_finish(const struct answer *a);
/* service_tier as the client gave it, or NULL. */
const char *openai_service_tier(const struct job *j);

/* messages: roles that OpenAI's API knows, at least one message. *out: a new request for job_render_chat, where "developer" is
 * "system"; NULL: the error is set. */
json_t *openai_chat_request(struct job *j);
/* The same for another request than the body; name: of its messages in the body. */
json_t *openai_known_roles(struct job *j, json_t *request, const char *name);
/* tool_choice in OpenAI's forms: "auto", ... or a function's name. */
const char *openai_tool_choice(struct job *j);

/* {"error": {...}} in a stream. */
void openai_stream_fail(struct job *j, const struct api_error *e, struct string_buffer *out);

void openai_chat_completions(struct exchange *x);
void openai_completions(struct exchange *x);

#endif
