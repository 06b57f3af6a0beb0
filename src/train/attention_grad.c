/* attention_grad.c: blocks of queries against the keys that they see. */
#include "train/attention_grad.h"

#include <string.h>

#include "base/float_math.h"

enum {
    QUERIES = 48, /* of a block: the rows of the kernel's block */
    LANES = 8
};

struct work {
    const struct compute *c;
    const struct attention_shape *s;
    float *out, *dq, *dk, *dv;
    const float *dout, *attended, *q, *k, *v;
    float *scratch;
    bool backward;
};

/* A block of queries of one head of one sequence: queries first <= t < first + n, keys low <= t < end. */
struct block {
    const struct work *w;
    size_t q, kv, ld_q, ld_kv; /* offsets of the head's first token, and strides */
    int first, n, low, n_key;
    float *scores, *slopes, *turned; /* [QUERIES][n_tok] each */
    float *panels;
};

size_t attention_scratch(const struct attention_shape *s) { return 3 * (size_t)QUERIES * (size_t)s->n_tok; }

static void product(const struct block *b, struct small_product p) { product_small(b->w->c, &p, b->panels); }

/* scores = x w^T with x rows of queries and w rows of keys. */
static void by_keys(const struct block *b, float *out, const float *x, const float *w)
{
    product(b, (struct small_product){.out = out,
                                      .x = x + b->q + (size_t)b->first * b->ld_q,
                                      .w = w + b->kv + (size_t)b->low * b->ld_kv,
                                      .ld_out = (size_t)b->n_key,
                                      .ld_x = b->ld_q,
                                      .ld_w = b->ld_kv,
                                      .n_row = b->n,
                                      .n_out = b->n_key,
                                      .n_in = b->w->s->head_dim});
}

/* out rows of queries = scores times rows of keys. */
static void over_keys(const struct block *b, float *out, const float *scores, const float *w)
{
    product(b, (struct small_product){.out = out + b->q + (size_t)b->first * b->ld_q,
                                      .x = scores,
                                      .w = w + b->kv + (size_t)b->low * b->ld_kv,
                                      .ld_out = b->ld_q,
                                      .ld_x = (size_t)b->n_key,
                                      .ld_w = b->ld_kv,
                                      .n_row = b->n,
                                      .n_out = b->w->s->head_dim,
                                      .n_in = b->n_key,
                                      .columns = true});
}

/* out rows of keys += scores^T times rows of queries. */
static void over_queries(const struct block *b, float *out, const float *scores, const float *x)
{
    for (int i = 0; i < b->n; i++)
        for (int j = 0; j < b->n_key; j++)
            b->turned[(size_t)j * QUERIES + (size_t)i] = scores[(size_t)i * (size_t)b->n_key + (size_t)j];
    product(b, (struct small_product){.out = out + b->kv + (size_t)b->low * b->ld_kv,
                                      .x = b->turned,
                                      .w = x + b->q + (size_t)b->first * b->ld_q,
                                      .ld_out = b->ld_kv,
                                      .ld_x = QUERIES,
                                      .ld_w = b->ld_q,
                                      .n_row = b->n_key,
                                      .n_out = b->w->s->head_dim,
                                      .n_in = b->n,
                                      .columns = true,
                                      .add = true});
}

/* Sums and maxima are taken in lanes, so that compilers can use vectors. */
static float largest(const float *x, int n)
{
    float lane[LANES];
    for (int j = 0; j < LANES; j++)
        lane[j] = x[0];
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (; i < n; i++)
        lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    for (int j = 1; j < LANES; j++)
        lane[0] = lane[j] > lane[0] ? lane[j] : lane[0];
    return lane[0];
}

