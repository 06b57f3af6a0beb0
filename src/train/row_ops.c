/* row_ops.c: pieces of rows, or of columns where rows are summed. */
#include "train/row_ops.h"

#include <math.h>
#include <string.h>

#include "base/float_math.h"

enum {
    ROWS = 8,     /* of a piece */
    COLUMNS = 64, /* of a piece that sums over rows */
    GLU_BLOCK = 256
};

struct rows {
    const struct compute *c;
    float *out, *out2;
    const float *in, *in2, *in3;
    const int32_t *token;
    const struct rotary *rotary;
    float number;
    int kind, n_row, n;
    bool backward;
};

static int end_of(const struct rows *a, int piece) { return (piece + 1) * ROWS < a->n_row ? (piece + 1) * ROWS : a->n_row; }
static int end_column(const struct rows *a, int piece) { return (piece + 1) * COLUMNS < a->n ? (piece + 1) * COLUMNS : a->n; }
static void over_rows(struct compute *c, pool_piece_fn *f, struct rows *a)
{
    pool_run(c->pool, f, a, (a->n_row - 1) / ROWS + 1);
}
static void over_columns(struct compute *c, pool_piece_fn *f, struct rows *a)
{
    pool_run(c->pool, f, a, (a->n - 1) / COLUMNS + 1);
}

static float inverse_rms(const float *x, float eps, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return (float)(1 / sqrt(sum / n + (double)eps));
}

static void norm_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows *a = context;
    for (int r = piece * ROWS; r < end_of(a, piece); r++) {
        const float *x = a->in + (size_t)r * (size_t)a->n, inverse = inverse_rms(x, a->number, a->n);
        float *y = a->out + (size_t)r * (size_t)a->n;
        for (int i = 0; i < a->n; i++)
            y[i] = x[i] * inverse * a->in2[i];
    }
}

void rms_norm_forward(struct compute *c, float *y, const float *x, const float *w, float eps, int n_row, int n)
{
    struct rows a = {.c = c, .out = y, .in = x, .in2 = w, .number = eps, .n_row = n_row, .n = n};
    over_rows(c, norm_piece, &a);
}

/* y_i = x_i w_i s with s = (mean x^2 + eps)^(-1/2): dx_i = s w_i dy_i - x_i s^3 / n sum_j dy_j w_j x_j. */
static void norm_back_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows *a = context;
    for (int r = piece * ROWS; r < end_of(a, piece); r++) {
        const float *dy = a->in + (size_t)r * (size_t)a->n, *x = a->in2 + (size_t)r * (size_t)a->n, *w = a->in3;
        float *dx = a->out + (size_t)r * (size_t)a->n;
        const float s = inverse_rms(x, a->number, a->n);
        double dot = 0;
        for (int i = 0; i < a->n; i++)
            dot += (double)(dy[i] * w[i]) * (double)x[i];
        const float along = (float)(dot * (double)s * (double)s * (double)s / a->n);
        for (int i = 0; i < a->n; i++)
            dx[i] = s * w[i] * dy[i] - x[i] * along;
    }
}

/* The inverse roots of ROWS rows at a time, so that each is found once for a piece's columns. */
static void norm_weight_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows *a = context;
    const int first = piece * COLUMNS, end = end_column(a, piece);
    for (int r = 0; r < a->n_row; r++) {
        const float *dy = a->in + (size_t)r * (size_t)a->n, *x = a->in2 + (size_t)r * (size_t)a->n, s = a->in3[r];
        for (int i = first; i < end; i++)
            a->out[i] += dy[i] * x[i] * s;
    }
}

static void inverse_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows *a = context;
    for (int r = piece * ROWS; r < end_of(a, piece); r++)
        a->out[r] = inverse_rms(a->in2 + (size_t)r * (size_t)a->n, a->number, a->n);
}

void rms_norm_backward(struct compute *c, float *dx, float *dw, const float *dy, const float *x, const float *w, float eps,
                       int n_row, int n)
{
    struct rows a = {.c = c, .out = c->transposed, .in = dy, .in2 = x, .in3 = w, .number = eps, .n_row = n_row, .n = n};
    if (dw != NULL) {
        over_rows(c, inverse_piece, &a);
        a.out = dw;
        a.in3 = c->transposed;
        over_columns(c, norm_weight_piece, &a);
    }
    a.out = dx;
    a.in3 = w;
    over_rows(c, norm_back_piece, &a);
}

