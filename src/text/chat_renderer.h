/* chat_renderer.h: from the messages of a request to the runs of text that the tokenizer reads: a chat template, what it
 * takes, and the model's special tokens.
 * Threads: immutable after creation; renders may run at once. */
#ifndef TEXT_CHAT_RENDERER_H
#define TEXT_CHAT_RENDERER_H

#include "text/chat_messages.h"

struct chat_renderer; /* opaque */

/* Compile the template and find out what it takes. t gives bos_token and eos_token; NULL: both are empty.
 * BAD_INPUT: the template is wrong, with the line; its model can still complete plain text. */
enum mr_status chat_renderer_create(struct chat_renderer **out, const char *source, size_t n, const struct tokenizer *t,
                                    struct mr_error *err);
void chat_renderer_free(struct chat_renderer *r); /* takes NULL */

/* Render a request in the OpenAI form. Read from it: messages, tools, documents, reasoning_effort,
 * add_generation_prompt (true where it is missing), and chat_template_kwargs, whose members become variables of their
 * own. BAD_INPUT names the field, or holds the template's own text. */
enum mr_status chat_renderer_render(const struct chat_renderer *r, const json_t *request, int64_t now, struct rendered *out,
                                    struct mr_error *err);

#endif
