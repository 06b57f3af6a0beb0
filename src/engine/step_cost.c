/* step_cost.c: weighted least squares by coordinate descent; five terms, so that a fit costs nothing beside a step. */
#include "engine/step_cost.h"

static const double forget = 0.98; /* a step weighs half as much 34 steps later */
static const double outlier = 4;   /* a step that took longer than so many times the prediction counts as that long */
static const double known_at = 8;  /* steps after which the prediction is trusted that far */
static const double scatter_max = 4;
static const double position = 1e-3; /* keeps the terms of one size */

enum {
    SWEEPS = 16,
    SEEN_MAX = 1 << 20,
    SCATTER_MIN = 16, /* steps before their scatter counts */
    ROWS_UNKNOWN = 32 /* prompt rows beside an answer while their cost is not known */
};

static void terms(double x[STEP_COST_TERMS], const struct step_shape *s)
{
    x[0] = 1;
    x[1] = s->n_decode;
    x[2] = s->n_prompt;
    x[3] = s->attended * position;
    x[4] = s->n_draft;
}

double step_cost_us(const struct step_cost *c, const struct step_shape *shape)
{
    double x[STEP_COST_TERMS], sum = 0;
    terms(x, shape);
    for (int i = 0; i < STEP_COST_TERMS; i++)
        sum += c->weight[i] * x[i];
    return sum;
}

/* Each weight in turn takes its best value beside the others, not below zero. The rows come first: what the steps so far
 * cannot tell apart counts as theirs, so that the first steps are too short rather than too long. */
static void fit(struct step_cost *c)
{
    static const int order[STEP_COST_TERMS] = {2, 1, 4, 3, 0};
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        for (int at = 0; at < STEP_COST_TERMS; at++) {
            const int i = order[at];
            if (c->gram[i][i] < 1e-18)
                continue; /* not seen of late: what is known stands */
            double rest = c->moment[i];
            for (int j = 0; j < STEP_COST_TERMS; j++)
                rest -= j != i ? c->gram[i][j] * c->weight[j] : 0;
            c->weight[i] = rest > 0 ? rest / c->gram[i][i] : 0;
        }
    }
}

static void note_scatter(struct step_cost *c, double ratio)
{
    c->ratio[c->at_ratio] = (float)ratio;
    c->at_ratio = (c->at_ratio + 1) % STEP_COST_RECENT;
    c->n_ratio += c->n_ratio < STEP_COST_RECENT;
}

double step_cost_scatter(const struct step_cost *c)
{
    double first = 1, second = 1; /* the largest two: one of a hundred may be larger */
    for (int i = 0; i < c->n_ratio; i++) {
        const double r = (double)c->ratio[i];
        second = r > first ? first : r > second ? r : second;
        first = r > first ? r : first;
    }
    if (c->n_ratio < SCATTER_MIN)
        return 1;
    return second < scatter_max ? second : scatter_max;
}

static void note_batch(struct step_cost *c, int n_decode)
{
    if (n_decode == 0)
        return;
    c->n_batch = c->n_batch * forget + 1;
    c->batch_sum = c->batch_sum * forget + n_decode;
    c->batch_square_sum = c->batch_square_sum * forget + (double)n_decode * n_decode;
}

bool step_cost_knows_batches(const struct step_cost *c)
{
    const double least = 0.04; /* variance: one step in 25 was another one */
    const double mean = c->n_batch > 0 ? c->batch_sum / c->n_batch : 0;
    return c->n_batch > 0 && c->batch_square_sum / c->n_batch - mean * mean > least;
}

double step_cost_batch_us(const struct step_cost *c, double n, double depth, double prompts)
{
    const double attention = c->weight[3] * position * depth;
    return c->weight[0] + n * (c->weight[1] + attention + prompts * (c->weight[2] + attention));
}

void step_cost_observe(struct step_cost *c, const struct step_shape *shape, int64_t time_us)
{
    if (time_us <= 0)
        return;
    double x[STEP_COST_TERMS], y = (double)time_us;
    const double expected = step_cost_us(c, shape);
    if (c->n_seen >= known_at && expected > 0) {
        note_scatter(c, y / expected);
        y = y > outlier * expected ? outlier * expected : y;
    }
    note_batch(c, shape->n_decode);
    terms(x, shape);
    for (int i = 0; i < STEP_COST_TERMS; i++) {
        for (int j = 0; j < STEP_COST_TERMS; j++)
            c->gram[i][j] = c->gram[i][j] * forget + x[i] * x[j] / (y * y);
        c->moment[i] = c->moment[i] * forget + x[i] / y;
    }
    c->n_seen += c->n_seen < SEEN_MAX;
    c->n_seen_prompt += shape->n_prompt > 0 && c->n_seen_prompt < SEEN_MAX;
    fit(c);
}

double step_attended(int first, int n) { return (double)n * first + (double)n * (n + 1) / 2; }

int step_cost_rows(const struct step_cost *c, const struct step_shape *shape, int first, int n_todo, double budget_us)
{
    if (c->n_seen_prompt == 0)
        return n_todo < ROWS_UNKNOWN ? n_todo : ROWS_UNKNOWN;
    int low = 0, high = n_todo;
    while (low < high) { /* the largest number that fits; more rows never cost less */
        const int n = low + (high - low + 1) / 2;
        struct step_shape more = *shape;
        more.n_prompt += n;
        more.attended += step_attended(first, n);
        if (step_cost_us(c, &more) <= budget_us)
            low = n;
        else
            high = n - 1;
    }
    return low;
}

double step_cost_draft_share(const struct step_cost *c, const struct step_shape *shape)
{
    struct step_shape plain = *shape;
    plain.n_draft = plain.n_prompt = 0;
    const double step_us = step_cost_us(c, &plain);
    return step_us > 0 ? c->weight[4] * shape->n_decode / step_us : 0;
}

double step_cost_draft_row_us(const struct step_cost *c) { return c->weight[4]; }

double step_cost_prompt_row_us(const struct step_cost *c) { return c->weight[2]; }

double step_cost_prompt_us(const struct step_cost *c, int n)
{
    return c->weight[2] * n + c->weight[3] * position * step_attended(0, n);
}

double step_cost_decode_weight(const struct step_cost *c)
{
    return c->weight[1] > 0 && c->weight[2] > 0 ? c->weight[1] / c->weight[2] : 1;
}