static void glu_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows *a = context;
    const size_t first = (size_t)piece * ROWS * (size_t)a->n;
    a->c->kernels.glu[a->kind](a->out + first, a->in + first, a->in2 + first, (end_of(a, piece) - piece * ROWS) * a->n);
}

void glu_forward(struct compute *c, enum glu_kind kind, float *out, const float *gate, const float *up, int n_row, int n)
{
    struct rows a = {.c = c, .out = out, .in = gate, .in2 = up, .kind = (int)kind, .n_row = n_row, .n = n};
    over_rows(c, glu_piece, &a);
}

/* 1 / (1 + e^-x), without overflow on either side and without a branch, so that compilers can use vectors. */
static inline float sigmoid(float x)
{
    const float high = 1 / (1 + math_exp(-fabsf(x)));
    return x < 0 ? 1 - high : high;
}

/* f and its derivative. */
static inline void silu(float *f, float *slope, float x)
{
    const float s = sigmoid(x);
    *f = x * s;
    *slope = s * (1 + x * (1 - s));
}

static inline void gelu(float *f, float *slope, float x)
{
    const float a = 0.7978845608f, b = 0.044715f;
    const float s = sigmoid(2 * a * (x + b * x * x * x)); /* (1 + tanh u) / 2 = sigmoid(2 u) */
    *f = x * s;
    *slope = s + x * s * (1 - s) * 2 * a * (1 + 3 * b * x * x);
}

/* Of n <= GLU_BLOCK gates: apart from what they multiply, whose places may be those of the results. */
static void slopes_of(enum glu_kind kind, float *f, float *slope, const float *gate, int n)
{
    if (kind == GLU_SILU)
        for (int i = 0; i < n; i++)
            silu(&f[i], &slope[i], gate[i]);
    else
        for (int i = 0; i < n; i++)
            gelu(&f[i], &slope[i], gate[i]);
}

static void glu_back_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows *a = context;
    const size_t end = (size_t)end_of(a, piece) * (size_t)a->n;
    for (size_t first = (size_t)piece * ROWS * (size_t)a->n; first < end; first += GLU_BLOCK) {
        float f[GLU_BLOCK], slope[GLU_BLOCK];
        const int n = end - first < GLU_BLOCK ? (int)(end - first) : GLU_BLOCK;
        const float *dout = a->in + first, *up = a->in3 + first;
        slopes_of(a->kind, f, slope, a->in2 + first, n);
        for (int i = 0; i < n; i++) {
            f[i] *= dout[i];
            slope[i] *= dout[i] * up[i];
        }
        memcpy(a->out + first, slope, (size_t)n * sizeof *slope);
        memcpy(a->out2 + first, f, (size_t)n * sizeof *f);
    }
}

void glu_backward(struct compute *c, enum glu_kind kind, float *dgate, float *dup, const float *dout, const float *gate,
                  const float *up, int n_row, int n)
{
    struct rows a = {
        .c = c, .out = dgate, .out2 = dup, .in = dout, .in2 = gate, .in3 = up, .kind = (int)kind, .n_row = n_row, .n = n};
    over_rows(c, glu_back_piece, &a);
}

static void residual_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows *a = context;
    for (int r = piece * ROWS; r < end_of(a, piece); r++)
        for (size_t i = 0, at = (size_t)r * (size_t)a->n; i < (size_t)a->n; i++, at++) {
            float f, slope;
            a->out2[at] += a->in2[i];
            silu(&f, &slope, a->out2[at]);
            a->out[at] = a->in[at] + f;
        }
}

void silu_residual_forward(struct compute *c, float *y, const float *x, float *u, const float *b, int n_row, int n)
{
    struct rows a = {.c = c, .out = y, .out2 = u, .in = x, .in2 = b, .n_row = n_row, .n = n};
    over_rows(c, residual_piece, &a);
}

static void residual_back_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows *a = context;
    for (int r = 0; r < a->n_row; r++)
        for (int i = piece * COLUMNS; i < end_column(a, piece); i++) {
            float f, slope;
            const size_t at = (size_t)r * (size_t)a->n + (size_t)i;
            silu(&f, &slope, a->in2[at]);
            a->out[at] = a->in[at] * slope;
            a->out2[i] += a->out[at];
        }
}

void silu_residual_backward(struct compute *c, float *du, float *db, const float *dy, const float *u, int n_row, int n)
{
    struct rows a = {.c = c, .out = du, .out2 = db, .in = dy, .in2 = u, .n_row = n_row, .n = n};
    over_columns(c, residual_back_piece, &a);
}

