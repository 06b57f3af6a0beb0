/* answer_time.h: how long a token of one answer takes, for two models in turn, so that what else the machine does meets both.
 */
#ifndef MEASURE_ANSWER_TIME_H
#define MEASURE_ANSWER_TIME_H

#include "measure/bench_model.h"

struct answer_timing {
    int n_threads; /* 0: all */
    unsigned cpu_features;
    enum precision precision;
    int n_round, n_token; /* of each model: rounds, and tokens of each after one to warm up */
};

/* Time of a token of `other` over that of `base`: the median over the rounds, each of which times both. Errors as of
 * bench_model_open; both are in memory at once. */
enum mr_status answer_time_ratio(double *ratio, const char *base, const char *other, const struct answer_timing *t,
                                 struct mr_error *err);

#endif
