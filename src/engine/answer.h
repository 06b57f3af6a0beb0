/* answer.h: the text of one answer: tokens in, bytes out that are whole characters and no part of a stop string. */
#ifndef ENGINE_ANSWER_H
#define ENGINE_ANSWER_H

#include "engine/request_record.h"
#include "text/detokenizer.h"

struct answer {
    struct detokenizer detokenizer;
    struct stop_matcher *stop; /* NULL: no stop strings */
    size_t n_skip;             /* bytes at the beginning that belong to the prompt */
    struct string_buffer decoded;
    struct string_buffer text; /* what the last call made certain */
};

/* For the stop strings of the request. On failure nothing is left to release. */
enum mr_status answer_start(struct answer *a, const struct tokenizer *t, const struct request_record *r, struct mr_error *err);
void answer_release(struct answer *a);

/* a->text becomes what token id makes certain. *stopped: a stop string is complete, the text ends before it. */
enum mr_status answer_push(struct answer *a, int32_t id, bool *stopped, struct mr_error *err);

/* The answer ended without a stop string: what was held back is appended to a->text. */
enum mr_status answer_end(struct answer *a, struct mr_error *err);

#endif
