/* ollama.h: Ollama's own API, /api/... */
#ifndef SERVER_API_OLLAMA_H
#define SERVER_API_OLLAMA_H

#include "server/api/job.h"

void ollama_chat(struct exchange *x);
void ollama_generate(struct exchange *x);
void ollama_tags(struct exchange *x);
void ollama_show(struct exchange *x);
void ollama_ps(struct exchange *x);
void ollama_version(struct exchange *x);

/* {"error": "..."} */
void ollama_write_error(const struct api_error *e, struct string_buffer *out);

/* A time as Ollama writes it: "2026-01-02T03:04:05Z". */
void ollama_time(char out[32], int64_t seconds);
/* `options`, `format`, `think`, `stream` (on unless it says otherwise) and `keep_alive`. */
void ollama_read_common(struct job *j);
/* think, as chat templates know it; NULL: not there. */
json_t *ollama_template_arguments(struct job *j);

#endif
