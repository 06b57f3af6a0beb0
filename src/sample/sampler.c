/* sampler.c: bias, penalties, filters, and the choice by Gumbel noise. */
#include "sample/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_math.h"
#include "base/memory.h"
#include "base/random.h"
#include "sample/candidates.h"

struct sampler {
    int n_vocab;
    float *adjusted; /* logits after bias and penalties */
    int32_t *count;  /* of each token among the recent ones; all zero between calls */
    struct candidates candidates;
};

enum mr_status sampler_create(struct sampler **out, int n_vocab, struct mr_error *err)
{
    *out = NULL;
    const size_t n = (size_t)n_vocab;
    struct sampler *s = mem_zero_array(1, sizeof *s);
    if (s == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the sampler");
    s->n_vocab = n_vocab;
    s->adjusted = mem_array(n, sizeof *s->adjusted);
    s->count = mem_zero_array(n, sizeof *s->count);
    s->candidates.key = mem_array(n, sizeof *s->candidates.key);
    s->candidates.spare = mem_array(n, sizeof *s->candidates.spare);
    if (s->adjusted == NULL || s->count == NULL || s->candidates.key == NULL || s->candidates.spare == NULL) {
        sampler_free(s);
        return mr_fail(err, MR_NO_MEMORY, "no memory for the sampler, %d tokens", n_vocab);
    }
    *out = s;
    return MR_OK;
}

void sampler_free(struct sampler *s)
{
    if (s == NULL)
        return;
    free(s->adjusted);
    free(s->count);
    free(s->candidates.key);
    free(s->candidates.spare);
    free(s);
}

static enum mr_status check_logits(const float *logits, int n, struct mr_error *err)
{
    int n_bad = 0;
    for (int i = 0; i < n; i++)
        n_bad += !(logits[i] <= FLT_MAX); /* NaN compares false */
    for (int i = 0; n_bad > 0 && i < n; i++)
        if (!(logits[i] <= FLT_MAX))
            return mr_fail(err, MR_BAD_FORMAT, "the logit of token %d is %s (%d of %d are not finite)", i,
                           isnan(logits[i]) ? "not a number" : "infinite", n_bad, n);
    return MR_OK;
}

/* Penalties as Keskar et al. 2019 (arXiv:1909.05858, section 4.1) and the OpenAI API define them. */
static void penalize(struct sampler *s, const struct mr_sampling *p, const int32_t *recent, int n)
{
    for (int i = 0; i < n; i++)
        s->count[recent[i]]++;
    for (int i = 0; i < n; i++) {
        const int32_t id = recent[i];
        if (s->count[id] == 0)
            continue; /* an earlier occurrence has paid for all */
        float *x = &s->adjusted[id];
        *x = *x > 0 ? *x / p->repeat_penalty : *x * p->repeat_penalty;
        *x -= (float)s->count[id] * p->frequency_penalty + p->presence_penalty;
        s->count[id] = 0;
    }
}

/* The logits after bias and penalties; `logits` itself where nothing changes. */
static const float *adjust(struct sampler *s, const float *logits, const struct sample_point *point)
{
    const struct mr_sampling *p = point->params;
    const bool penalty = p->repeat_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0;
    const int n = p->repeat_last_n >= 0 && p->repeat_last_n < point->n_recent ? p->repeat_last_n : point->n_recent;
    if (point->n_bias == 0 && !(penalty && n > 0) && point->allowed == NULL)
        return logits;
    memcpy(s->adjusted, logits, (size_t)s->n_vocab * sizeof *logits);
    for (int i = 0; i < point->n_bias; i++)
        s->adjusted[point->bias[i].token] += point->bias[i].bias;
    if (penalty)
        penalize(s, p, point->recent + (point->n_recent - n), n);
    for (int i = 0; point->allowed != NULL && i < s->n_vocab; i++)
        if (!(point->allowed[i / 64] >> (i % 64) & 1))
            s->adjusted[i] = -INFINITY;
    return s->adjusted;
}

/* The likeliest token, the lowest of equals; -1: all are excluded. */
static int32_t greedy(const float *logits, int n)
{
    int32_t id = -1;
    for (int i = next_above(logits, 0, n, -INFINITY); i < n; i = next_above(logits, i + 1, n, logits[i]))
        id = i;
    return id;
}

/* Random words of one token at a time; four ids share a block. */
struct noise {
    uint32_t key[2], counter[4], word[4];
};

static uint32_t noise_word(struct noise *n, int32_t id)
{
    const uint32_t block = (uint32_t)id / 4;
    if (n->counter[0] != block) {
        n->counter[0] = block;
        philox4x32(n->word, n->counter, n->key);
    }
    return n->word[id % 4];
}

/* The largest z + Gumbel noise is a draw from softmax(z) (Gumbel 1954; Maddison et al. 2014, arXiv:1411.0030), where
 * z = (logit - best) / temperature. Noise: -log(-log u), u = (word + 1/2) / 2^32. */
static int32_t draw(const struct candidates *c, const struct sample_point *point)
{
    const double noise_max = 22.9; /* of the largest u */
    const float best_logit = candidates_best(c);
    const uint64_t seed = point->params->seed;
    struct noise noise = {.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                          .counter = {UINT32_MAX, (uint32_t)point->position, (uint32_t)point->sample, 0}};
    double best = -INFINITY;
    int32_t chosen = -1;
    for (int i = 0; i < c->n; i++) {
        const double z = (double)(candidate_logit(c->key[i]) - best_logit) / (double)point->params->temperature;
        if (z + noise_max < best) /* cannot win: no need for the logarithms */
            continue;
        const int32_t id = candidate_id(c->key[i]);
        const double u = ((double)noise_word(&noise, id) + 0.5) * 0x1p-32;
        if (z < best && 1 - u > 1.00001 * (double)math_exp((float)(z - best))) /* nor can it here: 1 - u < -log u */
            continue;
        const double score = z - math_log(-math_log(u));
        if (score > best || (score == best && id < chosen)) {
            best = score;
            chosen = id;
        }
    }
    return chosen;
}

static int32_t choose(struct sampler *s, const float *logits, const struct sample_point *point)
{
    const struct mr_sampling *p = point->params;
    if (p->temperature == 0)
        return greedy(logits, s->n_vocab);
    struct candidates *c = &s->candidates;
    candidates_start(c, logits, s->n_vocab, p->top_k);
    candidates_typical(c, p->typical_p, logits);
    candidates_top_p(c, p->top_p);
    candidates_min_p(c, p->min_p);
    return c->n > 0 ? draw(c, point) : -1;
}

static float to_logprob(double x) { return x > -9999 ? (float)x : -9999; }

/* Log-softmax of the model's own logits: the chosen token's, and the n_top likeliest. */
static void report(struct sampler *s, const float *logits, int n_top, struct sampled *out)
{
    struct candidates *c = &s->candidates;
    candidates_start(c, logits, s->n_vocab, n_top > 0 ? n_top : 1);
    candidates_sort(c);
    const float best = candidate_logit(c->key[0]);
    const double log_sum = math_log(sum_exp(logits, s->n_vocab, best));
    out->logprob = to_logprob((double)(logits[out->token] - best) - log_sum);
    for (; out->n_top < n_top && out->n_top < c->n; out->n_top++) {
        const uint64_t key = c->key[out->n_top];
        const double x = (double)(candidate_logit(key) - best) - log_sum;
        out->top[out->n_top] = (struct mr_logprob){.token = candidate_id(key), .logprob = to_logprob(x)};
    }
}

enum mr_status sampler_pick(struct sampler *s, const float *logits, const struct sample_point *point, struct sampled *out,
                            struct mr_error *err)
{
    *out = (struct sampled){.token = -1};
    MR_TRY(check_logits(logits, s->n_vocab, err));
    out->token = choose(s, adjust(s, logits, point), point);
    if (out->token < 0)
        return mr_fail(err, MR_BAD_INPUT, "logit_bias or bad_word excludes every token%s",
                       point->allowed != NULL ? " that the constraint allows" : "");
    if (point->params->n_logprobs >= 0)
        report(s, logits, point->params->n_logprobs, out);
    return MR_OK;
}

enum mr_status sampler_score(struct sampler *s, const float *logits, int32_t token, int n_top, struct sampled *out,
                             struct mr_error *err)
{
    *out = (struct sampled){.token = token};
    MR_TRY(check_logits(logits, s->n_vocab, err));
    report(s, logits, n_top, out);
    return MR_OK;
}
