/* end_tokens.h: tokens known by their spelling, for files that do not say what they are. */
#ifndef TEXT_END_TOKENS_H
#define TEXT_END_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a published chat format ends a turn or a text with this token. */
bool end_token_is_known(const char *spelling, size_t n);

/* Whether a token is spelled like a turn marker: "<|...", "...|>", "<｜...｜>". A file may call such a token user-defined
 * although a chat format gives it meaning (Command R's <|START_OF_TURN_TOKEN|>). */
bool is_marker(const char *spelling, size_t n);

#endif
