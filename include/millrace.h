/* millrace.h: the public C API of the inference engine.
 * Includes nothing of ours, so that a program needs only this file and the library. */
#ifndef MILLRACE_H
#define MILLRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MR_STATUS_MAP(X)                                                                                                       \
    X(OK, "success")                                                                                                           \
    X(NO_MEMORY, "allocation failed")                                                                                          \
    X(BAD_FORMAT, "file is damaged or not of this format")                                                                     \
    X(NO_SUPPORT, "valid, but this build cannot run it")                                                                       \
    X(BAD_INPUT, "a parameter or an input text is wrong")                                                                      \
    X(NOT_FOUND, "no such file, key or tensor")                                                                                \
    X(IO, "reading or writing failed")                                                                                         \
    X(FULL, "no room now; retry after something is freed")                                                                     \
    X(CANCELLED, "stopped on request")

enum mr_status {
#define X(name, text) MR_##name,
    MR_STATUS_MAP(X)
#undef X
};

enum {
    MR_ERROR_MAX = 512
};

/* What went wrong, for a person: lower case, no full stop, the problem first, naming the key,
 * tensor, field or parameter. Every function that takes one accepts NULL. */
struct mr_error {
    char message[MR_ERROR_MAX];
};

/* The general meaning of a status; never NULL. */
const char *mr_status_text(enum mr_status status);

/* How a token is chosen. Order of the steps: logit bias, penalties, top_k, typical_p, top_p, min_p, temperature, then
 * one of what is left, drawn with random numbers that depend on seed, sample, position and token id alone. */
struct mr_sampling {
    float temperature;       /* 0 to 100; 0: always the likeliest token */
    int32_t top_k;           /* keep the k likeliest; 0: all */
    float top_p;             /* 0 to 1: keep the likeliest whose probabilities reach this sum; 1: all */
    float min_p;             /* 0 to 1: keep what has this share of the likeliest token's probability; 0: all */
    float typical_p;         /* 0 to 1: keep the most typical whose probabilities pass this sum; 1: all */
    float repeat_penalty;    /* 0.01 to 100: divides positive, multiplies negative logits of recent tokens; 1: off */
    float presence_penalty;  /* -100 to 100: subtracted once from the logit of each recent token */
    float frequency_penalty; /* -100 to 100: subtracted for each time that it occurs */
    int32_t repeat_last_n;   /* how many tokens count as recent, prompt included; -1: all, 0: none */
    int32_t n_logprobs;      /* 0 to 20: alternatives reported with each token; -1: no logprobs at all */
    uint64_t seed;
};

enum {
    MR_TOP_LOGPROBS_MAX = 20,
    MR_LOGIT_BIAS_MAX = 1024 /* entries of one request */
};

/* Added to the logit of a token; -100 to 100, or minus infinity: never. */
struct mr_logit_bias {
    int32_t token;
    float bias;
};

struct mr_logprob {
    int32_t token;
    float logprob; /* natural logarithm; not below -9999 */
};

/* temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, nothing else, seed 0, no logprobs. */
void mr_sampling_defaults(struct mr_sampling *s);

#ifdef __cplusplus
}
#endif
#endif
