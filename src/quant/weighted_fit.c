/* weighted_fit.c: fits of one block, or of one sub-block of the K types. */
#include "quant/weighted_fit.h"

#include "base/fp16.h"
#include "quant/weighted_sub.h"

/* Starting scales put the largest weight at so many levels beside the last one: to cut a rare extreme off often costs less
 * than the coarser steps that it asks for, and to leave room beyond it moves all levels. */
static const float beside[] = {0, 0.6F, -0.6F, 0.3F, -0.3F, 0.9F, -0.9F, 1.3F};
enum {
    N_BESIDE = sizeof beside / sizeof *beside,
    N_FINE = 3, /* starts for types whose steps are so fine that little is left to find */
    FINE_HALF = 32,
    N_TURNS = 3 /* of levels and least squares behind the best start */
};

struct best {
    float scale, explained;
};

/* Least squares for the levels that 1 / inv chooses; explained: how much of sum w x^2. */
static void try_scale(struct best *best, const float *x, const float *w, int n, int half, float inv)
{
    const struct symmetric_sums s = symmetric_sums_of(x, w, n, inv, (float)-half, (float)(half - 1));
    if (s.qq > 0 && s.qx * s.qx > best->explained * s.qq) {
        best->explained = s.qx * s.qx / s.qq;
        best->scale = s.qx / s.qq;
    }
}

float weighted_sub_symmetric(const float *x, const float *w, int n, int half)
{
    const float largest = largest_magnitude(x, n);
    const int n_start = half >= FINE_HALF ? N_FINE : N_BESIDE;
    struct best best = {largest / (float)-half, 0};
    if (!(fabsf(largest) > 0))
        return 0;
    for (int t = 0; t < n_start; t++)
        try_scale(&best, x, w, n, half, -((float)half + beside[t]) / largest);
    for (int t = 0; t < n_start && half < FINE_HALF; t += 2) /* the largest at the end that reaches less far */
        try_scale(&best, x, w, n, half, ((float)(half - 1) + beside[t]) / largest);
    for (int turn = 0; turn < N_TURNS; turn++) {
        const float before = best.scale;
        try_scale(&best, x, w, n, half, inverse(best.scale));
        if (best.scale == before)
            break;
    }
    return best.scale;
}

float weighted_scale_16(const float *x, const float *weight, int n, int half)
{
    return f32_from_f16(f16_from_f32(weighted_sub_symmetric(x, weight, n, half)));
}

/* The least-squares scale and min for the levels of the sums; false: there is none with a positive scale and, unless
 * any_min, a min of 0 or more. */
static bool affine_solve(const struct affine_sums *s, bool any_min, float *scale, float *min)
{
    const float det = s->w * s->qq - s->q * s->q;
    if (det > 0) {
        *scale = (s->w * s->qx - s->x * s->q) / det;
        *min = (s->q * s->qx - s->qq * s->x) / det;
        if (*scale > 0 && (any_min || *min >= 0))
            return true;
    }
    *scale = s->qq > 0 ? s->qx / s->qq : 0;
    *min = 0;
    return *scale > 0;
}

struct affine_best {
    float scale, min, error;
};

static bool try_affine(struct affine_best *best, struct affine_sums *s, const float *x, const float *w, int n, int max_q,
                       float inv, float min, bool any_min)
{
    float scale, new_min;
    affine_sums_levels(s, x, w, n, inv, min, (float)max_q);
    if (!affine_solve(s, any_min, &scale, &new_min))
        return false;
    const float error = affine_error_of(s, scale, new_min);
    if (!(error < best->error))
        return false;
    *best = (struct affine_best){scale, new_min, error};
    return true;
}

void weighted_sub_affine(const float *x, const float *w, int n, int max_q, bool any_min, float *scale, float *min)
{
    float low, high;
    struct affine_sums s;
    range(&low, &high, x, n);
    if (!any_min)
        low = low < 0 ? low : 0;
    affine_sums_fixed(&s, x, w, n);
    struct affine_best best = {(high - low) / (float)max_q, -low, INFINITY};
    if (!(high > low)) {
        *scale = 0;
        *min = -low;
        return;
    }
    for (int t = 0; t < N_BESIDE; t++)
        try_affine(&best, &s, x, w, n, max_q, ((float)max_q + beside[t]) / (high - low), -low, any_min);
    for (int turn = 0; turn < N_TURNS; turn++)
        if (!try_affine(&best, &s, x, w, n, max_q, inverse(best.scale), best.min, any_min))
            break;
    *scale = best.scale;
    *min = best.min;
}

void weighted_affine_16(const float *x, const float *weight, int n, int max_q, float *scale, float *min)
{
    float m;
    weighted_sub_affine(x, weight, n, max_q, true, scale, &m);
    *scale = f32_from_f16(f16_from_f32(*scale));
    *min = f32_from_f16(f16_from_f32(-m));
}
