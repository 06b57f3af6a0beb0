/* adamw.c: element by element. */
#include "train/adamw.h"

#include <math.h>

#include "base/trigonometry.h"

enum {
    PIECE = 1 << 15, /* floats of a piece */
    SUMS = 4096      /* pieces whose sums wait to be added */
};

struct adamw adamw_defaults(void) { return (struct adamw){0.9f, 0.95f, 1e-8f, 0.1f, 1}; }

float adamw_rate(float rate, float floor, int64_t step, int64_t n_warmup, int64_t n_step)
{
    double sine, cosine;
    if (step < n_warmup)
        return rate * (float)(step + 1) / (float)n_warmup;
    const double part = n_step > n_warmup ? (double)(step - n_warmup) / (double)(n_step - n_warmup) : 1;
    math_sincos(&sine, &cosine, (part < 1 ? part : 1) * 3.14159265358979323846);
    return (float)((double)rate * ((double)floor + (1 - (double)floor) * 0.5 * (1 + cosine)));
}

struct sums {
    const float *x;
    size_t n;
    double sum[SUMS];
};

static void sum_piece(void *context, int piece, int thread)
{
    (void)thread;
    struct sums *s = context;
    const size_t first = (size_t)piece * PIECE, end = s->n - first < PIECE ? s->n : first + PIECE;
    double sum[4] = {0};
    for (size_t i = first; i < end; i++)
        sum[i % 4] += (double)s->x[i] * (double)s->x[i];
    s->sum[piece] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

double gradient_norm(struct compute *c, const float *grad, size_t n)
{
    struct sums s;
    double sum = 0;
    for (size_t done = 0; done < n; done += s.n) {
        s.x = grad + done;
        s.n = n - done < (size_t)PIECE * SUMS ? n - done : (size_t)PIECE * SUMS;
        const int n_piece = (int)((s.n - 1) / PIECE + 1);
        pool_run(c->pool, sum_piece, &s, n_piece);
        for (int i = 0; i < n_piece; i++)
            sum += s.sum[i];
    }
    return sqrt(sum);
}

struct step {
    struct adamw a;
    float *w, *first, *second;
    const float *grad;
    size_t n;
    float scale, rate, decay; /* of the gradient; bias corrected by what follows */
    float correct1, correct2;
};

static void step_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct step *s = context;
    const size_t begin = (size_t)piece * PIECE, end = s->n - begin < PIECE ? s->n : begin + PIECE;
    const float b1 = s->a.beta1, b2 = s->a.beta2;
    for (size_t i = begin; i < end; i++) {
        const float g = s->grad[i] * s->scale;
        const float m = b1 * s->first[i] + (1 - b1) * g, v = b2 * s->second[i] + (1 - b2) * g * g;
        s->first[i] = m;
        s->second[i] = v;
        s->w[i] -= s->rate * (m * s->correct1 / (sqrtf(v * s->correct2) + s->a.epsilon) + s->decay * s->w[i]);
    }
}

static void step_param(struct compute *c, struct step s, struct param_place p)
{
    s.w += p.at;
    s.grad += p.at;
    s.first += p.at;
    s.second += p.at;
    s.n = param_floats(p);
    s.decay = p.n_in > 0 ? s.a.decay : 0;
    if (s.n > 0)
        pool_run(c->pool, step_piece, &s, (int)((s.n - 1) / PIECE + 1));
}

static struct step step_of(const struct adamw *a, float *w, const float *grad, double norm, float *first, float *second,
                           int64_t step, float rate)
{
    return (struct step){.a = *a,
                         .w = w,
                         .first = first,
                         .second = second,
                         .grad = grad,
                         .scale = a->clip > 0 && norm > (double)a->clip ? (float)((double)a->clip / norm) : 1,
                         .rate = rate,
                         .correct1 = (float)(1 / (1 - math_power((double)a->beta1, (double)step))),
                         .correct2 = (float)(1 / (1 - math_power((double)a->beta2, (double)step)))};
}

void adamw_step(struct compute *c, const struct adamw *a, struct train_model *m, const float *grad, double norm, float *first,
                float *second, int64_t step, float rate)
{
    const struct step s = step_of(a, m->w, grad, norm, first, second, step, rate);
    for (enum param p = 0; p < N_GLOBAL_PARAMS; p++)
        step_param(c, s, train_param(m, 0, p));
    for (int layer = 0; layer < m->h.n_layer; layer++)
        for (enum param p = N_GLOBAL_PARAMS; p < N_PARAMS; p++)
            step_param(c, s, train_param(m, layer, p));
}

void adamw_step_places(struct compute *c, const struct adamw *a, float *w, const struct param_place *place, int n,
                       const float *grad, double norm, float *first, float *second, int64_t step, float rate)
{
    const struct step s = step_of(a, w, grad, norm, first, second, step, rate);
    for (int i = 0; i < n; i++)
        step_param(c, s, place[i]);
}
