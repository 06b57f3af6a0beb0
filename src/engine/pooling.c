/* pooling.c: one vector for a prompt, made of its rows' last hidden states while they are computed: their mean, the first or
 * the last one. Where the rows of a prompt are all needed the prefix cache is passed by, as it keeps no hidden states, but what
 * is computed is shared as always. The sum runs over positions in order, so that the vector's bits depend on nothing else. */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "engine/engine_state.h"

enum mr_status pooling_start(const struct mr_engine *e, struct sequence *s, struct mr_error *err)
{
    if (s->request->pooling == MR_POOLING_NONE)
        return MR_OK;
    s->pool = mem_zero_array((size_t)model_info(e->model->model)->n_embd, sizeof(double) + sizeof(float));
    return s->pool != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for an embedding");
}

/* The position behind the last one that counts. */
static int pool_end(const struct sequence *s) { return s->request->pooling == MR_POOLING_CLS ? 1 : s->request->n_prompt; }

bool sequence_pools(const struct sequence *s, int position)
{
    if (s->pool == NULL || position < s->n_pooled || position >= pool_end(s))
        return false;
    return s->request->pooling != MR_POOLING_LAST || position == s->request->n_prompt - 1;
}

bool sequence_pools_all(const struct sequence *s)
{
    return s->pool != NULL && s->request->pooling != MR_POOLING_LAST && s->n_pooled < pool_end(s);
}

void pooling_take(struct mr_engine *e, struct sequence *s)
{
    const int n = model_info(e->model->model)->n_embd;
    for (int i = 0; i < s->n_hidden; i++) {
        const float *h = model_hidden(e->model->model, s->first_hidden + i);
        for (int j = 0; j < n; j++)
            s->pool[j] += (double)h[j];
        s->n_pooled++;
    }
}

/* vector[n] of the sum. false: it has NaN or infinity. */
static bool finish(struct sequence *s, int n, float *vector)
{
    double squares = 0;
    for (int j = 0; j < n; j++) {
        s->pool[j] /= s->n_pooled;
        squares += s->pool[j] * s->pool[j];
    }
    const double length = s->request->normalize && squares > 0 ? sqrt(squares) : 1;
    for (int j = 0; j < n; j++)
        vector[j] = (float)(s->pool[j] / length);
    return isfinite(squares);
}

void pooling_end(struct mr_engine *e, struct sequence *s)
{
    const int n = model_info(e->model->model)->n_embd;
    float *vector = (float *)(s->pool + n); /* its place is behind the sum */
    struct mr_error err = {{0}};
    s->usage.prompt_us = e->now_us - s->start_us;
    s->usage.first_token_us = e->now_us - s->request->arrival_us;
    if (!finish(s, n, vector)) {
        mr_fail(&err, MR_BAD_FORMAT, "outside the layers: the last norm gave NaN or infinity");
        sequence_fail(e, s, MR_BAD_FORMAT, &err);
        return;
    }
    const struct event_record event = {
        .request = s->request->id, .token = -1, .finish = MR_FINISH_STOP, .usage = s->usage, .n_embedding = n};
    if (engine_emit_embedding(e, &event, vector) != MR_OK) {
        mr_fail(&err, MR_NO_MEMORY, "no memory for the events of a request");
        sequence_fail(e, s, MR_NO_MEMORY, &err);
        return;
    }
    admission_first_token(e, s);
    admission_answer_done(e, s);
    sequence_release(e, s);
}
