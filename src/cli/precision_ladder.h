/* precision_ladder.h: a model at one precision after the other: fp32, fp16, int8 and int4, then mixes, until one costs more
 * than is allowed; bf16 beside them. What was measured is a JSON object, so that a run goes on from its own report:
 *   {"run": what the figures depend on, "steps": [step...], "deploy": name or null}
 *   step: name, type (of the file), precision (of the arithmetic), is_within, drop, accuracy and accuracy_stderr (with tasks),
 *   perplexity (with a text), tok_s, ttft_ms, file_bytes, weight_bytes, peak_bytes, evaluation (as eval_json.h has it). */
#ifndef CLI_PRECISION_LADDER_H
#define CLI_PRECISION_LADDER_H

#include <jansson.h>

#include "cli/model_arguments.h"
#include "measure/evaluation.h"

enum {
    LADDER_PROMPT = 128, /* tokens in front of the first token that is timed, fewer where the context is short */
    LADDER_ANSWER = 32
};

struct ladder {
    const struct model_arguments *model; /* file, threads */
    const char *folder;                  /* of the models that are made, and of the report */
    const struct string_buffer *calibration;
    const char *calibration_name;
    struct evaluation_plan plan; /* a text, tasks, or both */
    double max_drop;             /* share of the accuracy over all tasks; without tasks: rise of the perplexity */
    bool keep;                   /* the files of all steps, not only of the one to deploy */
    json_t *state;               /* what was measured; renewed after each step */
};

/* Measure what state lacks, calling `save` after each step; then put the name of the smallest step within the threshold
 * into "deploy" and leave its file (of all, with keep). CANCELLED: Ctrl-C; state has what was measured until then. */
enum mr_status ladder_run(struct ladder *l, enum mr_status (*save)(const struct ladder *l, struct mr_error *err),
                          struct mr_error *err);

/* Remove the files that a run of other options left before it had measured anything. */
void ladder_forget(const struct ladder *l);

/* *out becomes "FOLDER/NAMESUFFIX". */
void ladder_path(struct string_buffer *out, const struct ladder *l, const char *name, const char *suffix);

/* The step of this name; NULL: it has not been measured. Borrowed. */
json_t *ladder_step(const json_t *state, const char *name);

#endif
