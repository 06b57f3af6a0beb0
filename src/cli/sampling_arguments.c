/* sampling_arguments.c: the options that say how tokens are chosen. */
#include "cli/sampling_arguments.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

/* "ID+BIAS", "ID-BIAS" or "ID=BIAS"; the bias may be "inf" behind a minus sign. Ids are checked against the vocabulary
 * later. */
static enum mr_status parse_bias(void *field, const char *text, const struct argument *a, struct mr_error *err)
{
    struct sampling_arguments *s = field;
    char *sign, *end;
    errno = 0;
    const long id = strtol(text, &sign, 10);
    const bool has_id =
        sign != text && errno == 0 && id >= 0 && id <= INT32_MAX && *sign != '\0' && strchr("+-=", *sign) != NULL;
    const char *number = has_id && *sign == '=' ? sign + 1 : sign;
    const double bias = strtod(number, &end);
    if (!has_id || end == number || *end != '\0' || !((bias >= a->low && bias <= a->high) || bias == -INFINITY))
        return mr_fail(err, MR_BAD_INPUT, "'%s' is not ID+BIAS, ID-BIAS or ID=BIAS with a bias from %g to %g, or -inf", text,
                       a->low, a->high);
    if (s->n_bias == MR_LOGIT_BIAS_MAX)
        return mr_fail(err, MR_BAD_INPUT, "may be given at most %d times", MR_LOGIT_BIAS_MAX);
    s->bias[s->n_bias++] = (struct mr_logit_bias){.token = (int32_t)id, .bias = (float)bias};
    return MR_OK;
}

#define IN_SAMPLING(field) (offsetof(struct sampling_arguments, sampling) + offsetof(struct mr_sampling, field))

const struct argument sampling_argument[] = {
    {.name = "temp",
     .value = "X",
     .help = "Temperature, 0 to 100; 0 always takes the likeliest token (default: 0.8)",
     .parse = argument_float,
     .offset = IN_SAMPLING(temperature),
     .high = 100},
    {.name = "temperature"},
    {.name = "top-k",
     .value = "N",
     .help = "Keep the N likeliest tokens; 0: all (default: 40)",
     .parse = argument_int,
     .offset = IN_SAMPLING(top_k),
     .high = INT_MAX},
    {.name = "top-p",
     .value = "X",
     .help = "Keep the likeliest tokens whose probabilities reach X, 0 to 1 (default: 0.95)",
     .parse = argument_float,
     .offset = IN_SAMPLING(top_p),
     .high = 1},
    {.name = "min-p",
     .value = "X",
     .help = "Keep tokens with at least X times the probability of the likeliest, 0 to 1 (default: 0.05)",
     .parse = argument_float,
     .offset = IN_SAMPLING(min_p),
     .high = 1},
    {.name = "typical",
     .value = "X",
     .help = "Keep the most typical tokens whose probabilities pass X, 0 to 1 (default: 1, off)",
     .parse = argument_float,
     .offset = IN_SAMPLING(typical_p),
     .high = 1},
    {.name = "typical-p"},
    {.name = "repeat-penalty",
     .value = "X",
     .help = "Weaken recent tokens by this factor, 0.01 to 100 (default: 1, off)",
     .parse = argument_float,
     .offset = IN_SAMPLING(repeat_penalty),
     .low = 0.01,
     .high = 100},
    {.name = "repeat-last-n",
     .value = "N",
     .help = "How many tokens count as recent; -1: all, 0: none (default: 64)",
     .parse = argument_int,
     .offset = IN_SAMPLING(repeat_last_n),
     .low = -1,
     .high = INT_MAX},
    {.name = "presence-penalty",
     .value = "X",
     .help = "Taken off the logit of each recent token, -100 to 100 (default: 0)",
     .parse = argument_float,
     .offset = IN_SAMPLING(presence_penalty),
     .low = -100,
     .high = 100},
    {.name = "frequency-penalty",
     .value = "X",
     .help = "Taken off for each time that a recent token occurs, -100 to 100 (default: 0)",
     .parse = argument_float,
     .offset = IN_SAMPLING(frequency_penalty),
     .low = -100,
     .high = 100},
    {.name = "seed",
     .letter = 's',
     .value = "N",
     .help = "Seed of the random numbers; -1: another one each time (default: -1)",
     .parse = argument_int64,
     .offset = offsetof(struct sampling_arguments, seed),
     .low = -1,
     .high = 9007199254740992},
    {.name = "logit-bias",
     .letter = 'l',
     .value = "ID+BIAS",
     .help = "Add to the logit of a token, -100 to 100; ID-inf forbids it (may be repeated)",
     .parse = parse_bias,
     .low = -100,
     .high = 100},
    {0}};

void sampling_arguments_defaults(struct sampling_arguments *s)
{
    *s = (struct sampling_arguments){.seed = -1};
    mr_sampling_defaults(&s->sampling);
}

void sampling_arguments_finish(struct sampling_arguments *s)
{
    /* Below 2^53, so that the seed that was drawn can be given to --seed. */
    s->sampling.seed = s->seed >= 0 ? (uint64_t)s->seed : random_seed() >> 11;
}
