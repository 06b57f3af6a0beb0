/* sampling_fields.h: the fields that say how an answer's tokens are chosen and where it ends, by the names that OpenAI,
 * llama-server and vLLM give them (docs/api.md). */
#ifndef SERVER_API_SAMPLING_FIELDS_H
#define SERVER_API_SAMPLING_FIELDS_H

#include "base/arena.h"
#include "server/api/json_fields.h"
#include "text/tokenizer.h"

/* What the fields of f change in r. Lists lie in the arena, strings in the JSON value. t: of the model. */
void sampling_fields_read(const struct json_fields *f, const struct tokenizer *t, struct arena *arena, struct mr_request *r);

/* seed; absent or -1: another one each time. */
void sampling_read_seed(const struct json_fields *f, struct mr_request *r);

/* logit_bias in its three forms: {"15043": -1}, [[15043, -1], ["Hello", false]]. */
void bias_fields_read(const struct json_fields *f, const struct tokenizer *t, struct arena *arena, struct mr_request *r);

/* A string or a list of at most `most` strings of 1 to `most_bytes` bytes, as a list in the arena. */
void string_list_read(const struct json_fields *f, const char *name, int32_t most, size_t most_bytes, struct arena *arena,
                      const char *const **out, int32_t *n);
/* Token ids. */
void token_list_read(const struct json_fields *f, const char *name, int32_t most, int32_t n_vocab, struct arena *arena,
                     const int32_t **out, int32_t *n);

/* What the answer must obey, from the one of response_format, structured_outputs, guided_*, grammar, json_schema and format
 * that is there; two are refused. *name: that field, NULL: none. The text lies in the arena. */
void constraint_fields_read(const struct json_fields *f, struct arena *arena, struct mr_request *r, const char **name);
/* A JSON value as the schema: its text. */
void constraint_set_schema(const struct json_fields *f, const char *name, const json_t *schema, struct arena *arena,
                           struct mr_request *r);

/* 400 for a field that would change the answer and that this server does not have, unless its value changes nothing. */
void refused_fields_check(const struct json_fields *f);

#endif
