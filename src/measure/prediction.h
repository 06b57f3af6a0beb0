/* prediction.h: what logits say of the next token, and how far two say different things. */
#ifndef MEASURE_PREDICTION_H
#define MEASURE_PREDICTION_H

#include <stdint.h>

struct prediction {
    double log_total;  /* log p(i) = logits[i] - log_total */
    int32_t likeliest; /* the lower id of equals */
};

struct prediction prediction_of(const float *logits, int n);

/* KL(p || q) in nats, of two predictions over the same n tokens; 0 or more. */
double prediction_divergence(const float *p_logits, const struct prediction *p, const float *q_logits,
                             const struct prediction *q, int n);

#endif
