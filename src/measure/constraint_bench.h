/* constraint_bench.h: what constraints cost: compiling, one mask a token, and the rate of whole answers.
 * Threads: one at a time. */
#ifndef MEASURE_CONSTRAINT_BENCH_H
#define MEASURE_CONSTRAINT_BENCH_H

#include <jansson.h>

#include "base/string_buffer.h"
#include "engine/loaded_model.h"

enum {
    CONSTRAINT_CASES = 8,
    CONSTRAINT_ROUNDS_MAX = 100
};

/* CPU times of masks, in microseconds: with a mask cache that was warmed as the engine does, and for the same text again. */
struct mask_times {
    int n;
    double first_median, first_p99, again_median, again_p99;
};

struct constraint_case_figure {
    const char *name;
    double compile_ms, warm_ms;
    size_t bytes; /* of masks that are kept */
    struct mask_times masks;
};

struct constraint_figures {
    int32_t n_vocab;
    double trie_ms;
    struct constraint_case_figure figure[CONSTRAINT_CASES];
    struct mask_times all;
    /* One stream, tokens a second, medians of rounds in turn: a free answer, the same length under a schema, the same with
     * drafts of forced text; the last two are the same answer. */
    double rate_free, rate_constrained, rate_drafted;
    int n_drafted, n_accepted; /* in one such answer */
};

/* BAD_INPUT: a built-in text does not obey its constraint, which cannot be. */
enum mr_status constraint_bench_masks(struct constraint_figures *out, const struct tokenizer *t, struct mr_error *err);
/* options: those that the model was opened with. n_round: 1 to CONSTRAINT_ROUNDS_MAX. */
enum mr_status constraint_bench_rates(struct constraint_figures *out, struct mr_model *model, const struct mr_options *options,
                                      int n_round, bool (*stopped)(void), struct mr_error *err);

json_t *constraint_figures_json(const struct constraint_figures *f); /* NULL: no memory */
void constraint_figures_text(const struct constraint_figures *f, struct string_buffer *out);

#endif
