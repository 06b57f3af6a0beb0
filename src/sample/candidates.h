/* candidates.h: the tokens that are still possible, and the filters that thin them out.
 * A candidate is one 64-bit key: its logit above, mapped so that the better one is the smaller number, its id below; so
 * comparing keys orders by logit and then by lower id. */
#ifndef SAMPLE_CANDIDATES_H
#define SAMPLE_CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fp16.h"

struct candidates {
    uint64_t *key;   /* n of them, room for the whole vocabulary */
    uint64_t *spare; /* scratch of the same room */
    int n;
    bool sorted; /* the best first; else in an order that depends on the logits and parameters alone */
};

static inline uint64_t candidate_key(float logit, int32_t id)
{
    const uint32_t bits = f32_bits(logit + 0.0f); /* -0 becomes 0 */
    const uint32_t descending = bits & 0x80000000u ? bits : ~bits & 0x7fffffffu;
    return (uint64_t)descending << 32 | (uint32_t)id;
}

static inline int32_t candidate_id(uint64_t key) { return (int32_t)(uint32_t)key; }

static inline float candidate_logit(uint64_t key)
{
    const uint32_t descending = (uint32_t)(key >> 32);
    return f32_from_bits(descending & 0x80000000u ? descending : ~descending & 0x7fffffffu);
}

/* Start with the top_k best of logits[n]; top_k 0: with all. Minus infinity is no candidate; NaN must not occur. */
void candidates_start(struct candidates *c, const float *logits, int n, int top_k);

/* Keep the tokens whose -log p is nearest to the entropy until their probabilities pass p (Meister et al. 2023,
 * "Locally typical sampling", arXiv:2202.00666); at least one. logits: those of candidates_start. */
void candidates_typical(struct candidates *c, float p, const float *logits);

/* Keep the best until their probabilities reach p (Holtzman et al. 2020, arXiv:1904.09751); at least one. */
void candidates_top_p(struct candidates *c, float p);

/* Keep what has at least p times the probability of the best (Nguyen et al. 2024, arXiv:2407.01082). */
void candidates_min_p(struct candidates *c, float p);

/* The best first. */
void candidates_sort(struct candidates *c);

/* The best logit; c->n > 0. */
float candidates_best(const struct candidates *c);

/* The first i, from <= i < n, with x[i] > than; n: there is none. Fast where most are not. */
int next_above(const float *x, int from, int n, float than);

/* sum of exp(x[i] - max) in eight lanes, added in ascending order. */
double sum_exp(const float *x, int n, float max);

#endif
