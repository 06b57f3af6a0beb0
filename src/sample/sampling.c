/* sampling.c: the parameters of sampling: defaults and ranges. */
#include <math.h>

#include "sample/sampler.h"

void mr_sampling_defaults(struct mr_sampling *s)
{
    *s = (struct mr_sampling){.temperature = 0.8f,
                              .top_k = 40,
                              .top_p = 0.95f,
                              .min_p = 0.05f,
                              .typical_p = 1,
                              .repeat_penalty = 1,
                              .repeat_last_n = 64,
                              .n_logprobs = -1};
}

static enum mr_status check_bias(const struct mr_logit_bias *bias, int n_bias, int n_vocab, struct mr_error *err)
{
    if (n_bias < 0 || n_bias > MR_LOGIT_BIAS_MAX)
        return mr_fail(err, MR_BAD_INPUT, "logit_bias has %d entries, at most %d are possible", n_bias, MR_LOGIT_BIAS_MAX);
    for (int i = 0; i < n_bias; i++) {
        if (bias[i].token < 0 || bias[i].token >= n_vocab)
            return mr_fail(err, MR_BAD_INPUT, "logit_bias: token %d is outside the vocabulary, 0 to %d", bias[i].token,
                           n_vocab - 1);
        if (bias[i].bias != -INFINITY && !(bias[i].bias >= -100 && bias[i].bias <= 100))
            return mr_fail(err, MR_BAD_INPUT, "logit_bias of token %d is %g, must be from -100 to 100, or minus infinity",
                           bias[i].token, (double)bias[i].bias);
    }
    return MR_OK;
}

enum mr_status sampling_check(const struct mr_sampling *p, const struct mr_logit_bias *bias, int n_bias, int n_vocab,
                              struct mr_error *err)
{
    const struct {
        const char *name;
        double value, low, high;
    } field[] = {
        {"temperature", p->temperature, 0, 100},
        {"top_k", p->top_k, 0, INT32_MAX},
        {"top_p", p->top_p, 0, 1},
        {"min_p", p->min_p, 0, 1},
        {"typical_p", p->typical_p, 0, 1},
        {"repeat_penalty", p->repeat_penalty, 0.01f, 100},
        {"presence_penalty", p->presence_penalty, -100, 100},
        {"frequency_penalty", p->frequency_penalty, -100, 100},
        {"repeat_last_n", p->repeat_last_n, -1, INT32_MAX},
        {"n_logprobs", p->n_logprobs, -1, MR_TOP_LOGPROBS_MAX},
    };
    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        if (!(field[i].value >= field[i].low && field[i].value <= field[i].high)) /* a NaN is in no range */
            return mr_fail(err, MR_BAD_INPUT, "%s is %g, must be from %g to %.10g", field[i].name, field[i].value, field[i].low,
                           field[i].high);
    return check_bias(bias, n_bias, n_vocab, err);
}
