/* sampling_arguments.h: the options that say how tokens are chosen, under the names that llama.cpp's users know. */
#ifndef CLI_SAMPLING_ARGUMENTS_H
#define CLI_SAMPLING_ARGUMENTS_H

#include "cli/arguments.h"

struct sampling_arguments {
    struct mr_sampling sampling;
    int64_t seed; /* -1: another one each time */
    struct mr_logit_bias bias[MR_LOGIT_BIAS_MAX];
    int n_bias;
};

extern const struct argument sampling_argument[];

void sampling_arguments_defaults(struct sampling_arguments *s);

/* After parsing: draws the seed where none was given. */
void sampling_arguments_finish(struct sampling_arguments *s);

#endif
