/* prompt_scores.c: logprobs of the prompt's own tokens. The row of position p tells what the model thought of the token at
 * p + 1. The answer with index 0 computes them; what the prefix cache has of its prompt is computed again, since logits are not
 * kept, but what it computes is shared as always. */
#include "engine/engine_state.h"

bool sequence_has_scores(const struct sequence *s)
{
    return s->request->prompt_logprobs >= 0 && s->sample == 0 && s->n_scored < s->request->n_prompt - 1;
}

bool sequence_scores(const struct sequence *s, int position)
{
    return sequence_has_scores(s) && position >= s->n_scored && position < s->request->n_prompt - 1;
}

/* Each sequence that has no rows yet keeps one for its next token. */
static int logits_room(const struct mr_engine *e, const struct sequence *s)
{
    int n = model_info(e->model->model)->max_logits - e->n_logits;
    for (int i = 0; i < e->n_slot; i++) {
        const struct sequence *t = &e->slot[i];
        n -= t != s && t->request != NULL && t->in_cache && t->n_row == 0 && t->request->background == e->is_background_step;
    }
    return n;
}

int scores_rows(const struct mr_engine *e, const struct sequence *s, int n)
{
    if (!sequence_has_scores(s))
        return n;
    const int n_silent = s->n_scored - s->n_cached, n_left = s->request->n_prompt - 1 - s->n_scored;
    const int room = logits_room(e, s);
    const int most = n_silent + (room < n_left ? room : n_left);
    return n_left < room || n < most ? n : most; /* else the last row, which gives the next token's logits, comes later */
}

enum mr_status scores_take(struct mr_engine *e, struct sequence *s, struct mr_error *err)
{
    for (int i = 0; i < s->n_score; i++) {
        struct sampled scored;
        const int32_t token = s->token[s->n_scored + 1];
        MR_TRY(sampler_score(e->sampler, model_logits(e->model->model, s->first_logits + i), token, s->request->prompt_logprobs,
                             &scored, err));
        const struct event_record event = {.request = s->request->id,
                                           .sample = s->sample,
                                           .token = token,
                                           .is_prompt = true,
                                           .logprob = scored.logprob,
                                           .n_top = scored.n_top};
        if (engine_emit(e, &event, scored.top, NULL) != MR_OK)
            return mr_fail(err, MR_NO_MEMORY, "no memory for the events of a request");
        s->n_scored++;
    }
    return MR_OK;
}
