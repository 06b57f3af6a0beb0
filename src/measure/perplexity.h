/* perplexity.h: how surprised a model is by a text: exp(-mean log p(token | the tokens before it)).
 * The text is read in overlapping windows: each starts window - stride tokens before the first token that has not been
 * scored, with the tokenizer's BOS in front where it adds one, and scores what it has not seen; so every token but the
 * very first is scored once, and all but those of the first window with at least window - stride tokens before them.
 * Beside a base model each window is read by both, and what they predict is compared row by row: KL(base || model) in nats
 * (Kullback & Leibler 1951), and how often both think the same token likeliest. */
#ifndef MEASURE_PERPLEXITY_H
#define MEASURE_PERPLEXITY_H

#include "millrace.h"

struct perplexity_options {
    int window; /* tokens, 3 or more */
    int stride; /* 1 to window - 2 */
    /* Called after each window with tokens scored and in all; false: stop. NULL: nobody listens. */
    bool (*go_on)(void *context, int64_t done, int64_t total);
    void *context;
    const struct mr_adapter_use *adapter; /* n_adapter of them, of the model's */
    int32_t n_adapter;
    struct mr_model *base; /* what the model is compared with; NULL: nothing */
};

/* A mean over the scored tokens, and the standard error of it (as if they were independent). */
struct token_mean {
    double mean, error;
};

struct perplexity {
    double perplexity;
    int64_t n_tokens;      /* scored */
    struct token_mean nll; /* nats a token: the logarithm of the perplexity */
    /* Beside a base: */
    double base_perplexity;
    struct token_mean change;   /* nll less the base's, token by token */
    struct token_mean kl;       /* nats */
    struct token_mean same_top; /* share of tokens where both have the same likeliest one */
};

/* token[n]: the text without a BOS. BAD_INPUT: a window or stride out of range, or nothing to score. A base whose
 * vocabulary is another. CANCELLED: go_on said so. BAD_FORMAT: the model's logits are not numbers. */
enum mr_status perplexity_measure(struct perplexity *out, struct mr_model *model, const int32_t *token, int64_t n,
                                  const struct perplexity_options *options, struct mr_error *err);

#endif