static void rotary_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows *a = context;
    const struct rotary *t = a->rotary;
    const int half = t->n_rot / 2, apart = t->style == ROPE_PAIRS ? 1 : half, step = t->style == ROPE_PAIRS ? 2 : 1;
    for (int r = piece * ROWS; r < end_of(a, piece); r++) {
        const size_t at = (size_t)(r % t->n_tok) * (size_t)half;
        for (int head = 0; head < a->kind; head++) {
            float *x = a->out + ((size_t)r * (size_t)a->kind + (size_t)head) * (size_t)a->n;
            for (int i = 0; i < half; i++) {
                const float cosine = t->cosine[at + (size_t)i],
                            sine = a->backward ? -t->sine[at + (size_t)i] : t->sine[at + (size_t)i];
                const float p = x[i * step], q = x[i * step + apart];
                x[i * step] = p * cosine - q * sine;
                x[i * step + apart] = p * sine + q * cosine;
            }
        }
    }
}

void rotary_turn(struct compute *c, const struct rotary *rotary, float *x, int n_row, int n_head, int head_dim, bool backward)
{
    struct rows a = {.c = c, .out = x, .rotary = rotary, .kind = n_head, .n_row = n_row, .n = head_dim, .backward = backward};
    over_rows(c, rotary_piece, &a);
}

static void embed_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows *a = context;
    for (int r = piece * ROWS; r < end_of(a, piece); r++)
        for (int i = 0; i < a->n; i++)
            a->out[(size_t)r * (size_t)a->n + (size_t)i] = a->in[(size_t)a->token[r] * (size_t)a->n + (size_t)i] * a->number;
}

void embed_forward(struct compute *c, float *x, const float *w, const int32_t *token, float scale, int n_row, int n)
{
    struct rows a = {.c = c, .out = x, .in = w, .token = token, .number = scale, .n_row = n_row, .n = n};
    over_rows(c, embed_piece, &a);
}

static void embed_back_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows *a = context;
    for (int r = 0; r < a->n_row; r++)
        for (int i = piece * COLUMNS; i < end_column(a, piece); i++)
            a->out[(size_t)a->token[r] * (size_t)a->n + (size_t)i] += a->in[(size_t)r * (size_t)a->n + (size_t)i] * a->number;
}

void embed_backward(struct compute *c, float *dw, const float *dx, const int32_t *token, float scale, int n_row, int n)
{
    struct rows a = {.c = c, .out = dw, .in = dx, .token = token, .number = scale, .n_row = n_row, .n = n};
    over_columns(c, embed_back_piece, &a);
}

static void add_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows *a = context;
    const size_t first = (size_t)piece * ROWS * (size_t)a->n;
    a->c->kernels.add(a->out + first, a->in + first, (end_of(a, piece) - piece * ROWS) * a->n);
}

void rows_add(struct compute *c, float *x, const float *y, int n_row, int n)
{
    struct rows a = {.c = c, .out = x, .in = y, .n_row = n_row, .n = n};
    over_rows(c, add_piece, &a);
}

static void scale_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows *a = context;
    const size_t first = (size_t)piece * ROWS * (size_t)a->n;
    a->c->kernels.scale(a->out + first, a->number, (end_of(a, piece) - piece * ROWS) * a->n);
}

void rows_scale(struct compute *c, float *x, float s, int n_row, int n)
{
    struct rows a = {.c = c, .out = x, .number = s, .n_row = n_row, .n = n};
    over_rows(c, scale_piece, &a);
}

static void bias_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows *a = context;
    for (int r = piece * ROWS; r < end_of(a, piece); r++)
        a->c->kernels.add(a->out + (size_t)r * (size_t)a->n, a->in, a->n);
}

void bias_forward(struct compute *c, float *x, const float *b, int n_row, int n)
{
    struct rows a = {.c = c, .out = x, .in = b, .n_row = n_row, .n = n};
    over_rows(c, bias_piece, &a);
}

static void bias_back_piece(void *context, int piece, int thread)
{
    (void)thread;
    const struct rows *a = context;
    for (int r = 0; r < a->n_row; r++)
        for (int i = piece * COLUMNS; i < end_column(a, piece); i++)
            a->out[i] += a->in[(size_t)r * (size_t)a->n + (size_t)i];
}

void bias_backward(struct compute *c, float *db, const float *dx, int n_row, int n)
{
    struct rows a = {.c = c, .out = db, .in = dx, .n_row = n_row, .n = n};
    over_columns(c, bias_back_piece, &a);
}
