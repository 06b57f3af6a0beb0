/* anthropic.h: POST /v1/messages and /v1/messages/count_tokens. */
#ifndef SERVER_API_ANTHROPIC_H
#define SERVER_API_ANTHROPIC_H

#include "server/api/job.h"

void anthropic_messages(struct exchange *x);
void anthropic_count_tokens(struct exchange *x);

/* {"type": "error", "error": {"type", "message"}} */
void anthropic_write_error(const struct api_error *e, struct string_buffer *out);

/* The body's messages, system and tools, rendered into the job's prompt; its calls are set. */
void anthropic_read_chat(struct job *j);

#endif
