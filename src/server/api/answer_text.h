/* answer_text.h: one answer while it comes: events in, pieces of content, reasoning and calls out. */
#ifndef SERVER_API_ANSWER_TEXT_H
#define SERVER_API_ANSWER_TEXT_H

#include <jansson.h>

#include "base/string_buffer.h"
#include "text/tokenizer.h"

/* Tokens with their log probabilities, as far as they have not been written. */
struct token_score {
    int32_t token;
    float logprob;
    size_t top; /* of token_scores.top */
    int n_top;
};
struct token_scores {
    struct token_score *score;
    size_t n, capacity;
    struct mr_logprob *top;
    size_t n_top, top_capacity;
};
void token_scores_release(struct token_scores *s);
void token_scores_clear(struct token_scores *s); /* memory kept */
bool token_scores_add(struct token_scores *s, const struct mr_event *e);

struct answer {
    int index;                     /* of the reply's answers */
    int prompt;                    /* which prompt it answers */
    struct mr_call_parser *parser; /* NULL: all text is content */
    bool keeps_text, keeps_tokens, keeps_scores;
    struct string_buffer content, reasoning, arguments; /* arguments: of the call that is open */
    json_t *calls;                                      /* as in OpenAI's API; the last one may be cut */
    struct token_list tokens;
    struct token_scores scores;
    int32_t last_token;       /* -1: none */
    struct string_buffer raw; /* the bytes of all tokens, where keeps_raw */
    bool keeps_raw;
    const struct tokenizer *tokenizer;
    int n_reasoning; /* tokens that gave some of it */
    enum mr_finish finish;
    struct mr_usage usage;
    void *own; /* the dialect's, in the job's arena */
};

typedef void answer_piece_fn(void *context, struct answer *a, const struct mr_piece *piece);

enum mr_status answer_open(struct answer *a, const struct mr_calls *calls, struct mr_error *err);
void answer_close(struct answer *a);

/* Take an event of the answer; each piece is kept, and given to fn (unless NULL). */
enum mr_status answer_take(struct answer *a, const struct mr_event *e, answer_piece_fn *fn, void *context,
                           struct mr_error *err);

/* Functions were called, and all calls are complete: the one case in which an answer ends with "tool_calls". */
bool answer_has_called(const struct answer *a);
/* It ended with STOP, at which of the strings; NULL: at none of them. Needs keeps_raw. */
const char *answer_stop_word(const struct answer *a, const char *const *stop, int n_stop);
/* The name and id of a call, by its number in the answer. */
const char *answer_call_name(const struct answer *a, int call);
const char *answer_call_id(const struct answer *a, int call);

#endif
