/* model_drafter.h: guesses that a model makes: a smaller one with a cache of its own, or the first layers of the model whose
 * answers they are, in that one's cache.
 * All answers of a step are asked about at once: one forward pass for each token of depth, with a row for each answer. A guess
 * is drawn as the engine draws tokens, by the same noise of (seed, sample, position, token), so that two models which agree
 * about the distribution agree about the token (Gumbel coupling; Daliri et al. 2025, arXiv:2408.07978).
 * A model of its own must have seen the tokens before: it catches up in parts, as many rows a step as a part of the step's time
 * has room for, and says nothing meanwhile. Its cache shares prefixes by the keys of the first model's.
 * Threads: called by the engine's. */
#ifndef ENGINE_MODEL_DRAFTER_H
#define ENGINE_MODEL_DRAFTER_H

#include "engine/draft_model.h"
#include "engine/drafter.h"

struct mr_engine;
struct model_drafter; /* opaque */

/* draft: the model that guesses, for a cache of as many tokens as the engine's; NULL: the engine's own first n_layer layers. e
 * has its cache, and options, already. */
enum mr_status model_drafter_create(struct model_drafter **out, struct mr_engine *e, const struct draft_model *draft,
                                    int n_layer, struct mr_error *err);
void model_drafter_free(struct model_drafter *d); /* takes NULL */

/* As struct drafter says. Blocks come from what is free or only cached; where there are none less is guessed. */
void model_drafter_propose(void *model_drafter, struct draft_ask *ask, int n_ask);
double model_drafter_token_us(void *model_drafter);
/* The sequence is leaving the engine's cache: give back what is kept for it. */
void model_drafter_leave(struct model_drafter *d, const struct sequence *s);

/* Of the cache of its own, all of it and what is held for answers; 0 without one. */
size_t model_drafter_kv_bytes(const struct model_drafter *d);
size_t model_drafter_kv_bytes_in_use(const struct model_drafter *d);

#endif
