/* trainee.c: one of four. */
#include "compress/trainee.h"

#include "compress/text_windows.h"

float *trainee_weights(const struct trainee *t)
{
    if (t->eagle != NULL)
        return t->eagle->w;
    if (t->heads != NULL)
        return t->heads->w;
    return t->lora != NULL ? t->lora->w : t->student->w;
}

size_t trainee_n_weight(const struct trainee *t)
{
    if (t->eagle != NULL)
        return t->eagle->n_weight;
    if (t->heads != NULL)
        return t->heads->n_weight;
    return t->lora != NULL ? t->lora->n_weight : t->student->n_weight;
}

uint64_t trainee_digest(const struct trainee *t, uint64_t sum)
{
    sum = digest_bytes(sum, t->student->w, t->student->n_weight * sizeof(float));
    if (t->heads != NULL)
        sum = digest_bytes(sum, &t->heads->n_head, sizeof t->heads->n_head);
    if (t->eagle != NULL)
        sum = digest_bytes(sum, t->eagle->w, t->eagle->n_weight * sizeof(float));
    if (t->lora == NULL)
        return sum;
    sum = digest_bytes(sum, &t->lora->rank, sizeof t->lora->rank);
    sum = digest_bytes(sum, &t->lora->alpha, sizeof t->lora->alpha);
    sum = digest_bytes(sum, &t->lora->targets, sizeof t->lora->targets);
    return digest_bytes(sum, t->lora->w, t->lora->n_weight * sizeof(float));
}

double trainee_flops_per_token(const struct trainee *t, int n_tok)
{
    if (t->eagle != NULL)
        return train_flops_per_token(t->student, n_tok) / 3 + eagle_flops_per_token(t->eagle, n_tok);
    if (t->heads != NULL)
        return train_flops_per_token(t->student, n_tok) / 3 + head_flops_per_token(t->heads, t->student);
    return t->lora != NULL ? lora_flops_per_token(t->lora, n_tok) : train_flops_per_token(t->student, n_tok);
}

static void step_heads(const struct trainee *t, struct compute *c, const struct adamw *a, const float *grad, double norm,
                       float *first, float *second, int64_t step, float rate)
{
    const struct draft_heads *h = t->heads;
    struct param_place place[2 * DRAFT_HEADS_MAX];
    for (int i = 0; i < h->n_head; i++) {
        place[2 * i] = draft_heads_weight(h, i);
        place[2 * i + 1] = draft_heads_bias(h, i);
    }
    adamw_step_places(c, a, h->w, place, 2 * h->n_head, grad, norm, first, second, step, rate);
}

static void step_eagle(const struct trainee *t, struct compute *c, const struct adamw *a, const float *grad, double norm,
                       float *first, float *second, int64_t step, float rate)
{
    const struct eagle *e = t->eagle;
    struct param_place place[N_PARAMS + 2];
    int n = 0;
    for (enum param p = N_GLOBAL_PARAMS; p < N_PARAMS; p++)
        place[n++] = train_param(&e->block, 0, p);
    place[n++] = eagle_weight(e);
    place[n++] = eagle_bias(e);
    adamw_step_places(c, a, e->w, place, n, grad, norm, first, second, step, rate);
}

static void step_lora(const struct trainee *t, struct compute *c, const struct adamw *a, const float *grad, double norm,
                      float *first, float *second, int64_t step, float rate)
{
    const struct lora *l = t->lora;
    for (int layer = 0; layer < l->base->h.n_layer; layer++)
        for (enum param p = N_GLOBAL_PARAMS; p < N_PARAMS; p++) {
            const struct param_place place[2] = {lora_a(l, layer, p), lora_b(l, layer, p)};
            adamw_step_places(c, a, l->w, place, 2, grad, norm, first, second, step, rate);
        }
}

void trainee_step(const struct trainee *t, struct compute *c, const struct adamw *a, const float *grad, double norm,
                  float *first, float *second, int64_t step, float rate)
{
    if (t->eagle != NULL)
        step_eagle(t, c, a, grad, norm, first, second, step, rate);
    else if (t->heads != NULL)
        step_heads(t, c, a, grad, norm, first, second, step, rate);
    else if (t->lora != NULL)
        step_lora(t, c, a, grad, norm, first, second, step, rate);
    else
        adamw_step(c, a, t->student, grad, norm, first, second, step, rate);
}
