/* bench_cases.h: how fast a model runs, as shares of what the machine can do.
 * Cases run below the engine: rows go straight into the forward pass, so that what is measured is the model and its back
 * end. The token that follows is the one with the best logit. */
#ifndef MEASURE_BENCH_CASES_H
#define MEASURE_BENCH_CASES_H

#include "measure/bench_model.h"
#include "measure/limits.h"
#include "measure/machine_watch.h"
#include "measure/op_profile.h"
#include "measure/spread.h"

enum {
    BENCH_LIST_MAX = 16,
    BENCH_CHUNK = 512, /* rows of a prompt in one step, without other wishes */
    BENCH_REPEAT_MAX = 1000
};

struct bench_list {
    int value[BENCH_LIST_MAX];
    int n;
};

struct bench_options {
    int prompt;                     /* tokens of the prefill case; 0: no such case */
    int gen;                        /* tokens that each sequence of a decode case generates; 0: no such cases */
    struct bench_list batch, depth; /* a decode case for each pair: sequences, and cached tokens before each (0 means 1) */
    int chunk;                      /* rows of a prompt in one step */
    int repeat;
    bool profile;
    const atomic_bool *stop; /* looked at between steps; may be NULL */
};

enum bench_test {
    BENCH_PREFILL,
    BENCH_DECODE
};
const char *bench_test_name(enum bench_test test);

struct bench_result {
    enum bench_test test;
    int batch;
    int n_tokens; /* of one sequence: of the prompt, or generated */
    int depth;
    struct spread tok_s;        /* of all sequences together, over the repetitions */
    double gops;                /* at the median: products and attention */
    double gb_s;                /* at the median: weights once a step, keys and values of each sequence */
    double mfu;                 /* share of the peak: each product counts over the peak of its type, attention over that of
                                   most products, so that it never flatters */
    double mbu;                 /* gb_s over the read rate */
    struct op_profile *profile; /* of one more repetition; NULL where not asked for */
    double profile_seconds;     /* how long that took in all */
};

struct bench_report {
    struct bench_result *result;
    int n_result;
};

/* Called before each case and at its end; figures of `result` are there at the end. */
typedef void bench_case_fn(void *context, const struct bench_result *result, bool is_done);

/* What the cases need: tokens of the longest sequence, rows that ask for logits in a step, sequences at a time. */
int bench_max_tokens(const struct bench_options *o);
int bench_max_batch(const struct bench_options *o);
int bench_max_sequences(const struct bench_options *o);

/* Run all cases. watch (begun) samples the clock behind each repetition. On CANCELLED and other failures the report holds
 * the cases done so far. Release it in any case. */
enum mr_status bench_run(struct bench_report *out, const struct bench_model *m, const struct limits *limits,
                         const struct bench_options *o, struct machine_watch *watch, bench_case_fn *each, void *context,
                         struct mr_error *err);
void bench_report_release(struct bench_report *r);

/* Share of the peaks that this work reached in `seconds`. */
double bench_mfu(const struct op_work *work, double seconds, const struct limits *l);

#endif
