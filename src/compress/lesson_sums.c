/* lesson_sums.c: sums to means. */
#include "compress/lesson_sums.h"

double lesson_sums_add(struct lesson_sums *s, const struct loss_targets *t, const struct row_loss *rows, int n, int head)
{
    const float kl_weight = t->kl_weight * t->temperature * t->temperature;
    double loss = 0;
    for (int i = 0; i < n; i++) {
        const struct row_loss *r = &rows[i];
        s->cross_entropy += (double)r->cross_entropy;
        s->divergence += (double)r->divergence;
        s->n += r->counts;
        s->n_right += r->is_right;
        s->n_agree += r->agrees;
        if (head >= 0) {
            s->n_of_head[head] += r->counts;
            s->n_right_of_head[head] += r->is_right;
        }
        loss += (double)(t->ce_weight * r->cross_entropy + kl_weight * r->divergence);
    }
    return loss;
}

static float share(int64_t n_part, int64_t n) { return (float)((double)n_part / (double)n); }

void lesson_sums_training(const struct lesson_sums *s, struct curve_point *p)
{
    if (s->n == 0)
        return;
    p->loss = (float)(s->loss / (double)s->n);
    p->cross_entropy = (float)(s->cross_entropy / (double)s->n);
    p->divergence = (float)(s->divergence / (double)s->n);
    p->accuracy = share(s->n_right, s->n);
    p->agreement = share(s->n_agree, s->n);
}

void lesson_sums_held_out(const struct lesson_sums *s, struct curve_point *p)
{
    if (s->n == 0)
        return;
    p->held_cross_entropy = (float)(s->cross_entropy / (double)s->n);
    p->held_divergence = (float)(s->divergence / (double)s->n);
    p->held_accuracy = share(s->n_right, s->n);
    p->held_agreement = share(s->n_agree, s->n);
    for (int i = 0; i < DRAFT_HEADS_MAX; i++)
        p->held_head[i] = s->n_of_head[i] > 0 ? share(s->n_right_of_head[i], s->n_of_head[i]) : -1;
}
