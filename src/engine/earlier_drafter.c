/* earlier_drafter.c: what answered a prompt like this one. Every answer is kept for those that come. */
#include <stdlib.h>

#include "base/memory.h"
#include "engine/engine_state.h"
#include "engine/reference.h"

struct earlier {
    struct prefix_key seed;
    struct prompt_sketch sketch;
    struct earlier_answer *answer; /* NULL: none is alike */
    struct reference reference;    /* on it */
};

static void *start(void *context, const struct draft_view *view)
{
    struct mr_engine *e = context;
    const struct sequence *s = &e->slot[view->slot];
    struct earlier *r = s->pool == NULL && e->earlier.capacity > 0 ? mem_zero_array(1, sizeof *r) : NULL;
    if (r == NULL)
        return NULL;
    sequence_seed(e, s->request, &r->seed);
    prompt_sketch_make(&r->sketch, view->token, view->n_prompt);
    if (view->n_prediction == 0) /* the caller knows better */
        r->answer = earlier_answers_find(&e->earlier, &r->seed, &r->sketch);
    if (r->answer != NULL) {
        int n;
        const int32_t *token = earlier_answer_tokens(r->answer, &n);
        reference_init(&r->reference, token, n);
    }
    return r;
}

static void end(void *context, void *state)
{
    struct mr_engine *e = context;
    struct earlier *r = state;
    if (r->answer != NULL)
        earlier_answers_leave(&e->earlier, r->answer);
    free(r);
}

static int propose(void *context, struct draft_view *view, int32_t *out, int n_max)
{
    struct earlier *r = view->state;
    (void)context;
    if (r == NULL || r->answer == NULL)
        return 0;
    reference_follow(&r->reference, view->token + view->n_prompt, view->n_token - view->n_prompt);
    return reference_continue(&r->reference, out, n_max, &view->grade);
}

struct drafter earlier_drafter(struct mr_engine *e)
{
    return (struct drafter){.propose = propose, .start = start, .end = end, .context = e};
}

void earlier_drafter_note(struct mr_engine *e, const struct sequence *s)
{
    const struct earlier *r = s->draft_state[DRAFT_EARLIER];
    const int n_prompt = s->request->n_prompt;
    if (r != NULL)
        earlier_answers_add(&e->earlier, &r->seed, &r->sketch, s->token + n_prompt, s->n_token - n_prompt);
}
