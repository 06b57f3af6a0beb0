/* sampler.h: logits to a token.
 * The token is a pure function of the logits, the parameters, the tokens before it, the seed, the sample's index and the
 * position: nothing is kept between calls but scratch memory. Order of the steps (docs/sampling.md): logit bias,
 * penalties, top_k, typical_p, top_p, min_p, temperature, choice. Every sum has a fixed order; ties go to the lower id.
 * Threads: one sampler, one thread. */
#ifndef SAMPLE_SAMPLER_H
#define SAMPLE_SAMPLER_H

#include "base/status.h"

struct sampler; /* scratch for one vocabulary */

/* What else decides besides the logits. */
struct sample_point {
    const struct mr_sampling *params;
    const struct mr_logit_bias *bias; /* n_bias of them; each id at most once */
    int n_bias;
    const uint64_t *allowed; /* one bit a token, those that a constraint leaves (constraint.h); NULL: all */
    const int32_t *recent;   /* the n_recent tokens before this one, prompt included, the latest last */
    int n_recent;
    int32_t position; /* of the token to be chosen */
    int32_t sample;   /* index among the answers to one prompt */
};

struct sampled {
    int32_t token;
    float logprob; /* of the model's own distribution, before bias, penalties and filters; 0 where not asked for */
    int n_top;
    struct mr_logprob top[MR_TOP_LOGPROBS_MAX]; /* the most likely tokens, the likeliest first */
};

/* BAD_INPUT names the parameter and its range. n_vocab bounds the ids of the bias. */
enum mr_status sampling_check(const struct mr_sampling *params, const struct mr_logit_bias *bias, int n_bias, int n_vocab,
                              struct mr_error *err);

enum mr_status sampler_create(struct sampler **out, int n_vocab, struct mr_error *err);
void sampler_free(struct sampler *s); /* takes NULL */

/* Choose from logits[n_vocab], which stay as they are. The parameters have passed sampling_check.
 * BAD_FORMAT: a logit is NaN or plus infinity; BAD_INPUT: the bias leaves no token that is allowed. */
enum mr_status sampler_pick(struct sampler *s, const float *logits, const struct sample_point *point, struct sampled *out,
                            struct mr_error *err);

/* What the model thought of a token that stands there already: out->token is `token`, with its logprob and the n_top likeliest.
 * BAD_FORMAT: as above. */
enum mr_status sampler_score(struct sampler *s, const float *logits, int32_t token, int n_top, struct sampled *out,
                             struct mr_error *err);

#endif
