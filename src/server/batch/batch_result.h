/* batch_result.h: one line of a batch's output or errors, as OpenAI's clients read it. */
#ifndef SERVER_BATCH_BATCH_RESULT_H
#define SERVER_BATCH_BATCH_RESULT_H

#include "server/batch/batch_input.h"
#include "server/batch/local_exchange.h"

/* Append {"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error": null}. job: its name. */
void batch_result_write(struct string_buffer *out, const char *job, int32_t line, const json_t *custom_id,
                        const struct local_reply *reply);
/* Append {"id", "custom_id", "response": null, "error": {"code", "message", "param", "line"}}. custom_id may be NULL. */
void batch_result_write_fault(struct string_buffer *out, const char *job, int32_t line, const json_t *custom_id,
                              const struct batch_fault *fault);

#endif
