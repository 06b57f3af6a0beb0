/* loss.c: cross-entropy and divergence row by row. */
#include "train/loss.h"

#include "base/float_math.h"

enum {
    BLOCK = 512,       /* floats that are summed before they meet the sum of a row */
    REST_MIN_BITS = 20 /* a rest of the probability below 2^-20 is rounding */
};

static const float rest_min = 1.0f / (1 << REST_MIN_BITS);

static float largest(const float *z, int n, int *at)
{
    *at = 0;
    for (int i = 1; i < n; i++)
        if (z[i] > z[*at])
            *at = i;
    return z[*at];
}

/* sum of e^((z - best) / temperature) */
static double sum_exp_of(const float *z, int n, float best, float inverse_temperature)
{
    double sum = 0;
    for (int first = 0; first < n; first += BLOCK) {
        float part[8] = {0};
        const int end = first + BLOCK < n ? first + BLOCK : n;
        int i = first;
        for (; i + 8 <= end; i += 8)
            for (int j = 0; j < 8; j++)
                part[j] += math_exp((z[i + j] - best) * inverse_temperature);
        for (; i < end; i++)
            part[0] += math_exp((z[i] - best) * inverse_temperature);
        for (int j = 0; j < 8; j++)
            sum += (double)part[j];
    }
    return sum;
}

/* A row in work. */
struct row {
    const struct loss_targets *t;
    const int32_t *id;
    const float *p;
    float *z;
    int n;
    float best, inverse_temperature;
    double sum, sum_t; /* of exponentials at temperatures 1 and T */
    double rest_ratio; /* rest of p over rest of q_T */
};

static double q_of(const struct row *r, int id)
{
    return (double)math_exp((r->z[id] - r->best) * r->inverse_temperature) / r->sum_t;
}

/* KL(p || q_T) over the k known classes and the rest. */
static double divergence(struct row *r)
{
    double loss = 0, p_known = 0, q_known = 0;
    const double log_sum = math_log(r->sum_t);
    for (int i = 0; i < r->t->k; i++) {
        const double p = (double)r->p[i], log_q = (double)((r->z[r->id[i]] - r->best) * r->inverse_temperature) - log_sum;
        if (p > 0)
            loss += p * (math_log(p) - log_q);
        p_known += p;
        q_known += q_of(r, r->id[i]);
    }
    const double p_rest = 1 - p_known, q_rest = 1 - q_known > 1e-9 ? 1 - q_known : 1e-9;
    r->rest_ratio = r->t->k < r->n && p_rest > (double)rest_min ? p_rest / q_rest : 0;
    return r->rest_ratio > 0 ? loss + p_rest * math_log(r->rest_ratio) : loss;
}

/* d loss / d z, in z's place. Of the divergence: q - p at the known ids, q (1 - p_rest / q_rest) at the others; of q_T a factor
 * 1 / T comes with it, of the weight T^2. */
static void gradient(const struct row *r, int label)
{
    const struct loss_targets *t = r->t;
    const int k = t->kl_weight > 0 ? t->k : 0;
    const double kl = k > 0 ? (double)(t->kl_weight * t->temperature * t->scale) : 0, ce = (double)(t->ce_weight * t->scale);
    const float by_ce = (float)(ce / r->sum), by_kl = k > 0 ? (float)(kl * (1 - r->rest_ratio) / r->sum_t) : 0;
    float add[LOSS_K_MAX];
    for (int i = 0; i < k; i++)
        add[i] = (float)(kl * (r->rest_ratio * q_of(r, r->id[i]) - (double)r->p[i]));
    if (k > 0)
        for (int j = 0; j < r->n; j++) {
            const float z = r->z[j] - r->best;
            r->z[j] = by_ce * math_exp(z) + by_kl * math_exp(z * r->inverse_temperature);
        }
    else
        for (int j = 0; j < r->n; j++)
            r->z[j] = by_ce * math_exp(r->z[j] - r->best);
    r->z[label] -= (float)ce;
    for (int i = 0; i < k; i++)
        r->z[r->id[i]] += add[i];
}

