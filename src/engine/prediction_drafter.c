/* prediction_drafter.c: the text that the caller expects. */
#include <stdlib.h>

#include "base/memory.h"
#include "engine/drafter.h"
#include "engine/reference.h"

static void *start(void *context, const struct draft_view *view)
{
    (void)context;
    struct reference *r = view->n_prediction > 0 ? mem_array(1, sizeof *r) : NULL;
    if (r != NULL)
        reference_init(r, view->prediction, view->n_prediction);
    return r;
}

static void end(void *context, void *state)
{
    (void)context;
    free(state);
}

static int propose(void *context, struct draft_view *view, int32_t *out, int n_max)
{
    struct reference *r = view->state;
    (void)context;
    if (r == NULL)
        return 0;
    reference_follow(r, view->token + view->n_prompt, view->n_token - view->n_prompt);
    return reference_continue(r, out, n_max, &view->grade);
}

const struct drafter prediction_drafter = {.propose = propose, .start = start, .end = end};
