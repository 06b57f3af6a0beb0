/* usage_json.h: what a reply cost, in the words of OpenAI and llama-server. */
#ifndef SERVER_API_USAGE_JSON_H
#define SERVER_API_USAGE_JSON_H

#include "server/api/job.h"

/* Over all answers; a prompt counts once. */
struct usage_sum {
    int64_t n_prompt, n_cached, n_generated, n_reasoning, n_accepted, n_rejected;
};
struct usage_sum usage_sum(const struct job *j);

/* OpenAI's `usage`. */
json_t *usage_json(const struct job *j);
/* llama-server's `timings` of one answer, with ours beside it: ttft_ms, queue_ms, and of prompt_ms and predicted_ms together
 * memory_ms and sample_ms; and stages_ms, of its whole request so far (docs/metrics.md). */
json_t *timings_json(const struct job *j, const struct answer *a);

#endif
