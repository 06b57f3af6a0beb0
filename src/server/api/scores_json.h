/* scores_json.h: log probabilities in OpenAI's two forms. Tokens are written by their own bytes: what is no character of its
 * own becomes U+FFFD in `token`, while `bytes` has it as it is. */
#ifndef SERVER_API_SCORES_JSON_H
#define SERVER_API_SCORES_JSON_H

#include "server/api/answer_text.h"

/* Chat: {"content": [{token, logprob, bytes, top_logprobs}], "refusal": null}. */
void scores_write_chat(const struct token_scores *s, const struct tokenizer *t, struct string_buffer *out);
/* The members of that list alone; with_id: with the tokens' ids, as llama-server has them. */
void scores_write_list(const struct token_scores *s, const struct tokenizer *t, bool with_id, struct string_buffer *out);

/* Completions: {tokens, token_logprobs, top_logprobs, text_offset}. prompt: with its scores in front, the first token having
 * none; NULL: none. *offset: characters before, and with these tokens. */
void scores_write_completion(const struct token_list *prompt, const struct token_scores *prompt_scores,
                             const struct token_scores *s, const struct tokenizer *t, size_t *offset,
                             struct string_buffer *out);

#endif
