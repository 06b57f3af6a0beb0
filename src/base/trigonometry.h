/* trigonometry.h: sine, cosine and powers in double precision and plain arithmetic, for rotary position embeddings: the same
 * bits on every CPU (see float_math.h). */
#ifndef BASE_TRIGONOMETRY_H
#define BASE_TRIGONOMETRY_H

#include <stdint.h>
#include <string.h>

#include "base/float_math.h"

/* e^x within some ulp for |x| <= 700. */
static inline double math_exp64(double x)
{
    const double shifted = x * 0x1.71547652b82fep+0 + 0x1.8p52; /* rounds x / ln 2 to an integer in the low bits */
    const double n = shifted - 0x1.8p52;
    const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33; /* ln 2 in two parts */
    double sum = 1.0; /* |r| <= 0.347: the first term left out is below 2^-57 */
    for (int k = 14; k >= 1; k--)
        sum = 1.0 + sum * r / k;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return sum * scale;
}

/* base^x for base > 0 and results from 1e-300 to 1e300. */
static inline double math_power(double base, double x) { return math_exp64(x * math_log(base)); }

/* Sine and cosine of x within 1e-10; 0 <= x <= 2^30. */
static inline void math_sincos(double *sine, double *cosine, double x)
{
    const double shifted = x * 0x1.45f306dc9c883p-1 + 0x1.8p52; /* rounds x / (pi/2) */
    const double n = shifted - 0x1.8p52;
    /* pi/2 in three parts: the first two have 21 bits, so that n times them is exact */
    const double r = ((x - n * 0x1.921fbp+0) - n * 0x1.5110bp-22) - n * 0x1.18469898cc517p-44;
    const double q = r * r;
    double s = 1.0, c = 1.0; /* |r| <= pi/4: the first terms left out are below 2^-52 */
    for (int k = 16; k >= 2; k -= 2) {
        s = 1.0 - s * q / (k * (k + 1));
        c = 1.0 - c * q / (k * (k - 1));
    }
    s *= r;
    uint64_t quadrant;
    memcpy(&quadrant, &shifted, sizeof quadrant);
    const double a = quadrant & 1 ? c : s, b = quadrant & 1 ? s : c;
    *sine = quadrant & 2 ? -a : a;
    *cosine = (quadrant + 1) & 2 ? -b : b;
}

#endif
