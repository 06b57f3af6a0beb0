/* heads_lesson.c: the base forward, then the heads. */
#include "compress/heads_lesson.h"

#include <stdlib.h>

#include "base/memory.h"

static const float weight_ratio = 0.8f; /* of a head to the one before */

struct heads_lesson {
    struct heads_lesson_options o;
    struct head_pass *pass;
    struct eagle_pass *eagle_pass;
    const float *feature; /* the base's, of this run */
    float weight[DRAFT_HEADS_MAX];
    int32_t *label; /* [n_head][n_row] */
    int32_t *id;    /* [n_row + DRAFT_HEADS_MAX][k]: the base's best, and room for rows that guess past the end */
    float *p;
    struct row_loss *rows;
    struct lesson_sums *sums;
    int n_row; /* of this run */
};

static int n_head(const struct heads_lesson *l) { return l->o.heads != NULL ? l->o.heads->n_head : 1; }

static enum mr_status create_pass(struct heads_lesson *l, struct mr_error *err)
{
    const struct heads_lesson_options *o = &l->o;
    const struct train_pass_options eagle = {.n_seq = o->n_seq,
                                             .n_tok = o->n_tok,
                                             .memory_bytes = o->memory_bytes,
                                             .pool = o->pool,
                                             .cpu_features = o->cpu_features};
    return o->eagle != NULL ? eagle_pass_create(&l->eagle_pass, o->eagle, &eagle, err)
                            : head_pass_create(&l->pass, o->heads, o->base, o->n_seq * o->n_tok, o->pool, o->cpu_features, err);
}

static enum mr_status allocate(struct heads_lesson *l, struct mr_error *err)
{
    const struct heads_lesson_options *o = &l->o;
    const size_t rows = (size_t)o->n_seq * (size_t)o->n_tok, best = (rows + DRAFT_HEADS_MAX) * (size_t)o->k;
    l->label = mem_array(rows * (size_t)n_head(l), sizeof *l->label);
    l->id = mem_zero_array(best, sizeof *l->id);
    l->p = mem_zero_array(best, sizeof *l->p);
    l->rows = mem_array(rows, sizeof *l->rows);
    if (l->label == NULL || l->id == NULL || l->p == NULL || l->rows == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the heads' targets of %zu tokens", rows);
    return create_pass(l, err);
}

enum mr_status heads_lesson_create(struct heads_lesson **out, const struct heads_lesson_options *options, struct mr_error *err)
{
    *out = NULL;
    struct heads_lesson *l = mem_zero_array(1, sizeof *l);
    if (l == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a lesson");
    l->o = *options;
    for (int head = 0; head < DRAFT_HEADS_MAX; head++)
        l->weight[head] = head == 0 ? 1 : l->weight[head - 1] * weight_ratio;
    const enum mr_status status = allocate(l, err);
    if (status == MR_OK)
        *out = l;
    else
        heads_lesson_free(l);
    return status;
}

void heads_lesson_free(struct heads_lesson *l)
{
    if (l == NULL)
        return;
    head_pass_free(l->pass);
    eagle_pass_free(l->eagle_pass);
    free(l->label);
    free(l->id);
    free(l->p);
    free(l->rows);
    free(l);
}

/* The base's own best tokens. */
static double keep_best(void *context, struct compute *c, float *logits, int first, int n, bool backward)
{
    (void)backward;
    const struct heads_lesson *l = context;
    const size_t at = (size_t)first * (size_t)l->o.k;
    loss_best(c, l->id + at, l->p + at, logits, n, l->o.base->h.n_vocab, l->o.k, l->o.temperature);
    return 0;
}

static double head_loss(void *context, struct compute *c, int head, float *logits, int first, int n, bool backward)
{
    struct heads_lesson *l = context;
    const struct heads_lesson_options *o = &l->o;
    const size_t base_row = (size_t)first + 1 + (size_t)head; /* where the base guesses the same token */
    const struct loss_targets t = {.label = l->label + (size_t)head * (size_t)l->n_row + first,
                                   .k = o->k,
                                   .id = l->id + base_row * (size_t)o->k,
                                   .p = l->p + base_row * (size_t)o->k,
                                   .ce_weight = o->ce_weight * l->weight[head],
                                   .kl_weight = o->kl_weight * l->weight[head],
                                   .temperature = o->temperature,
                                   .scale = o->scale};
    loss_rows(c, l->rows, &t, logits, n, o->base->h.n_vocab, backward);
    return lesson_sums_add(l->sums, &t, l->rows, n, head);
}

static void set_labels(struct heads_lesson *l, const int32_t *label)
{
    for (int head = 0; head < n_head(l); head++)
        for (int r = 0; r < l->n_row; r++)
            l->label[(size_t)head * (size_t)l->n_row + (size_t)r] =
                r % l->o.n_tok + 1 + head < l->o.n_tok ? label[r + 1 + head] : -1;
}

static double eagle_logits(void *context, struct compute *c, float *logits, int first, int n, bool backward)
{
    return head_loss(context, c, 0, logits, first, n, backward);
}

/* Behind the head's layer stands its guess of the next position's feature. */
static double eagle_feature(void *context, struct compute *c, int layer, const float *x, float *dx, int n)
{
    (void)c;
    const struct heads_lesson *l = context;
    const struct heads_lesson_options *o = &l->o;
    const size_t width = (size_t)o->base->h.n_embd;
    double sum = 0;
    for (int first = 0; layer == 1 && first < n; first += o->n_tok) {
        const size_t at = (size_t)first * width;
        sum += loss_smooth_absolute(x + at, l->feature + at + width, dx != NULL ? dx + at : NULL, o->n_tok - 1, (int)width,
                                    o->feature_weight, o->scale);
    }
    return dx == NULL ? sum : 0;
}

double heads_lesson_run(struct heads_lesson *l, struct train_pass *pass, const int32_t *token, const int32_t *label, int n_seq,
                        float *grad, struct lesson_sums *sums)
{
    const struct train_loss base = {.logits = keep_best, .context = l};
    const struct head_loss heads = {.logits = head_loss, .context = l};
    const struct train_loss eagle = {
        .logits = eagle_logits, .hidden = l->o.feature_weight > 0 ? eagle_feature : NULL, .context = l};
    l->n_row = n_seq * l->o.n_tok;
    l->sums = sums;
    set_labels(l, label);
    train_pass_run(pass, token, n_seq, &base, NULL);
    l->feature = train_pass_features(pass);
    if (l->eagle_pass != NULL)
        return eagle_pass_run(l->eagle_pass, l->feature, label, n_seq, &eagle, grad);
    return head_pass_run(l->pass, l->feature, l->n_row, &heads, grad);
}
