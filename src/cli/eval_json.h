/* eval_json.h: evaluations as JSON. */
#ifndef CLI_EVAL_JSON_H
#define CLI_EVAL_JSON_H

#include <jansson.h>

#include "measure/evaluation.h"

/* An array of an object for each model; NULL: no memory. */
json_t *eval_json(const struct evaluation *e, int n);

/* A line of JSON on how an item came out, in the terms of lm-eval: doc_id, target, filtered_resps ([log-likelihood, whether
 * greedy decoding gives it] of each continuation, or the answer), acc and acc_norm, or exact_match, 1 or 0. */
void eval_sample_line(struct string_buffer *out, const char *model, const char *task, const struct task_sample *sample);

#endif
