/* weighted_sums.h: the sums that least squares needs, in lanes that compilers turn into vectors. */
#ifndef QUANT_WEIGHTED_SUMS_H
#define QUANT_WEIGHTED_SUMS_H

#include "quant/round.h"

enum {
    FIT_LANES = 8
};

static inline float lanes_sum(const float *a) { return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7])); }

/* v rounded to the nearest integer within low .. high: adding 1.5 * 2^23 leaves no bits behind the point. */
static inline float level_of(float v, float low, float high)
{
    v = v > low ? v : low;
    v = v < high ? v : high;
    return v + 0x1.8p23f - 0x1.8p23f;
}

/* Weighted sums over levels q = nearest(x * inv). */
struct symmetric_sums {
    float qq, qx;
};

static inline struct symmetric_sums symmetric_sums_of(const float *x, const float *w, int n, float inv, float low, float high)
{
    float qq[FIT_LANES] = {0}, qx[FIT_LANES] = {0};
    for (int i = 0; i < n; i += FIT_LANES)
        for (int l = 0; l < FIT_LANES; l++) {
            const float q = level_of(x[i + l] * inv, low, high), wq = w[i + l] * q;
            qq[l] += wq * q;
            qx[l] += wq * x[i + l];
        }
    return (struct symmetric_sums){lanes_sum(qq), lanes_sum(qx)};
}

/* Those of levels q = nearest((x + min) * inv) from 0 on; the ones without q do not depend on them. */
struct affine_sums {
    float w, x, xx;
    float q, qq, qx;
};

static inline void affine_sums_fixed(struct affine_sums *s, const float *x, const float *w, int n)
{
    float sw[FIT_LANES] = {0}, sx[FIT_LANES] = {0}, sxx[FIT_LANES] = {0};
    for (int i = 0; i < n; i += FIT_LANES)
        for (int l = 0; l < FIT_LANES; l++) {
            const float wx = w[i + l] * x[i + l];
            sw[l] += w[i + l];
            sx[l] += wx;
            sxx[l] += wx * x[i + l];
        }
    s->w = lanes_sum(sw);
    s->x = lanes_sum(sx);
    s->xx = lanes_sum(sxx);
}

static inline void affine_sums_levels(struct affine_sums *s, const float *x, const float *w, int n, float inv, float min,
                                      float high)
{
    float sq[FIT_LANES] = {0}, sqq[FIT_LANES] = {0}, sqx[FIT_LANES] = {0};
    for (int i = 0; i < n; i += FIT_LANES)
        for (int l = 0; l < FIT_LANES; l++) {
            const float q = level_of((x[i + l] + min) * inv, 0, high), wq = w[i + l] * q;
            sq[l] += wq;
            sqq[l] += wq * q;
            sqx[l] += wq * x[i + l];
        }
    s->q = lanes_sum(sq);
    s->qq = lanes_sum(sqq);
    s->qx = lanes_sum(sqx);
}

/* Weighted squared error of x ~ scale * q - min, for those levels. */
static inline float affine_error_of(const struct affine_sums *s, float scale, float min)
{
    return s->xx + scale * (scale * s->qq - 2 * s->qx - 2 * min * s->q) + min * (min * s->w + 2 * s->x);
}

#endif
