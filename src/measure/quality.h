/* quality.h: how far a precision is from another one: the mean divergence of what they predict along a text.
 * KL(p || q) = sum over the vocabulary of p (log p - log q), in nats, p being the reference (Kullback & Leibler 1951). */
#ifndef MEASURE_QUALITY_H
#define MEASURE_QUALITY_H

#include "millrace.h"

/* Zeroed: not there yet. */
struct quality_reference {
    int32_t *token; /* [n] */
    float *log_p;   /* [n - 1][n_vocab] */
    int n, n_vocab;
};

struct quality {
    double perplexity, kl;
};

/* The first model measured becomes the reference; of the text so many tokens are read as 64 MiB of its predictions hold, at
 * most 512. BAD_INPUT: the text has fewer than 2, or a model has another vocabulary. */
enum mr_status quality_measure(struct quality *out, struct quality_reference *reference, struct mr_model *model,
                               const char *text, size_t n_text, struct mr_error *err);
void quality_reference_release(struct quality_reference *reference);

#endif
