/* metrics_request.c: the life of one request as counts and times. */
#include <string.h>

#include "server/metrics_state.h"

/* Seconds from one time to another. */
static double between(int64_t from_us, int64_t to_us) { return (double)(to_us - from_us) * 1e-6; }

static void observe(struct model_metrics *mm, enum histogram_id id, double value)
{
    histogram_observe(&mm->histogram[id], id, value);
}

void metrics_request_begin(struct model_metrics *mm, struct request_life *life)
{
    pthread_mutex_lock(&mm->owner->lock);
    mm->n_in_flight++;
    life->outcome = OUTCOME_STOP;
    pthread_mutex_unlock(&mm->owner->lock);
}

static void see_token(struct model_metrics *mm, struct request_life *life, int sample, int64_t now)
{
    if (life->first_token_us == 0) {
        life->first_token_us = now;
        observe(mm, HISTOGRAM_TTFT, between(life->arrival_us, now));
    }
    if (life->n_tokens[sample]++ > 0)
        observe(mm, HISTOGRAM_ITL, between(life->last_token_us[sample], now));
    life->last_token_us[sample] = now;
    mm->n_generated_tokens++;
}

/* How an answer ended, and why, where that is the server's fault. */
static enum request_outcome outcome_of(const struct mr_event *e, bool has_begun, int *cause)
{
    *cause = N_CAUSES;
    switch (e->finish) {
    case MR_FINISH_LENGTH:
        return OUTCOME_LENGTH;
    case MR_FINISH_CANCELLED:
        return OUTCOME_CANCELLED;
    case MR_FINISH_TIMEOUT:
        return OUTCOME_TIMEOUT;
    case MR_FINISH_ERROR:
        break;
    default:
        return OUTCOME_STOP;
    }
    if (e->status == MR_BAD_INPUT || e->status == MR_NO_SUPPORT || e->status == MR_NOT_FOUND)
        return OUTCOME_REJECTED;
    if ((e->status == MR_BUSY || e->status == MR_FULL) && !has_begun)
        return OUTCOME_REFUSED;
    *cause = e->status == MR_NO_MEMORY ? CAUSE_HOST_MEMORY : e->status == MR_FULL ? CAUSE_KV_FULL : CAUSE_INTERNAL;
    return e->status == MR_NO_MEMORY || e->status == MR_FULL ? OUTCOME_OUT_OF_MEMORY : OUTCOME_ERROR;
}

static void see_end(struct model_metrics *mm, struct request_life *life, const struct mr_event *e, int64_t now)
{
    const struct mr_usage *u = &e->usage;
    const int sample = e->sample;
    int cause;
    const enum request_outcome outcome = outcome_of(e, life->first_token_us != 0, &cause);
    if (outcome > life->outcome)
        life->outcome = outcome;
    if (cause < N_CAUSES)
        mm->n_cause[cause]++;
    if (u->n_generated > life->n_tokens[sample]) { /* an answer that was told as a whole */
        mm->n_generated_tokens += u->n_generated - life->n_tokens[sample];
        life->n_tokens[sample] = u->n_generated;
    }
    if (sample == 0) /* the others find all of the prompt in this one's; the usage tells the same */
        mm->n_cached_tokens += u->n_cached;
    if (life->n_ended++ == 0 && life->outcome < OUTCOME_REFUSED) {
        mm->n_prompt_tokens += u->n_prompt;
        observe(mm, HISTOGRAM_PROMPT_TOKENS, u->n_prompt);
    }
    life->usage = *u;
    if (outcome > OUTCOME_LENGTH)
        return;
    observe(mm, HISTOGRAM_GENERATION_TOKENS, u->n_generated);
    if (u->n_generated > 1 && life->first_token_us != 0)
        observe(mm, HISTOGRAM_TPOT, between(life->first_token_us, now) / (u->n_generated - 1));
}

void metrics_event(struct model_metrics *mm, struct request_life *life, const struct mr_event *event)
{
    const int64_t now = metrics_now(mm->owner);
    if (event->sample < 0 || event->sample >= MR_N_MAX)
        return;
    pthread_mutex_lock(&mm->owner->lock);
    if (event->token >= 0 && !event->is_prompt)
        see_token(mm, life, event->sample, now);
    if (event->finish != MR_FINISH_NONE)
        see_end(mm, life, event, now);
    pthread_mutex_unlock(&mm->owner->lock);
}

void metrics_first_byte(struct model_metrics *mm, struct request_life *life)
{
    if (life->first_byte_us != 0)
        return;
    life->first_byte_us = metrics_now(mm->owner);
    pthread_mutex_lock(&mm->owner->lock);
    observe(mm, HISTOGRAM_TTFB, between(life->arrival_us, life->first_byte_us));
    pthread_mutex_unlock(&mm->owner->lock);
}

