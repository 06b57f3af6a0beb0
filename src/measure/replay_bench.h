/* replay_bench.h: what guesses bring on a text: answers go as the text does, whatever the model says, so that the share of
 * right guesses belongs to the text and models of random weights can be measured, too. Threads: one at a time. */
#ifndef MEASURE_REPLAY_BENCH_H
#define MEASURE_REPLAY_BENCH_H

#include <jansson.h>

#include "base/string_buffer.h"
#include "measure/bench_cases.h"
#include "millrace.h"

enum {
    REPLAY_CASES_MAX = BENCH_LIST_MAX * BENCH_LIST_MAX,
    REPLAY_STREAMS_MAX = 64,
    REPLAY_ROUNDS_MAX = 100
};

struct replay_options {
    enum mr_speculation method;   /* what guesses, where no acceptance is given */
    struct bench_list acceptance; /* percent: a guesser that knows the text and errs in the rest; n 0: the method guesses */
    struct bench_list streams;    /* answers at a time */
    int prompt, gen;              /* tokens of the text in front of each answer, and in it */
    int repeat;
    bool (*stopped)(void);
};

/* One number of streams and one acceptance; rates are tokens a second of all streams, medians of rounds in turn. */
struct replay_figure {
    int n_stream, percent;     /* percent -1: the method guessed */
    double plain, rate, ratio; /* ratio: the median of those within rounds */
    double drafted, accepted;  /* a token */
};

struct replay_figures {
    struct replay_figure figure[REPLAY_CASES_MAX];
    int n;
};

/* text[n]: tokens. options: those that the model was opened with; its engine is made here. BAD_INPUT: the text is too short. */
enum mr_status replay_bench_run(struct replay_figures *out, struct mr_model *model, const struct mr_options *options,
                                const struct replay_options *o, const int32_t *text, int32_t n, struct mr_error *err);

json_t *replay_figures_json(const struct replay_figures *f, const struct replay_options *o,
                            const char *method); /* NULL: no memory */
void replay_figures_text(const struct replay_figures *f, const char *method, struct string_buffer *out);

#endif
