/* sequence.c: a request that runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/engine_state.h"

static void fill_bias(const struct mr_model *m, struct sequence *s)
{
    const struct request_record *r = s->request;
    memcpy(s->bias, request_record_bias(r), (size_t)r->n_bias * sizeof *s->bias);
    for (int i = r->n_bias; i < s->n_early_bias; i++) {
        const int end = i - r->n_bias;
        const int32_t token = end < m->n_end_tokens ? m->end_token[end] : request_record_stop_token(r)[end - m->n_end_tokens];
        s->bias[i] = (struct mr_logit_bias){.token = token, .bias = -INFINITY};
    }
}

static enum mr_status start_parts(struct mr_engine *e, struct sequence *s, struct mr_error *err)
{
    const struct request_record *r = s->request;
    const struct mr_model *m = e->model;
    s->room = r->max_tokens >= 0 && r->max_tokens < e->n_ctx - r->n_prompt ? r->n_prompt + r->max_tokens : e->n_ctx;
    s->token = mem_array((size_t)s->room, sizeof *s->token);
    const bool has_early = r->min_tokens > 0;
    s->n_bias = r->n_bias + (r->ignore_eos ? m->n_end_tokens : 0);
    s->n_early_bias = r->n_bias + (r->ignore_eos || has_early ? m->n_end_tokens : 0) + (has_early ? r->n_stop_token : 0);
    s->bias = mem_array((size_t)s->n_early_bias, sizeof *s->bias);
    if (s->token == NULL || s->bias == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a sequence of %d tokens", s->room);
    if (e->prefixes != NULL) {
        s->key = mem_array((size_t)s->room / KV_BLOCK + 1, sizeof *s->key);
        if (s->key == NULL)
            return mr_fail(err, MR_NO_MEMORY, "no memory for a sequence of %d tokens", s->room);
    }
    memcpy(s->token, request_record_prompt(r), (size_t)r->n_prompt * sizeof *s->token);
    s->n_token = r->n_prompt;
    fill_bias(m, s);
    adapters_find(m, request_record_adapter(r), r->n_adapter, &s->adapters);
    MR_TRY(pooling_start(e, s, err));
    MR_TRY(answer_start(&s->answer, m->tokenizer, r, err));
    return sequence_start_obeying(s, err);
}

static void release_parts(struct sequence *s)
{
    answer_release(&s->answer);
    constraint_state_free(s->constraint);
    free(s->key);
    free(s->token);
    free(s->pool);
    free(s->bias);
    *s = (struct sequence){0};
}

enum mr_status sequence_start(struct mr_engine *e, struct sequence *s, struct request_record *request, struct mr_error *err)
{
    *s = (struct sequence){.request = request, .sample = request->n_started, .start_us = -1};
    const enum mr_status status = start_parts(e, s, err);
    if (status != MR_OK) {
        release_parts(s);
        return status;
    }
    drafts_start(e, s);
    s->usage = (struct mr_usage){.n_prompt = request->n_prompt, .cache_miss = MR_CACHE_OFF, .is_bound = request->is_bound};
    return MR_OK;
}

void sequence_release(struct mr_engine *e, struct sequence *s)
{
    if (s->request == NULL)
        return;
    if (s->in_cache)
        sequence_leave_cache(e, s);
    struct request_record *request = s->request;
    drafts_end(e, s);
    release_parts(s);
    engine_answer_ended(e, request);
}

void sequence_end(struct mr_engine *e, struct sequence *s, enum mr_finish finish)
{
    const struct event_record event = {
        .request = s->request->id, .sample = s->sample, .token = -1, .finish = (int32_t)finish, .usage = s->usage};
    engine_emit_end(e, event, NULL);
    sequence_release(e, s);
}

void sequence_fail(struct mr_engine *e, struct sequence *s, enum mr_status status, const struct mr_error *err)
{
    const struct event_record event = {.request = s->request->id,
                                       .sample = s->sample,
                                       .token = -1,
                                       .finish = MR_FINISH_ERROR,
                                       .status = (int32_t)status,
                                       .usage = s->usage};
    engine_emit_end(e, event, err->message);
    sequence_release(e, s);
}

void sequence_put_aside(struct mr_engine *e, struct sequence *s)
{
    sequence_leave_cache(e, s);
    s->usage.n_preempted++;
    e->stats.n_preempted++;
}

bool sequence_is_senior(const struct sequence *a, const struct sequence *b)
{
    if (a->request->background != b->request->background)
        return !a->request->background;
    if (a->request->priority != b->request->priority)
        return a->request->priority > b->request->priority;
    return a->request->id != b->request->id ? a->request->id < b->request->id : a->sample < b->sample;
}