static float sum_of_lanes(const float *lane)
{
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static float sum_of(const float *x, int n)
{
    float lane[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += x[i + j];
    for (; i < n; i++)
        lane[0] += x[i];
    return sum_of_lanes(lane);
}

static float dot_of(const float *x, const float *y, int n)
{
    float lane[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += x[i + j] * y[i + j];
    for (; i < n; i++)
        lane[0] += x[i] * y[i];
    return sum_of_lanes(lane);
}

/* Probabilities of the keys low + from <= t <= the query, zeros elsewhere. */
static void softmax_row(float *score, int from, int end, int n_key, float scale)
{
    const float best = largest(score + from, end - from);
    for (int j = from; j < end; j++)
        score[j] = math_exp((score[j] - best) * scale);
    const float inverse = 1 / sum_of(score + from, end - from);
    for (int j = from; j < end; j++)
        score[j] *= inverse;
    memset(score, 0, (size_t)from * sizeof *score);
    memset(score + end, 0, (size_t)(n_key - end) * sizeof *score);
}

static void probabilities(const struct block *b)
{
    const struct attention_shape *s = b->w->s;
    by_keys(b, b->scores, b->w->q, b->w->k);
    for (int i = 0; i < b->n; i++) {
        const int t = b->first + i, oldest = s->window > 0 && t >= s->window ? t - s->window + 1 : 0;
        const int from = oldest > b->low ? oldest - b->low : 0;
        softmax_row(b->scores + (size_t)i * (size_t)b->n_key, from, t + 1 - b->low, b->n_key, s->scale);
    }
}

/* slopes = d/d(q k) = scale p (dp - sum dout out) */
static void score_slopes(const struct block *b)
{
    const struct attention_shape *s = b->w->s;
    by_keys(b, b->slopes, b->w->dout, b->w->v);
    for (int i = 0; i < b->n; i++) {
        const size_t at = b->q + (size_t)(b->first + i) * b->ld_q;
        const float *p = b->scores + (size_t)i * (size_t)b->n_key;
        float *slope = b->slopes + (size_t)i * (size_t)b->n_key;
        const float dot = dot_of(b->w->dout + at, b->w->attended + at, s->head_dim);
        for (int j = 0; j < b->n_key; j++)
            slope[j] = p[j] * (slope[j] - dot) * s->scale;
    }
}

static void run_block(const struct block *b)
{
    const struct work *w = b->w;
    probabilities(b);
    if (!w->backward) {
        over_keys(b, w->out, b->scores, w->v);
        return;
    }
    score_slopes(b);
    over_queries(b, w->dv, b->scores, w->dout);
    over_keys(b, w->dq, b->slopes, w->k);
    over_queries(b, w->dk, b->slopes, w->q);
}

static void head_piece(void *context, int piece, int thread)
{
    const struct work *w = context;
    const struct attention_shape *s = w->s;
    const int seq = piece / s->n_head_kv, kv = piece % s->n_head_kv, group = s->n_head / s->n_head_kv;
    struct block b = {.w = w,
                      .ld_q = (size_t)s->n_head * (size_t)s->head_dim,
                      .ld_kv = (size_t)s->n_head_kv * (size_t)s->head_dim,
                      .scores = w->scratch + (size_t)thread * attention_scratch(s),
                      .panels = compute_scratch(w->c, thread)};
    b.slopes = b.scores + (size_t)QUERIES * (size_t)s->n_tok;
    b.turned = b.slopes + (size_t)QUERIES * (size_t)s->n_tok;
    b.kv = (size_t)seq * (size_t)s->n_tok * b.ld_kv + (size_t)kv * (size_t)s->head_dim;
    for (int t = 0; w->backward && t < s->n_tok; t++) {
        memset(w->dk + b.kv + (size_t)t * b.ld_kv, 0, (size_t)s->head_dim * sizeof(float));
        memset(w->dv + b.kv + (size_t)t * b.ld_kv, 0, (size_t)s->head_dim * sizeof(float));
    }
    for (int head = kv * group; head < (kv + 1) * group; head++) {
        b.q = (size_t)seq * (size_t)s->n_tok * b.ld_q + (size_t)head * (size_t)s->head_dim;
        for (b.first = 0; b.first < s->n_tok; b.first += QUERIES) {
            b.n = s->n_tok - b.first < QUERIES ? s->n_tok - b.first : QUERIES;
            b.low = s->window > 0 && b.first >= s->window ? b.first - s->window + 1 : 0;
            b.n_key = b.first + b.n - b.low;
            run_block(&b);
        }
    }
}

void attention_forward(struct compute *c, const struct attention_shape *s, float *out, const float *q, const float *k,
                       const float *v, float *scratch)
{
    struct work w = {.c = c, .s = s, .out = out, .q = q, .k = k, .v = v, .scratch = scratch};
    pool_run(c->pool, head_piece, &w, s->n_seq * s->n_head_kv);
}

void attention_backward(struct compute *c, const struct attention_shape *s, float *dq, float *dk, float *dv, const float *dout,
                        const float *out, const float *q, const float *k, const float *v, float *scratch)
{
    struct work w = {.c = c,
                     .s = s,
                     .dq = dq,
                     .dk = dk,
                     .dv = dv,
                     .dout = dout,
                     .attended = out,
                     .q = q,
                     .k = k,
                     .v = v,
                     .scratch = scratch,
                     .backward = true};
    pool_run(c->pool, head_piece, &w, s->n_seq * s->n_head_kv);
}
