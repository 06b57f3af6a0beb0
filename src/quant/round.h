/* round.h: how encoders turn a float into a level. */
#ifndef QUANT_ROUND_H
#define QUANT_ROUND_H

#include <math.h>
#include <stdint.h>

/* 1 / d, and 0 for d = 0: a block of zeros encodes as zeros. */
static inline float inverse(float d) { return d == 0.0f ? 0.0f : 1.0f / d; }

/* x cut towards zero into 0..high. What no level stands for (NaN, infinity: the weights were not finite, or the scale
 * is so small that it rounds to zero anyway) gives 0. */
static inline uint8_t level_cut(float x, int high)
{
    if (!(x >= 0.0f && x < 256.0f))
        return 0;
    const int q = (int)x;
    return (uint8_t)(q < high ? q : high);
}

/* x rounded to the nearest of low..high, halves away from zero; NaN gives 0. */
static inline int level_nearest(float x, int low, int high)
{
    if (x != x)
        return 0;
    if (x <= (float)low)
        return low;
    if (x >= (float)high)
        return high;
    const int q = (int)x;
    const float rest = x - (float)q; /* exact */
    return q + (rest >= 0.5f) - (rest <= -0.5f);
}

/* The element of largest magnitude, the first of equals, with its sign. A NaN counts as larger than anything. */
static inline float largest_magnitude(const float *x, int n)
{
    float best = x[0];
    for (int i = 1; i < n; i++) {
        const float a = fabsf(x[i]), b = fabsf(best);
        if (a > b || (a != a && b == b))
            best = x[i];
    }
    return best;
}

static inline void range(float *min, float *max, const float *x, int n)
{
    *min = *max = x[0];
    for (int i = 1; i < n; i++) {
        *min = x[i] < *min ? x[i] : *min;
        *max = x[i] > *max ? x[i] : *max;
    }
}

#endif
