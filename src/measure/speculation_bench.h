/* speculation_bench.h: what each method of guessing brings by task: quotes, code that is edited, JSON from a document, an
 * answer that is foretold, a chat, a long answer. Every round of a method stands beside a plain one of the same task, in one
 * engine, and must give the same tokens. Threads: one at a time. */
#ifndef MEASURE_SPECULATION_BENCH_H
#define MEASURE_SPECULATION_BENCH_H

#include <jansson.h>

#include "base/string_buffer.h"
#include "engine/chat_prompt.h"
#include "measure/bench_cases.h"

enum {
    SPECULATION_TASKS = 6,
    SPECULATION_CASES_MAX = SPECULATION_TASKS * MR_N_SPECULATIONS * BENCH_LIST_MAX,
    SPECULATION_STREAMS_MAX = 64,
    SPECULATION_ROUNDS_MAX = 100
};

struct speculation_options {
    struct bench_list streams; /* answers at a time, all of them the task's */
    int gen;                   /* tokens of an answer at most; 0: the task's own number */
    int repeat;
    bool has_draft_model; /* else its method is left out */
    bool (*stopped)(void);
};

/* One task, method and number of streams. Rates are tokens a second of all streams; medians of the rounds. */
struct speculation_figure {
    const char *task, *method;
    int n_stream;
    double plain, rate, ratio; /* ratio: the median of those within rounds */
    double drafted, accepted;  /* a token */
    double per_step;           /* tokens that come in a step of an answer */
    double guess_share;        /* of the engine's time, in which nothing is verified */
};

struct speculation_figures {
    struct speculation_figure figure[SPECULATION_CASES_MAX];
    int n;
};

/* options: those that the model was opened with; its engine is made here. BAD_INPUT: a prompt or answer does not fit. */
enum mr_status speculation_bench_run(struct speculation_figures *out, struct mr_model *model, const struct chat_prompt *chat,
                                     const struct mr_options *options, const struct speculation_options *o,
                                     struct mr_error *err);

json_t *speculation_figures_json(const struct speculation_figures *f,
                                 const struct speculation_options *o); /* NULL: no memory */
void speculation_figures_text(const struct speculation_figures *f, struct string_buffer *out);

#endif
