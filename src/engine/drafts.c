/* drafts.c: the guessed tokens of a step. */
#include "engine/engine_state.h"

enum {
    PROMPT_ROWS_BESIDE = KV_BLOCK /* rows of a step that drafts leave to prompts which wait for them */
};

static int lesser(int a, int b) { return a < b ? a : b; }

void engine_set_drafter(struct mr_engine *e, const struct drafter *drafter) { e->drafter[DRAFT_GUEST] = *drafter; }

static bool has_drafter(const struct mr_engine *e)
{
    for (int i = 0; i < N_DRAFT_SOURCES; i++)
        if (e->drafter[i].propose != NULL)
            return true;
    return false;
}

/* A step may take as long as the target says, and half as long again as without drafts where that alone is longer: then it is
 * the machine that is slow, and drafts are what shortens the gaps. */
static int room_in_time(const struct mr_engine *e, const struct step_shape *plain)
{
    const double plain_us = step_cost_us(&e->cost, plain), target_us = e->options.itl_target_ms * 1e3;
    const double row_us = step_cost_draft_row_us(&e->cost), slow_us = plain_us * 1.5;
    const double room_us = (target_us > slow_us ? target_us : slow_us) - plain_us;
    return e->options.itl_target_ms == 0 || row_us * e->max_row <= room_us ? e->max_row : (int)(room_us / row_us);
}

int drafts_room(const struct mr_engine *e, const struct step_shape *plain, int n_running)
{
    if (!has_drafter(e))
        return 0;
    const int n_beside = n_running > plain->n_decode ? PROMPT_ROWS_BESIDE : 0;
    int n = lesser(e->max_row, e->options.prompt_chunk > n_running ? e->options.prompt_chunk : n_running);
    n = lesser(n - plain->n_decode - n_beside, model_info(e->model->model)->max_logits - n_running);
    n = lesser(n, room_in_time(e, plain));
    return n > 0 ? n : 0;
}

/* As far as they are tokens. */
static int n_valid(const struct mr_engine *e, const int32_t *draft, int n)
{
    int i = 0;
    while (i < n && draft[i] >= 0 && draft[i] < model_info(e->model->model)->n_vocab)
        i++;
    return i;
}

int drafts_propose(struct mr_engine *e, struct sequence *s, const struct step_shape *plain, int n_max)
{
    const struct draft_view view = {
        .request = s->request->id,
        .sample = s->sample,
        .token = s->token,
        .n_token = s->n_token,
        .n_prompt = s->request->n_prompt,
        .constraint = s->constraint,
        .trie = s->constraint != NULL ? constraint_store_trie(&e->constraints, s->request->stored[STORED_CONSTRAINT]) : NULL};
    const int room = lesser(lesser(n_max, DRAFTS_MAX), s->room - s->n_token - 1); /* the last token follows the last draft */
    for (int i = 0; room > 0 && i < N_DRAFT_SOURCES; i++) {
        const struct drafter *d = &e->drafter[i];
        if (d->propose == NULL)
            continue;
        const int depth = d->always ? room : draft_record_depth(&s->drafts[i], step_cost_draft_share(&e->cost, plain));
        const int n = depth > 0 ? d->propose(d->context, &view, s->token + s->n_token, lesser(room, depth)) : 0;
        s->draft_source = (enum draft_source)i;
        if (n > 0)
            return n_valid(e, s->token + s->n_token, n);
    }
    return 0;
}

void drafts_judge(struct mr_engine *e, struct sequence *s, int n_accepted)
{
    if (s->n_draft > 0)
        draft_record_observe(&s->drafts[s->draft_source], s->n_draft, n_accepted);
    e->stats.n_drafts_accepted += n_accepted;
}