/* Within the latency target, and its tokens on average within that of the gaps between them. */
static bool kept_targets(const struct metrics_options *o, const struct request_life *life, int64_t now)
{
    const int64_t shown = o->latency_metric == MR_LATENCY_E2E || life->first_token_us == 0 ? now : life->first_token_us;
    int n_most = 0;
    for (int i = 0; i < MR_N_MAX; i++)
        n_most = life->n_tokens[i] > n_most ? life->n_tokens[i] : n_most;
    if (o->latency_target_ms > 0 && shown - life->arrival_us > (int64_t)o->latency_target_ms * 1000)
        return false;
    return o->itl_target_ms == 0 || n_most < 2 || now - life->first_token_us <= (int64_t)o->itl_target_ms * 1000 * (n_most - 1);
}

static void count_target(struct model_metrics *mm, const struct request_life *life, int64_t now)
{
    const struct metrics_options *o = &mm->owner->options;
    /* Cancelled and wrong ones say nothing of the server. */
    if (life->outcome == OUTCOME_CANCELLED || life->outcome == OUTCOME_REJECTED)
        return;
    const bool is_answer = life->outcome <= OUTCOME_LENGTH;
    const int bound = !is_answer || o->latency_target_ms == 0 || life->usage.is_bound;
    mm->n_slo[bound]++;
    mm->n_slo_met[bound] += is_answer && kept_targets(o, life, now);
}

void request_life_stages(const struct request_life *life, int64_t now_us, int64_t stage_us[N_STAGES])
{
    const struct mr_usage *u = &life->usage;
    const int64_t taken_up = life->arrival_us + u->queue_us, computed = taken_up + u->memory_us;
    const int64_t prefilled = computed + u->prompt_us - u->prompt_memory_us - u->prompt_sample_us;
    const int64_t done = taken_up + u->prompt_us + u->generate_us;
    /* Where each stage ends; never before the one in front of it, nor after now. */
    const int64_t end[N_STAGES] = {life->arrival_us,
                                   life->submit_us - life->loading_us,
                                   life->submit_us,
                                   taken_up,
                                   computed,
                                   prefilled,
                                   done - u->sample_us,
                                   done,
                                   now_us};
    int64_t at = life->begin_us;
    for (int i = 0; i < N_STAGES; i++) {
        const int64_t to = i == N_STAGES - 1 || end[i] > now_us ? now_us : end[i];
        stage_us[i] = to > at ? to - at : 0;
        at += stage_us[i];
    }
}

static void observe_stages(struct model_metrics *mm, const struct request_life *life, int64_t now)
{
    int64_t stage_us[N_STAGES];
    request_life_stages(life, now, stage_us);
    for (int i = 0; i < N_STAGES; i++)
        observe(mm, (enum histogram_id)(HISTOGRAM_STAGE + i), (double)stage_us[i] * 1e-6);
    const int64_t computing =
        stage_us[STAGE_MEMORY] + stage_us[STAGE_PREFILL] + stage_us[STAGE_DECODE] + stage_us[STAGE_SAMPLE];
    observe(mm, HISTOGRAM_INFERENCE, (double)computing * 1e-6);
    observe(mm, HISTOGRAM_E2E, between(life->begin_us, now));
}

/* What was computed for an answer that nobody waits for any more. */
static void count_lost(struct model_metrics *mm, const struct request_life *life)
{
    const struct mr_usage *u = &life->usage;
    double tokens = 0;
    for (int i = 0; i < MR_N_MAX; i++)
        tokens += life->n_tokens[i];
    mm->cancelled_tokens += tokens;
    mm->lost_tokens += tokens + (u->n_prompt > u->n_cached ? u->n_prompt - u->n_cached : 0);
}

void metrics_request_end(struct model_metrics *mm, struct request_life *life)
{
    const int64_t now = metrics_now(mm->owner);
    pthread_mutex_lock(&mm->owner->lock);
    if (life->n_ended < life->n_answers && life->outcome < OUTCOME_CANCELLED)
        life->outcome = OUTCOME_CANCELLED;
    mm->n_in_flight--;
    mm->n_outcome[life->outcome]++;
    count_target(mm, life, now);
    if (life->outcome <= OUTCOME_LENGTH)
        observe_stages(mm, life, now);
    else if (life->outcome == OUTCOME_CANCELLED)
        count_lost(mm, life);
    pthread_mutex_unlock(&mm->owner->lock);
}

void metrics_turned_away(struct model_metrics *mm, enum request_outcome outcome)
{
    pthread_mutex_lock(&mm->owner->lock);
    mm->n_outcome[outcome]++;
    mm->n_slo[1] += outcome == OUTCOME_REFUSED;
    pthread_mutex_unlock(&mm->owner->lock);
}

const char *request_stage_name(enum request_stage stage)
{
    static const char *const names[N_STAGES] = {"receive", "parse",  "load",   "queue", "memory",
                                                "prefill", "decode", "sample", "write"};
    return names[stage];
}
