/* weighted_k.c: super-blocks of the K types: sub-blocks are fitted alone, their scales become codes, and then codes, levels and
 * the super-block's own scales take turns, each the best for what the others are. */
#include "base/fp16.h"
#include "quant/weighted_fit.h"
#include "quant/weighted_sub.h"

enum {
    N_ROUNDS = 2
};

static uint8_t code_of(float v, float d, int max_code) { return (uint8_t)level_nearest(v * inverse(d), 0, max_code); }

static float largest_of(const float *v, int n)
{
    float largest = 0;
    for (int i = 0; i < n; i++)
        largest = v[i] > largest ? v[i] : largest;
    return largest;
}

struct affine_block {
    const float *x, *w;
    int n, n_sub, max_q, max_scale;
    float d, dmin;
    struct affine_sums sums[K_MAX_SUB]; /* for the present codes */
};

/* Error of sub-block j with this scale, and the best code for its min; the sums hold its levels then. */
static float try_codes(const struct affine_block *b, struct affine_sums *s, int j, int scale, int min)
{
    const float sc = b->d * (float)scale, m = b->dmin * (float)min;
    affine_sums_levels(s, b->x + j * b->n, b->w + j * b->n, b->n, inverse(sc), m, (float)b->max_q);
    return affine_error_of(s, sc, m);
}

/* The codes around the present ones that leave the least error. */
static void choose_codes(struct affine_block *b, struct k_affine *out, int j)
{
    float best = INFINITY;
    int best_scale = out->scale[j], best_min = out->min[j];
    struct affine_sums best_sums = b->sums[j];
    for (int scale = out->scale[j] - 1; scale <= out->scale[j] + 1; scale++) {
        int min = out->min[j];
        if (scale < 0 || scale > b->max_scale)
            continue;
        for (int turn = 0; turn < 2; turn++) {
            struct affine_sums s = b->sums[j];
            const float error = try_codes(b, &s, j, scale, min);
            if (error < best) {
                best = error;
                best_scale = scale;
                best_min = min;
                best_sums = s;
            }
            const float m = s.w > 0 ? (b->d * (float)scale * s.q - s.x) / s.w : 0;
            const int next = code_of(m, b->dmin, b->max_scale);
            if (next == min)
                break;
            min = next;
        }
    }
    out->scale[j] = (uint8_t)best_scale;
    out->min[j] = (uint8_t)best_min;
    b->sums[j] = best_sums;
}

/* d and dmin by least squares over all sub-blocks, for their codes and levels. */
static void solve_super(struct affine_block *b, const struct k_affine *out)
{
    double qq = 0, qk = 0, kk = 0, qx = 0, kx = 0;
    for (int j = 0; j < b->n_sub; j++) {
        const struct affine_sums *s = &b->sums[j];
        const double c = out->scale[j], k = out->min[j];
        qq += c * c * (double)s->qq;
        qk += c * k * (double)s->q;
        kk += k * k * (double)s->w;
        qx += c * (double)s->qx;
        kx += k * (double)s->x;
    }
    const double det = qq * kk - qk * qk;
    double d = qq > 0 ? qx / qq : 0, dmin = 0;
    if (det > 1e-9 * qq * kk) { /* x ~ d (c q) - dmin k */
        d = (qx * kk - kx * qk) / det;
        dmin = (qx * qk - kx * qq) / det;
    }
    if (d > 0 && dmin >= 0) {
        b->d = f32_from_f16(f16_from_f32((float)d));
        b->dmin = f32_from_f16(f16_from_f32((float)dmin));
    }
}

