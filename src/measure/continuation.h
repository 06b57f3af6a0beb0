/* continuation.h: log-likelihoods of continuations behind contexts. What two of them share at their beginning is computed
 * once. */
#ifndef MEASURE_CONTINUATION_H
#define MEASURE_CONTINUATION_H

#include "millrace.h"

struct continuation_scorer; /* opaque */

/* n_ctx: tokens of context and continuation together; what is longer loses its beginning. */
enum mr_status continuation_scorer_create(struct continuation_scorer **out, struct mr_model *model, int n_ctx,
                                          struct mr_error *err);
void continuation_scorer_free(struct continuation_scorer *s); /* takes NULL */

struct continuation_score {
    double log_p; /* sum over its tokens */
    int n_token;
    bool is_greedy; /* each of its tokens is the likeliest */
};

/* As lm-eval does it: blanks at the context's end belong to the continuation; both are tokenised together, and what is
 * behind as many tokens as the context alone has is the continuation, scored behind the tokens of the context alone. Control
 * tokens in the texts are such. */
enum mr_status continuation_score(struct continuation_score *out, struct continuation_scorer *s, const char *context,
                                  const char *continuation, struct mr_error *err);

#endif
