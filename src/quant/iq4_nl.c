/* iq4_nl.c: 32 weights of 4 bits that select one of sixteen uneven levels, and a scale. */
#include <string.h>

#include "base/fp16.h"
#include "quant/blocks.h"
#include "quant/round.h"
#include "quant/types.h"

const int8_t iq4_nl_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void decode(float *out, const void *in, size_t n)
{
    const unsigned char *p = in;
    struct block_iq4_nl b;
    for (size_t k = 0; k < n / QK; k++, p += sizeof b, out += QK) {
        memcpy(&b, p, sizeof b);
        const float d = f32_from_f16(b.d);
        for (int i = 0; i < QK / 2; i++) {
            out[i] = d * (float)iq4_nl_values[b.qs[i] & 0x0f];
            out[QK / 2 + i] = d * (float)iq4_nl_values[b.qs[i] >> 4];
        }
    }
}

/* Index of the nearest level; NaN gives 0. */
static int nearest_level(float x)
{
    int i = 0;
    while (i < 15 && x > 0.5f * (float)(iq4_nl_values[i] + iq4_nl_values[i + 1]))
        i++;
    return i;
}

/* The least-squares scale for the levels that *scale chooses; returns how much of sum x^2 it explains. */
static float refit(const float *x, float *scale)
{
    const float inv = inverse(*scale);
    float sum_vv = 0, sum_vx = 0;
    for (int i = 0; i < QK; i++) {
        const float v = (float)iq4_nl_values[nearest_level(x[i] * inv)];
        sum_vv += v * v;
        sum_vx += v * x[i];
    }
    *scale = sum_vx / sum_vv; /* no level is zero */
    return *scale * sum_vx;
}

/* The levels are not symmetric: the largest weight may sit at either end, and a little inside or outside of it. */
static float fit(const float *x)
{
    static const float end[] = {-127, 113};
    static const float reach[] = {1.0f, 0.92f, 0.85f, 0.78f, 1.08f};
    const float largest = largest_magnitude(x, QK);
    float best_scale = largest / end[0], best = 0;
    for (size_t e = 0; e < sizeof end / sizeof *end; e++)
        for (size_t r = 0; r < sizeof reach / sizeof *reach; r++) {
            float scale = largest / end[e] * reach[r];
            refit(x, &scale);
            const float explained = refit(x, &scale);
            if (explained > best) {
                best = explained;
                best_scale = scale;
            }
        }
    return best_scale;
}

static void encode(void *out, const float *in, size_t n)
{
    unsigned char *p = out;
    struct block_iq4_nl b;
    for (size_t k = 0; k < n / QK; k++, p += sizeof b, in += QK) {
        b.d = f16_from_f32(fit(in));
        const float inv = inverse(f32_from_f16(b.d));
        for (int i = 0; i < QK / 2; i++)
            b.qs[i] = (uint8_t)(nearest_level(in[i] * inv) | nearest_level(in[QK / 2 + i] * inv) << 4);
        memcpy(p, &b, sizeof b);
    }
}

const struct quant quant_iq4_nl = {QUANT_IQ4_NL, "iq4_nl", QK, sizeof(struct block_iq4_nl), decode, encode};
