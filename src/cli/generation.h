/* generation.h: one request from its prompt to its end, for the commands. */
#ifndef CLI_GENERATION_H
#define CLI_GENERATION_H

#include <jansson.h>
#include <stdio.h>

#include "base/string_buffer.h"
#include "millrace.h"
#include "text/tokenizer.h"

struct generation {
    struct string_buffer text;
    struct token_list tokens; /* the generated ones, the one that ended it included */
    enum mr_finish finish;
    struct mr_usage usage;
    json_t *prompt_logprobs; /* [{"token", "logprob", "top"}]; NULL: none were asked for */
};

void generation_init(struct generation *g);
void generation_release(struct generation *g);

/* Run the request alone on the engine. The text goes to stream as it comes (NULL: nowhere). Ctrl-C cancels it: finish is
 * then MR_FINISH_CANCELLED and the interrupt counts as seen. */
enum mr_status generation_run(struct generation *g, struct mr_engine *engine, const struct mr_request *request, FILE *stream,
                              struct mr_error *err);

/* One line: time to first token, tokens/s of prompt and answer. */
void generation_print_stats(const struct generation *g, FILE *out);

/* {"text", "tokens", "finish_reason", "timings": {...}}, "prompt_logprobs" where asked for; NULL: no memory. */
json_t *generation_json(const struct generation *g);

#endif
