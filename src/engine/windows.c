/* windows.c: rows of a step that are not part of any answer. Each answer's window is a sequence of its own for the step: it
 * shares the answer's blocks, has its last token and the window's tokens behind it, and is closed when the step ends. */
#include "engine/engine_state.h"
#include "engine/lookahead.h"

static struct lookahead *lookahead_of(const struct sequence *s) { return s->draft_state[DRAFT_LOOKAHEAD]; }

bool windows_want(struct mr_engine *e, struct sequence *s, const struct step_shape *plain, int room)
{
    struct lookahead *l = lookahead_of(s);
    return l != NULL && !s->window_is_faulty && room >= LOOKAHEAD_ROWS &&
           lookahead_pays(l, step_cost_draft_share(&e->cost, plain));
}

static void add_row(struct mr_engine *e, const struct sequence *s, int32_t token, bool wants_logits)
{
    const int row = e->n_row++;
    e->row_token[row] = token;
    e->row_seq[row] = s->window_kv;
    e->row_adapters[row] = &s->adapters;
    e->row_wants_logits[row] = wants_logits;
    e->row_wants_hidden[row] = false;
    e->n_logits += wants_logits;
}

void windows_add(struct mr_engine *e, struct sequence *s)
{
    int32_t token[LOOKAHEAD_WINDOW];
    struct kv_cache *kv = model_kv_cache(e->kv);
    if (!s->has_window)
        return;
    s->has_window = kv_seq_fork(kv, &s->window_kv, s->kv, s->n_cached) == MR_OK;
    if (!s->has_window)
        return;
    if (!batch_reserve_idle(e, s->window_kv, LOOKAHEAD_ROWS)) {
        windows_close(e, s);
        return;
    }
    lookahead_window(lookahead_of(s), s->token, s->n_token, token);
    s->first_window = e->n_logits;
    add_row(e, s, s->token[s->n_token - 1], false);
    for (int i = 0; i < LOOKAHEAD_WINDOW; i++)
        add_row(e, s, token[i], true);
    e->shape.n_draft += LOOKAHEAD_ROWS;
    e->shape.attended += step_attended(s->n_cached, LOOKAHEAD_ROWS);
    fair_share_charge(&e->shares[s->request->background], s->request->share, LOOKAHEAD_ROWS);
}

void windows_close(struct mr_engine *e, struct sequence *s)
{
    if (s->has_window)
        kv_seq_close(model_kv_cache(e->kv), s->window_kv);
    s->has_window = false;
}

/* As the engine would choose there, but for penalties of what stands in the window. */
void windows_take(struct mr_engine *e, struct sequence *s)
{
    int32_t pick[LOOKAHEAD_WINDOW];
    if (!s->has_window)
        return;
    struct mr_sampling params = s->request->sampling;
    params.n_logprobs = -1;
    bool ok = true;
    for (int i = 0; ok && i < LOOKAHEAD_WINDOW; i++) {
        const struct sample_point point = {.params = &params,
                                           .bias = s->bias,
                                           .n_bias = s->n_bias,
                                           .recent = s->token,
                                           .n_recent = s->n_token,
                                           .position = s->n_token + 1 + i,
                                           .sample = s->sample};
        struct sampled chosen;
        ok = sampler_pick(e->sampler, model_logits(e->model->model, s->first_window + i), &point, &chosen, NULL) == MR_OK;
        pick[i] = chosen.token;
    }
    if (ok)
        lookahead_learn(lookahead_of(s), pick);
    windows_close(e, s);
}
