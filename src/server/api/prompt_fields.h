/* prompt_fields.h: prompts that are no chat: text, token ids, or both mixed. */
#ifndef SERVER_API_PROMPT_FIELDS_H
#define SERVER_API_PROMPT_FIELDS_H

#include "server/api/job.h"

/* A field of the body (`prompt`): a text; a list of token ids, which may have texts between them: one prompt; a list of texts
 * or of such lists: several. Control tokens written in texts are control tokens. 400: a prompt has no tokens. */
void prompt_fields_read(struct job *j, const char *name);

/* The ids of a text, appended. special: control tokens written in it become their ids; bos: what the model puts in front. */
void prompt_add_text(struct job *j, const char *name, const char *s, size_t n, bool special, bool bos, struct token_list *ids);

/* The text that the i-th prompt has, appended. */
void prompt_write_text(const struct job *j, int i, struct string_buffer *out);

#endif
