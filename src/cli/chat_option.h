/* chat_option.h: the chat template that --chat-template names. */
#ifndef CLI_CHAT_OPTION_H
#define CLI_CHAT_OPTION_H

#include "base/string_buffer.h"

/* Append the source of a built-in template or of a file. NOT_FOUND: name is neither. */
enum mr_status chat_option_read(struct string_buffer *out, const char *name, struct mr_error *err);

/* NOT_FOUND, with what to do about it: the model has no template of its own, and none is given. */
enum mr_status chat_option_missing(struct mr_error *err);

#endif
