/* chat_prompt.h: messages to the token ids of a prompt, by the model's chat template or another one.
 * What lies between two control tokens is tokenised once: the messages of a chat that goes on are found again, as ids
 * (text/segment_cache.h), in 16 MiB at most. The template is rendered every time, since what it writes may depend on all
 * messages. Threads: any. */
#ifndef ENGINE_CHAT_PROMPT_H
#define ENGINE_CHAT_PROMPT_H

#include "millrace.h"
#include "text/chat_template.h"

struct chat_prompt; /* a compiled template for one model */

/* source: the template's text; NULL: the model's own. NOT_FOUND: the model has none. BAD_INPUT: what is wrong with the
 * template, and where. */
enum mr_status chat_prompt_create(struct chat_prompt **out, const struct mr_model *model, const char *source, size_t n,
                                  struct mr_error *err);
void chat_prompt_free(struct chat_prompt *p); /* takes NULL */

const char *chat_prompt_template(const struct chat_prompt *p); /* its text, borrowed */

/* Append the ids of the rendered messages (an array) to *ids; the template opens the answer. tools: an array as in OpenAI's
 * API, for the template's variable of that name; NULL: none. now: seconds since the epoch. What a caller wrote never becomes a
 * control token, unless match_control is true. BAD_INPUT: the template's own message. */
enum mr_status chat_prompt_render(const struct chat_prompt *p, const json_t *messages, const json_t *tools, int64_t now,
                                  bool match_control, struct token_list *ids, struct mr_error *err);

/* The same for a whole request (chat_renderer_render says what is read from it). */
enum mr_status chat_prompt_render_request(const struct chat_prompt *p, const json_t *request, int64_t now, bool match_control,
                                          struct token_list *ids, struct mr_error *err);
/* Its text alone, appended to *text. */
enum mr_status chat_prompt_text(const struct chat_prompt *p, const json_t *request, int64_t now, struct string_buffer *text,
                                struct mr_error *err);

/* The prompt ends with the marker that opens the reasoning: the answer goes on inside of it. */
bool chat_prompt_opens_reasoning(const struct chat_prompt *p, const struct token_list *ids);

struct segment_cache_stats;
void chat_prompt_cache_stats(const struct chat_prompt *p, struct segment_cache_stats *out);

#endif
