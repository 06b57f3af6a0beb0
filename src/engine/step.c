/* step.c: one step of the engine: admit, build a batch, run the model, choose tokens. */
#include "base/page_faults.h"
#include "engine/replay.h"
#include "engine/second_tier.h"

void engine_replay(struct mr_engine *e, int32_t (*token)(void *context, uint64_t request, int32_t n_generated), void *context)
{
    e->replay = token;
    e->replay_context = context;
}

enum {
    IDLE_WAIT_US = 1000 /* for constraints, of a step without rows: its caller has requests to hand over */
};

static void count_token(struct mr_engine *e, struct sequence *s)
{
    const int64_t now = e->now_us;
    if (s->usage.n_generated == 0) {
        s->first_us = now;
        s->usage.prompt_us = now - s->start_us;
        s->usage.first_token_us = now - s->request->arrival_us;
        admission_first_token(e, s);
    }
    s->usage.n_generated++;
    s->usage.generate_us = now - s->first_us;
}

static bool is_stop_token(const struct request_record *r, int32_t token)
{
    for (int32_t i = 0; i < r->n_stop_token; i++)
        if (request_record_stop_token(r)[i] == token)
            return true;
    return false;
}

/* Text and finish reason of the chosen token, and its event. */
static enum mr_status emit_token(struct mr_engine *e, struct sequence *s, const struct sampled *chosen, enum mr_finish *finish,
                                 struct mr_error *err)
{
    bool stopped = false;
    *finish = MR_FINISH_NONE;
    const bool is_stop = is_stop_token(s->request, chosen->token),
               is_end = tokenizer_is_end(e->model->tokenizer, chosen->token);
    if (is_stop || is_end)
        *finish = MR_FINISH_STOP;
    if (is_stop || (is_end && !s->request->show_end))
        string_buffer_clear(&s->answer.text);
    else
        MR_TRY(answer_push(&s->answer, chosen->token, &stopped, err));
    if (stopped)
        *finish = MR_FINISH_STOP;
    else if (*finish == MR_FINISH_NONE && s->n_token == s->room)
        *finish = MR_FINISH_LENGTH;
    if (*finish != MR_FINISH_NONE && !stopped)
        MR_TRY(answer_end(&s->answer, err));
    const struct event_record event = {.request = s->request->id,
                                       .sample = s->sample,
                                       .token = chosen->token,
                                       .finish = *finish,
                                       .logprob = chosen->logprob,
                                       .usage = s->usage,
                                       .n_top = chosen->n_top,
                                       .n_text = s->answer.text.n};
    return engine_emit(e, &event, chosen->top, s->answer.text.s) == MR_OK
               ? MR_OK
               : mr_fail(err, MR_NO_MEMORY, "no memory for the events of a request");
}

/* Choose the sequence's next token from its logits. draft: what was guessed; -1: nothing. */
static enum mr_status advance(struct mr_engine *e, struct sequence *s, const float *logits, int32_t draft,
                              enum mr_finish *finish, struct mr_error *err)
{
    const uint64_t *allowed;
    MR_TRY(sequence_allowed(e, s, &allowed, err));
    const struct sample_point point = {.params = &s->request->sampling,
                                       .bias = s->bias,
                                       .n_bias = s->usage.n_generated < s->request->min_tokens ? s->n_early_bias : s->n_bias,
                                       .allowed = allowed,
                                       .recent = s->token,
                                       .n_recent = s->n_token,
                                       .position = s->n_token,
                                       .sample = s->sample};
    struct sampled chosen;
    MR_TRY(sampler_pick(e->sampler, logits, &point, &chosen, err));
    const int32_t given = e->replay != NULL ? e->replay(e->replay_context, s->request->id, s->usage.n_generated) : -1;
    chosen.token = given >= 0 ? given : chosen.token;
    MR_TRY(sequence_obey(s, chosen.token, err));
    s->token[s->n_token++] = chosen.token;
    s->usage.n_accepted += chosen.token == draft;
    count_token(e, s);
    return emit_token(e, s, &chosen, finish, err);
}

/* Choose from each of the sequence's logits in turn, as long as the choice is the draft that the next ones stand behind. */
static enum mr_status take_logits(struct mr_engine *e, struct sequence *s, enum mr_finish *finish, struct mr_error *err)
{
    const int n_accepted = s->usage.n_accepted;
    s->usage.n_drafted += s->n_draft;
    for (int row = s->logits, more = 1; more; row++) {
        const int32_t draft = row - s->logits < s->n_draft ? s->token[s->n_token] : -1;
        MR_TRY(advance(e, s, model_logits(e->model->model, row), draft, finish, err));
        more = *finish == MR_FINISH_NONE && s->token[s->n_token - 1] == draft;
        s->n_cached += more;
    }
    drafts_judge(e, s, s->usage.n_accepted - n_accepted);
    return MR_OK;
}

/* What the model made of the sequence's rows. */
static void take_rows(struct mr_engine *e, struct sequence *s)
{
    struct mr_error err = {{0}};
    enum mr_finish finish = MR_FINISH_NONE;
    enum mr_status status = MR_OK;
    const int n_before = s->n_cached;
    const bool is_full = s->n_token == s->room; /* a request for no tokens ends once its prompt has been computed */
    s->n_cached += s->n_row - s->n_draft;
    pooling_take(e, s);
    if (s->n_score > 0)
        status = scores_take(e, s, &err);
    if (status == MR_OK && s->logits >= 0 && !is_full)
        status = take_logits(e, s, &finish, &err);
    kv_seq_settle(model_kv_cache(e->kv), s->kv, s->n_cached);
    sequence_publish(e, s, n_before);
    s->n_computed = s->n_cached > s->n_computed ? s->n_cached : s->n_computed;
    if (status != MR_OK) {
        sequence_fail(e, s, status, &err);
    } else if (s->pool != NULL && s->n_cached == s->n_token) {
        pooling_end(e, s);
    } else if (s->logits >= 0 && is_full) {
        s->usage.prompt_us = e->now_us - s->start_us;
        sequence_end(e, s, MR_FINISH_LENGTH);
    } else if (finish != MR_FINISH_NONE) {
        admission_answer_done(e, s);
        sequence_release(e, s);
    }
}

