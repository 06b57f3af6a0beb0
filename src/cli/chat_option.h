/* chat_option.h: the chat template that a command uses: --chat-template, else the model's own. */
#ifndef CLI_CHAT_OPTION_H
#define CLI_CHAT_OPTION_H

#include "text/chat_prompt.h"

/* option: a built-in name or a file, NULL: not given. t: the model's tokenizer, NULL: no model.
 * NOT_FOUND: there is no template; the message names --chat-template. */
enum mr_status chat_option_open(struct chat_prompt **out, const char *option, const struct tokenizer *t, struct mr_error *err);

#endif
