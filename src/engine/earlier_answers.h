/* earlier_answers.h: answers to earlier prompts, found again by prompts that are alike: what answered a question is likely to
 * be much of what answers nearly the same one (inference with reference, Yang et al. 2023, arXiv:2304.04487). How alike two
 * prompts are is read off their sketches: the share of runs of four tokens that both have, estimated by MinHash (Broder 1997)
 * with one hash function and the least value in each of 64 bins (Li, Owen, Zhang 2012, arXiv:1208.1259): microseconds for a
 * prompt. Bounded in bytes; what was not used for longest goes first. Threads: owned by the engine's. */
#ifndef ENGINE_EARLIER_ANSWERS_H
#define ENGINE_EARLIER_ANSWERS_H

#include "cache/prefix_index.h"

enum {
    SKETCH_BINS = 64,
    EARLIER_TOKENS_MIN = 16, /* of an answer that is worth keeping */
    EARLIER_ANSWERS_MAX = 4096
};

struct prompt_sketch {
    uint32_t least[SKETCH_BINS]; /* UINT32_MAX: the bin is empty */
};

void prompt_sketch_make(struct prompt_sketch *out, const int32_t *token, int n);
/* 0 to 1. */
float prompt_sketch_likeness(const struct prompt_sketch *a, const struct prompt_sketch *b);

struct earlier_answer; /* opaque */

struct earlier_answers {
    size_t capacity, bytes; /* capacity 0: nothing is kept */
    int n;
    struct earlier_answer *newest, *oldest;
};

void earlier_answers_init(struct earlier_answers *s, size_t capacity);
void earlier_answers_release(struct earlier_answers *s); /* nobody has any */

/* The answer to the prompt that is most alike, the latest of several, of those under the same seed, which names the model, its
 * adapters and the tenant. It stays until it is left. NULL: none is alike enough. */
struct earlier_answer *earlier_answers_find(struct earlier_answers *s, const struct prefix_key *seed,
                                            const struct prompt_sketch *sketch);
void earlier_answers_leave(struct earlier_answers *s, struct earlier_answer *a);
const int32_t *earlier_answer_tokens(const struct earlier_answer *a, int *n);

/* Keep an answer of n tokens in the place of one whose prompt has the same sketch. Without memory it is not kept. */
void earlier_answers_add(struct earlier_answers *s, const struct prefix_key *seed, const struct prompt_sketch *sketch,
                         const int32_t *token, int n);

#endif
