/* step.c: one step of the engine: admit, build a batch, run the model, choose tokens. */
#include <stdlib.h>

#include "engine/engine_state.h"

static void end_with_error(struct mr_engine *e, struct sequence *s, const struct mr_error *err)
{
    const struct event_record event = {.request = s->request->id, .token = -1, .finish = MR_FINISH_ERROR, .usage = s->usage};
    engine_emit_end(e, event, err->message);
    sequence_release(e, s);
}

/* The oldest waiting requests into the free slots. */
static void admit(struct mr_engine *e)
{
    for (int i = 0; i < e->options.max_running && e->n_waiting > 0; i++) {
        if (e->slot[i].request != NULL)
            continue;
        struct request_record *r = e->waiting[e->first_waiting];
        e->first_waiting = (e->first_waiting + 1) % e->options.max_queue;
        e->n_waiting--;
        struct mr_error err = {{0}};
        if (sequence_start(e, &e->slot[i], r, &err) == MR_OK)
            continue;
        engine_emit_end(e, (struct event_record){.request = r->id, .token = -1, .finish = MR_FINISH_ERROR}, err.message);
        free(r);
    }
}

/* The next n tokens of the sequence into the batch. */
static void add_rows(struct mr_engine *e, struct sequence *s, struct batch *batch, int n)
{
    s->n_row = n;
    s->logits = s->n_cached + n == s->n_token ? e->n_logits++ : -1;
    for (int i = 0; i < n; i++) {
        const int row = batch->n_row++;
        e->row_token[row] = s->token[s->n_cached + i];
        e->row_seq[row] = s->kv;
        e->row_wants_logits[row] = s->logits >= 0 && i == n - 1;
    }
}

static bool is_decoding(const struct sequence *s) { return s->n_token - s->n_cached == 1; }

/* Decoding sequences first, so that no prompt holds up a stream; then prompts as far as the rows go. */
static struct batch build_batch(struct mr_engine *e)
{
    e->n_logits = 0;
    struct batch batch = {.token = e->row_token, .seq = e->row_seq, .wants_logits = e->row_wants_logits};
    for (int i = 0; i < e->options.max_running; i++) {
        struct sequence *s = &e->slot[i];
        s->n_row = 0;
        if (s->request != NULL && is_decoding(s))
            add_rows(e, s, &batch, 1);
    }
    for (int i = 0; i < e->options.max_running; i++) {
        struct sequence *s = &e->slot[i];
        const int todo = s->n_token - s->n_cached, room = e->options.prompt_chunk - batch.n_row;
        if (s->request != NULL && s->n_row == 0 && room > 0)
            add_rows(e, s, &batch, todo < room ? todo : room);
    }
    return batch;
}

static void count_token(struct mr_engine *e, struct sequence *s)
{
    const int64_t now = engine_now_us(e);
    if (s->usage.n_generated == 0) {
        s->first_us = now;
        s->usage.prompt_us = now - s->start_us;
        s->usage.first_token_us = now - s->request->arrival_us;
    }
    s->usage.n_generated++;
    s->usage.generate_us = now - s->first_us;
}

/* Text and finish reason of the chosen token, and its event. */
static enum mr_status emit_token(struct mr_engine *e, struct sequence *s, const struct sampled *chosen, enum mr_finish *finish,
                                 struct mr_error *err)
{
    bool stopped = false;
    *finish = MR_FINISH_NONE;
    if (tokenizer_is_end(e->model->tokenizer, chosen->token))
        *finish = MR_FINISH_STOP;
    MR_TRY(answer_push(&s->answer, chosen->token, &stopped, err));
    if (stopped)
        *finish = MR_FINISH_STOP;
    else if (*finish == MR_FINISH_NONE && s->n_token == s->room)
        *finish = MR_FINISH_LENGTH;
    if (*finish != MR_FINISH_NONE && !stopped)
        MR_TRY(answer_end(&s->answer, err));
    const struct event_record event = {.request = s->request->id,
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

/* Choose the sequence's next token from its logits. */
static enum mr_status advance(struct mr_engine *e, struct sequence *s, const float *logits, enum mr_finish *finish,
                              struct mr_error *err)
{
    const uint64_t *allowed = NULL;
    if (s->constraint != NULL)
        MR_TRY(constraint_mask(&allowed, s->constraint, err));
    const struct sample_point point = {.params = &s->request->sampling,
                                       .bias = s->bias,
                                       .n_bias = s->n_bias,
                                       .allowed = allowed,
                                       .recent = s->token,
                                       .n_recent = s->n_token,
                                       .position = s->n_token};
    struct sampled chosen;
    MR_TRY(sampler_pick(e->sampler, logits, &point, &chosen, err));
    if (s->constraint != NULL)
        MR_TRY(constraint_accept(s->constraint, chosen.token, err));
    s->token[s->n_token++] = chosen.token;
    count_token(e, s);
    return emit_token(e, s, &chosen, finish, err);
}

/* A request for no tokens ends once its prompt has been computed. */
static void end_without_token(struct mr_engine *e, struct sequence *s)
{
    s->usage.prompt_us = engine_now_us(e) - s->start_us;
    engine_emit_end(
        e, (struct event_record){.request = s->request->id, .token = -1, .finish = MR_FINISH_LENGTH, .usage = s->usage}, NULL);
    sequence_release(e, s);
}

static void take_logits(struct mr_engine *e, struct sequence *s, const float *logits)
{
    struct mr_error err = {{0}};
    enum mr_finish finish;
    if (s->n_token == s->room)
        end_without_token(e, s);
    else if (advance(e, s, logits, &finish, &err) != MR_OK)
        end_with_error(e, s, &err);
    else if (finish != MR_FINISH_NONE)
        sequence_release(e, s);
}

/* Give each sequence in the batch what the model made of its rows. */
static void collect(struct mr_engine *e)
{
    for (int i = 0; i < e->options.max_running; i++) {
        struct sequence *s = &e->slot[i];
        if (s->n_row == 0)
            continue;
        s->n_cached += s->n_row;
        if (s->logits >= 0)
            take_logits(e, s, model_logits(e->model->model, s->logits));
    }
}

void mr_engine_step(struct mr_engine *e)
{
    admit(e);
    const struct batch batch = build_batch(e);
    if (batch.n_row == 0)
        return;
    struct mr_error err = {{0}};
    if (model_forward(e->model->model, e->kv, &batch, &err) == MR_OK) {
        collect(e);
        return;
    }
    for (int i = 0; i < e->options.max_running; i++)
        if (e->slot[i].n_row > 0)
            end_with_error(e, &e->slot[i], &err);
}