static void row_loss(struct row_loss *out, struct row *r, int label, bool backward)
{
    int best;
    *out = (struct row_loss){.counts = label >= 0};
    if (label < 0) {
        for (int i = 0; backward && i < r->n; i++)
            r->z[i] = 0;
        return;
    }
    r->best = largest(r->z, r->n, &best);
    r->sum = sum_exp_of(r->z, r->n, r->best, 1);
    r->sum_t = r->inverse_temperature < 1 || r->inverse_temperature > 1
                   ? sum_exp_of(r->z, r->n, r->best, r->inverse_temperature)
                   : r->sum;
    out->cross_entropy = (float)(math_log(r->sum) - (double)(r->z[label] - r->best));
    out->is_right = best == label;
    if (r->t->k > 0) {
        out->divergence = (float)divergence(r);
        out->agrees = best == r->id[0];
    }
    if (backward)
        gradient(r, label);
}

struct rows_of_loss {
    struct row_loss *out;
    const struct loss_targets *t;
    float *z;
    int n_vocab;
    bool backward;
};

static void loss_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows_of_loss *a = context;
    const size_t at = (size_t)piece * (size_t)a->t->k;
    struct row r = {.t = a->t,
                    .id = a->t->k > 0 ? a->t->id + at : NULL,
                    .p = a->t->k > 0 ? a->t->p + at : NULL,
                    .z = a->z + (size_t)piece * (size_t)a->n_vocab,
                    .n = a->n_vocab,
                    .inverse_temperature = 1 / a->t->temperature};
    row_loss(&a->out[piece], &r, a->t->label[piece], a->backward);
}

void loss_rows(struct compute *c, struct row_loss *out, const struct loss_targets *targets, float *logits, int n_row,
               int n_vocab, bool backward)
{
    struct rows_of_loss a = {out, targets, logits, n_vocab, backward};
    pool_run(c->pool, loss_piece, &a, n_row);
}

struct best_of_rows {
    int32_t *id;
    float *p;
    const float *z;
    int n_vocab, k;
    float inverse_temperature;
};

/* id[k], z in p, sorted: the largest first. */
static void largest_k(int32_t *id, float *p, const float *z, int n, int k)
{
    int found = 0;
    for (int32_t j = 0; j < n; j++) {
        if (found == k && z[j] <= p[k - 1])
            continue;
        int i = found < k ? found++ : k - 1;
        for (; i > 0 && p[i - 1] < z[j]; i--) {
            p[i] = p[i - 1];
            id[i] = id[i - 1];
        }
        p[i] = z[j];
        id[i] = j;
    }
}

static void best_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct best_of_rows *a = context;
    const float *z = a->z + (size_t)piece * (size_t)a->n_vocab;
    float *p = a->p + (size_t)piece * (size_t)a->k;
    largest_k(a->id + (size_t)piece * (size_t)a->k, p, z, a->n_vocab, a->k);
    const float best = p[0], inverse = (float)(1 / sum_exp_of(z, a->n_vocab, best, a->inverse_temperature));
    for (int i = 0; i < a->k; i++)
        p[i] = math_exp((p[i] - best) * a->inverse_temperature) * inverse;
}

void loss_best(struct compute *c, int32_t *id, float *p, const float *logits, int n_row, int n_vocab, int k, float temperature)
{
    struct best_of_rows a = {id, p, logits, n_vocab, k, 1 / temperature};
    pool_run(c->pool, best_piece, &a, n_row);
}

double loss_mean_square(struct compute *c, const float *x, const float *target, float *dx, int n_row, int n, float weight,
                        float scale)
{
    (void)c;
    double sum = 0;
    const float step = 2 * weight * scale / (float)n;
    for (int r = 0; r < n_row; r++) {
        const size_t at = (size_t)r * (size_t)n;
        float row = 0;
        for (int i = 0; i < n; i++) {
            const float d = x[at + (size_t)i] - target[at + (size_t)i];
            row += d * d;
            if (dx != NULL)
                dx[at + (size_t)i] += step * d;
        }
        sum += (double)row;
    }
    return sum / n * (double)weight;
}

double loss_smooth_absolute(const float *x, const float *target, float *dx, int n_row, int n, float weight, float scale)
{
    double sum = 0;
    const float step = weight * scale / (float)n;
    for (int r = 0; r < n_row; r++) {
        const size_t at = (size_t)r * (size_t)n;
        float row = 0;
        for (int i = 0; i < n; i++) {
            const float d = x[at + (size_t)i] - target[at + (size_t)i], slope = d < -1 ? -1 : d > 1 ? 1 : d;
            row += slope * (d - 0.5f * slope);
            if (dx != NULL)
                dx[at + (size_t)i] += step * slope;
        }
        sum += (double)row;
    }
    return sum / n * (double)weight;
}
