/* distill_check.h: whether the options of a training run fit each other and the models. */
#ifndef COMPRESS_DISTILL_CHECK_H
#define COMPRESS_DISTILL_CHECK_H

#include "compress/distill.h"

/* BAD_INPUT: names what does not fit. */
enum mr_status distill_check(const struct distill_options *options, struct mr_error *err);

#endif
