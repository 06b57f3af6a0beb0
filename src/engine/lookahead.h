/* lookahead.h: n-grams that a model makes by itself (Fu et al. 2024, arXiv:2402.02057).
 * Beside its own row an answer brings a window of guessed tokens into a step, one for each of the next positions. What the
 * model chooses behind each of them is the guess for the position after it in the next step: the tokens there settle, as in
 * Jacobi's iteration. Guesses of successive steps, read along the diagonal, are n-grams: each token was chosen behind the one
 * before it. They go into a pool, and are drafts when the answer comes to a token that one begins with.
 * The window's rows lie in a sequence of their own, which shares the answer's blocks for the step (windows.c).
 * Threads: called by the engine's. */
#ifndef ENGINE_LOOKAHEAD_H
#define ENGINE_LOOKAHEAD_H

#include <stdbool.h>

#include "engine/drafter.h"

enum {
    LOOKAHEAD_WINDOW = 8, /* tokens */
    LOOKAHEAD_ROWS = LOOKAHEAD_WINDOW + 1
};

struct lookahead; /* of one answer; opaque */

/* The source: drafts out of the pool. */
extern const struct drafter lookahead_drafter;

/* Tokens for the window of an answer token[n_token], at positions n_token and on; where nothing has been guessed yet some of
 * the answer's. */
void lookahead_window(struct lookahead *l, const int32_t *token, int n_token, int32_t out[LOOKAHEAD_WINDOW]);
/* pick[i]: what was chosen behind the window's i-th token. */
void lookahead_learn(struct lookahead *l, const int32_t pick[LOOKAHEAD_WINDOW]);

/* Whether windows are worth their rows, by what drafts brought of late. row_cost: of one, in units of a token; 0: not known. */
bool lookahead_pays(struct lookahead *l, double row_cost);
/* n_accepted drafts stayed in a step that had a window, or could have. */
void lookahead_observe(struct lookahead *l, int n_accepted);

#endif