void weighted_k_affine(struct k_affine *out, const float x[QK_K], const float weight[QK_K], int n_sub, int max_q, int max_scale)
{
    struct affine_block b = {.x = x, .w = weight, .n = QK_K / n_sub, .n_sub = n_sub, .max_q = max_q, .max_scale = max_scale};
    float scale[K_MAX_SUB] = {0}, min[K_MAX_SUB] = {0};
    for (int j = 0; j < n_sub; j++) {
        weighted_sub_affine(x + j * b.n, weight + j * b.n, b.n, max_q, false, &scale[j], &min[j]);
        affine_sums_fixed(&b.sums[j], x + j * b.n, weight + j * b.n, b.n);
    }
    b.d = f32_from_f16(f16_from_f32(largest_of(scale, n_sub) / (float)max_scale));
    b.dmin = f32_from_f16(f16_from_f32(largest_of(min, n_sub) / (float)max_scale));
    for (int j = 0; j < n_sub; j++) {
        out->scale[j] = code_of(scale[j], b.d, max_scale);
        out->min[j] = code_of(min[j], b.dmin, max_scale);
    }
    for (int round = 0; round < N_ROUNDS; round++) {
        for (int j = 0; j < n_sub; j++)
            choose_codes(&b, out, j);
        solve_super(&b, out);
    }
    out->d = f16_from_f32(b.d);
    out->dmin = f16_from_f32(b.dmin);
    for (int j = 0; j < n_sub; j++) {
        const float inv = inverse(b.d * (float)out->scale[j]), m = b.dmin * (float)out->min[j];
        for (int i = 0; i < b.n; i++)
            out->q[j * b.n + i] = (uint8_t)level_nearest((x[j * b.n + i] + m) * inv, 0, max_q);
    }
}

/* Error but for sum w x^2, of sub-block j with this code. */
static float symmetric_error(const float *x, const float *w, int n, float scale, int half, struct symmetric_sums *s)
{
    *s = symmetric_sums_of(x, w, n, inverse(scale), (float)-half, (float)(half - 1));
    return scale * (scale * s->qq - 2 * s->qx);
}

static void choose_code(struct k_symmetric *out, struct symmetric_sums *sums, const float *x, const float *w, int j, float d,
                        int half_q, int half_scale)
{
    enum {
        N = QK_K / K_MAX_SUB
    };
    float best = INFINITY;
    const int present = out->scale[j];
    for (int code = present - 1; code <= present + 1; code++) {
        struct symmetric_sums s;
        if (code < -half_scale || code > half_scale - 1)
            continue;
        const float error = symmetric_error(x + j * N, w + j * N, N, d * (float)code, half_q, &s);
        if (error < best) {
            best = error;
            out->scale[j] = (int8_t)code;
            sums[j] = s;
        }
    }
}

void weighted_k_symmetric(struct k_symmetric *out, const float x[QK_K], const float weight[QK_K], int half_q, int half_scale)
{
    enum {
        N = QK_K / K_MAX_SUB
    };
    float scale[K_MAX_SUB];
    struct symmetric_sums sums[K_MAX_SUB] = {{0}};
    for (int j = 0; j < K_MAX_SUB; j++)
        scale[j] = weighted_sub_symmetric(x + j * N, weight + j * N, N, half_q);
    float d = f32_from_f16(f16_from_f32(largest_magnitude(scale, K_MAX_SUB) / (float)-half_scale));
    for (int j = 0; j < K_MAX_SUB; j++)
        out->scale[j] = (int8_t)level_nearest(scale[j] * inverse(d), -half_scale, half_scale - 1);
    for (int round = 0; round < N_ROUNDS; round++) {
        double qq = 0, qx = 0;
        for (int j = 0; j < K_MAX_SUB; j++) {
            choose_code(out, sums, x, weight, j, d, half_q, half_scale);
            const double c = out->scale[j];
            qq += c * c * (double)sums[j].qq;
            qx += c * (double)sums[j].qx;
        }
        if (qq > 0)
            d = f32_from_f16(f16_from_f32((float)(qx / qq)));
    }
    out->d = f16_from_f32(d);
    for (int j = 0; j < K_MAX_SUB; j++) {
        const float inv = inverse(d * (float)out->scale[j]);
        for (int i = 0; i < N; i++)
            out->q[j * N + i] = (int8_t)level_nearest(x[j * N + i] * inv, -half_q, half_q - 1);
    }
}
