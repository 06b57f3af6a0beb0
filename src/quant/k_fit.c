/* k_fit.c: fits of the K types. */
#include "quant/k_fit.h"

#include "base/fp16.h"
#include "quant/round.h"

/* Starting scales relative to the one that covers the whole range: to cut off a rare extreme often costs less than the
 * coarser steps that it asks for. */
static const float start[] = {1.0f, 0.95f, 0.9f, 0.85f, 0.8f, 0.75f, 0.7f};

enum {
    N_START = sizeof start / sizeof *start
};

static float affine_error(const float *x, int n, float scale, float min, int max_q)
{
    const float inv = inverse(scale);
    float error = 0;
    for (int i = 0; i < n; i++) {
        const float e = scale * (float)level_nearest((x[i] + min) * inv, 0, max_q) - min - x[i];
        error += e * e;
    }
    return error;
}

/* The least-squares scale and min (not negative) for the levels that the present ones choose. */
static void affine_refit(const float *x, int n, float *scale, float *min, int max_q)
{
    const float inv = inverse(*scale);
    float sum_q = 0, sum_qq = 0, sum_x = 0, sum_qx = 0;
    for (int i = 0; i < n; i++) {
        const float q = (float)level_nearest((x[i] + *min) * inv, 0, max_q);
        sum_q += q;
        sum_qq += q * q;
        sum_x += x[i];
        sum_qx += q * x[i];
    }
    const float det = (float)n * sum_qq - sum_q * sum_q;
    if (!(det > 0))
        return;
    const float s = ((float)n * sum_qx - sum_q * sum_x) / det;
    const float m = (sum_q * sum_qx - sum_qq * sum_x) / det;
    if (m >= 0 && s > 0) {
        *scale = s;
        *min = m;
    } else if (sum_qx > 0) {
        *scale = sum_qx / sum_qq;
        *min = 0;
    }
}

static void affine_fit_sub(const float *x, int n, int max_q, float *scale, float *min)
{
    float low, high;
    range(&low, &high, x, n);
    low = low < 0 ? low : 0;
    high = high > low ? high : low;
    *scale = (high - low) / (float)max_q;
    *min = -low;
    float best = affine_error(x, n, *scale, *min, max_q);
    for (int t = 0; t < N_START; t++) {
        float s = (high - low) / (float)max_q * start[t], m = -low;
        for (int round = 0; round < 2; round++)
            affine_refit(x, n, &s, &m, max_q);
        const float error = affine_error(x, n, s, m, max_q);
        if (error < best) {
            best = error;
            *scale = s;
            *min = m;
        }
    }
}

/* code[n] = v[n] / d rounded to 0..max_code; returns d, rounded to binary16. */
static uint16_t positive_codes(uint8_t *code, const float *v, int n, int max_code)
{
    float largest = 0;
    for (int i = 0; i < n; i++)
        largest = v[i] > largest ? v[i] : largest;
    const uint16_t d = f16_from_f32(largest / (float)max_code);
    const float inv = inverse(f32_from_f16(d));
    for (int i = 0; i < n; i++)
        code[i] = (uint8_t)level_nearest(v[i] * inv, 0, max_code);
    return d;
}

void k_affine_fit(struct k_affine *out, const float x[QK_K], int n_sub, int max_q, int max_scale)
{
    const int n = QK_K / n_sub;
    float scale[K_MAX_SUB] = {0}, min[K_MAX_SUB] = {0};
    for (int j = 0; j < n_sub; j++)
        affine_fit_sub(x + j * n, n, max_q, &scale[j], &min[j]);
    out->d = positive_codes(out->scale, scale, n_sub, max_scale);
    out->dmin = positive_codes(out->min, min, n_sub, max_scale);
    for (int j = 0; j < n_sub; j++) {
        const float inv = inverse(f32_from_f16(out->d) * (float)out->scale[j]);
        const float m = f32_from_f16(out->dmin) * (float)out->min[j];
        for (int i = 0; i < n; i++)
            out->q[j * n + i] = (uint8_t)level_nearest((x[j * n + i] + m) * inv, 0, max_q);
    }
}

/* Least-squares scale for the levels that `scale` chooses, and the error it leaves relative to sum x^2 (negative: what
 * it explains). */
static float symmetric_refit(const float *x, int n, int half_q, float *scale)
{
    const float inv = inverse(*scale);
    float sum_qq = 0, sum_qx = 0;
    for (int i = 0; i < n; i++) {
        const float q = (float)level_nearest(x[i] * inv, -half_q, half_q - 1);
        sum_qq += q * q;
        sum_qx += q * x[i];
    }
    if (!(sum_qq > 0))
        return 0;
    *scale = sum_qx / sum_qq;
    return -(*scale) * sum_qx;
}

static float symmetric_fit_sub(const float *x, int n, int half_q)
{
    const float full = largest_magnitude(x, n) / (float)-half_q;
    float best_scale = full, best = 0;
    for (int t = 0; t < N_START; t++) {
        float scale = full * start[t];
        symmetric_refit(x, n, half_q, &scale);
        const float error = symmetric_refit(x, n, half_q, &scale);
        if (error < best) {
            best = error;
            best_scale = scale;
        }
    }
    return best_scale;
}

void k_symmetric_fit(struct k_symmetric *out, const float x[QK_K], int half_q, int half_scale)
{
    enum {
        N = QK_K / K_MAX_SUB
    };
    float scale[K_MAX_SUB];
    for (int j = 0; j < K_MAX_SUB; j++)
        scale[j] = symmetric_fit_sub(x + j * N, N, half_q);
    out->d = f16_from_f32(largest_magnitude(scale, K_MAX_SUB) / (float)-half_scale);
    const float d = f32_from_f16(out->d);
    const float inv_d = inverse(d);
    for (int j = 0; j < K_MAX_SUB; j++) {
        out->scale[j] = (int8_t)level_nearest(scale[j] * inv_d, -half_scale, half_scale - 1);
        const float inv = inverse(d * (float)out->scale[j]);
        for (int i = 0; i < N; i++)
            out->q[j * N + i] = (int8_t)level_nearest(x[j * N + i] * inv, -half_q, half_q - 1);
    }
}
