/* usage_json.c: sums and rates. */
#include "server/api/usage_json.h"

struct usage_sum usage_sum(const struct job *j)
{
    struct usage_sum sum = {0};
    for (int i = 0; i < j->n_answer; i++) {
        const struct answer *a = &j->answer[i];
        const bool is_first = i % j->base.n == 0;
        sum.n_prompt += is_first ? a->usage.n_prompt : 0;
        sum.n_cached += is_first ? a->usage.n_cached : 0;
        sum.n_generated += a->usage.n_generated;
        sum.n_reasoning += a->n_reasoning;
        sum.n_accepted += a->usage.n_accepted;
        sum.n_rejected += a->usage.n_drafted - a->usage.n_accepted;
    }
    return sum;
}

json_t *usage_json(const struct job *j)
{
    const struct usage_sum s = usage_sum(j);
    return json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I, s:I, s:I}}", "prompt_tokens", s.n_prompt, "completion_tokens",
                     s.n_generated, "total_tokens", s.n_prompt + s.n_generated, "prompt_tokens_details", "cached_tokens",
                     s.n_cached, "completion_tokens_details", "reasoning_tokens", s.n_reasoning, "accepted_prediction_tokens",
                     s.n_accepted, "rejected_prediction_tokens", s.n_rejected);
}

static double per_second(int n, int64_t us) { return n > 0 && us > 0 ? n * 1e6 / (double)us : 0; }
static double ms(int64_t us) { return (double)us / 1e3; }
static double each(int64_t us, int n) { return n > 0 ? ms(us) / n : 0; }

static json_t *stages_json(const struct job *j, const struct answer *a)
{
    int64_t stage_us[N_STAGES];
    if (!exchange_stages(j->x, a->prompt, stage_us))
        return NULL;
    json_t *stages = json_object();
    for (int i = 0; i < N_STAGES; i++)
        json_object_set_new(stages, request_stage_name(i), json_real(ms(stage_us[i])));
    return stages;
}

json_t *timings_json(const struct job *j, const struct answer *a)
{
    const struct mr_usage *u = &a->usage;
    const int prompt_n = u->n_prompt - u->n_cached; /* computed, as llama-server counts */
    return json_pack("{s:i, s:i, s:f, s:f, s:f, s:i, s:f, s:f, s:f, s:i, s:i, s:f, s:f, s:f, s:f, s:o*}", "cache_n",
                     u->n_cached, "prompt_n", prompt_n, "prompt_ms", ms(u->prompt_us), "prompt_per_token_ms",
                     each(u->prompt_us, prompt_n), "prompt_per_second", per_second(prompt_n, u->prompt_us), "predicted_n",
                     u->n_generated, "predicted_ms", ms(u->generate_us), "predicted_per_token_ms",
                     each(u->generate_us, u->n_generated - 1), "predicted_per_second",
                     per_second(u->n_generated - 1, u->generate_us), "draft_n", u->n_drafted, "draft_n_accepted", u->n_accepted,
                     "queue_ms", ms(u->queue_us), "ttft_ms", ms(u->first_token_us), "memory_ms", ms(u->memory_us), "sample_ms",
                     ms(u->sample_us), "stages_ms", stages_json(j, a));
}