/* Give each sequence in the batch what the model made of its rows. */
static void collect(struct mr_engine *e)
{
    for (int i = 0; i < e->n_slot; i++)
        windows_take(e, &e->slot[i]);
    for (int i = 0; i < e->n_slot; i++)
        if (e->slot[i].n_row > 0)
            take_rows(e, &e->slot[i]);
}

static void count_step(struct mr_engine *e, int64_t time_us)
{
    e->stats.n_steps++;
    e->stats.step_us += time_us;
    e->stats.n_decode_rows += e->shape.n_decode;
    e->stats.n_draft_rows += e->shape.n_draft;
    e->stats.n_prompt_rows += e->shape.n_prompt;
}

/* The forward pass has failed. NaN or infinity in a row are its sequence's: the others did not get on, and do in the next
 * step. */
static void fail_rows(struct mr_engine *e, enum mr_status status, const struct mr_error *err)
{
    const int row = model_fault_row(e->model->model);
    for (int i = 0; i < e->n_slot; i++) {
        struct sequence *s = &e->slot[i];
        s->window_is_faulty |= s->has_window && row >= 0 && e->row_seq[row] == s->window_kv;
        windows_close(e, s);
        if (s->n_row > 0 && (row < 0 || e->row_seq[row] == s->kv))
            sequence_fail(e, s, status, err);
    }
}

/* The forward pass, from the engine's now_us on. *fault_us: what it took longer than predicted, where pages came from a disk.
 */
static enum mr_status forward(struct mr_engine *e, const struct batch *batch, int64_t *fault_us, struct mr_error *err)
{
    const int64_t begin_us = e->now_us, n_fault = page_faults_major();
    MR_TRY(model_forward(e->model->model, e->kv, batch, err));
    e->now_us = engine_now_us(e);
    const int64_t predicted = (int64_t)step_cost_us(&e->cost, &e->shape),
                  longer = e->now_us - begin_us - e->draft_us - predicted;
    *fault_us = page_faults_major() > n_fault && predicted > 0 && longer > 0 ? longer : 0;
    return MR_OK;
}

/* Of a step from begin_us to end_us. */
struct step_times {
    int64_t begin_us, end_us;
    int64_t chosen_us; /* from when on tokens were chosen */
    int64_t fault_us;  /* waiting for pages */
};

/* What of the step was not the forward pass for those that run. A step that gives the first token ends behind it. */
static void split_time(struct mr_engine *e, const struct step_times *t)
{
    for (int i = 0; i < e->n_slot; i++) {
        struct sequence *s = &e->slot[i];
        struct mr_usage *u = &s->usage;
        if (s->request == NULL || s->start_us < 0)
            continue;
        const bool waits = !s->in_cache || (s->n_row == 0 && s->fetch_to > s->n_cached);
        const int64_t memory = waits ? t->end_us - t->begin_us : t->fault_us, sample = waits ? 0 : t->end_us - t->chosen_us;
        u->memory_us += memory;
        u->sample_us += sample;
        if (u->n_generated > 0)
            continue;
        u->prompt_memory_us += memory;
        u->prompt_sample_us += sample;
    }
}

/* Time in which nothing was computed while there were requests. */
static void count_idle(struct mr_engine *e, int64_t begin_us)
{
    if (e->ended_us > 0 && begin_us > e->ended_us)
        e->stats.idle_us += begin_us - e->ended_us;
}

static void end_step(struct mr_engine *e, const struct step_times *t)
{
    split_time(e, t);
    e->ended_us = mr_engine_is_idle(e) ? 0 : t->end_us;
}

static void wait_for_work(struct mr_engine *e, int64_t begin_us)
{
    constraint_store_wait(&e->constraints, IDLE_WAIT_US); /* there is nothing to do before */
    second_tier_wait(e);
    const int64_t end_us = engine_now_us(e);
    e->stats.idle_us += end_us - begin_us;
    end_step(e, &(struct step_times){.begin_us = begin_us, .chosen_us = end_us, .end_us = end_us});
}

void mr_engine_step(struct mr_engine *e)
{
    struct step_times t = {.begin_us = engine_now_us(e)};
    struct mr_error err = {{0}};
    e->now_us = t.begin_us;
    count_idle(e, t.begin_us);
    schedule_admit(e);
    const struct batch batch = batch_build(e);
    if (batch.n_row == 0) {
        wait_for_work(e, t.begin_us);
        return;
    }
    const enum mr_status status = forward(e, &batch, &t.fault_us, &err);
    if (status == MR_OK) {
        t.chosen_us = e->now_us;
        count_step(e, e->now_us - t.begin_us);
        collect(e);
        t.end_us = engine_now_us(e);
        step_cost_observe(&e->cost, &e->shape,
                          t.end_us - t.begin_us - t.fault_us - e->draft_us); /* choosing tokens takes its time */
        end_step(e, &t);
        admission_observe(e);
        return;
    }
    fail_rows(e, status, &err);
}
