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

/* Index of the nearest level, by counting the middles below; NaN gives 0. */
static int nearest_level(float x)
{
    int n = 0;
    for (int i = 0; i < 15; i++)
        n += x > 0.5f * (float)(iq4_nl_values[i] + iq4_nl_values[i + 1]);
    return n;
}

/* The least-squares scale for the levels that *scale chooses; returns how much of sum w x^2 it explains. */
static float refit(const float *x, const float *weight, float *scale)
{
    const float inv = inverse(*scale);
    float sum_vv = 0, sum_vx = 0;
    for (int i = 0; i < QK; i++) {
        const float v = (float)iq4_nl_values[nearest_level(x[i] * inv)];
        sum_vv += weight[i] * v * v;
        sum_vx += weight[i] * v * x[i];
    }
    *scale = sum_vv > 0 ? sum_vx / sum_vv : 0;
    return *scale * sum_vx;
}

/* The levels are not symmetric: the largest weight may sit at either end, and a little inside or outside of it. */
static float best_scale(const float *x, const float *weight)
{
    static const float end[] = {-127, 113};
    static const float reach[] = {1.0f, 0.92f, 0.85f, 0.78f, 1.08f};
    const float largest = largest_magnitude(x, QK);
    float scale_found = largest / end[0], best = 0;
    for (size_t e = 0; e < sizeof end / sizeof *end; e++)
        for (size_t r = 0; r < sizeof reach / sizeof *reach; r++) {
            float scale = largest / end[e] * reach[r];
            refit(x, weight, &scale);
            const float explained = refit(x, weight, &scale);
            if (explained > best) {
                best = explained;
                scale_found = scale;
            }
        }
    return scale_found;
}

void iq4_nl_fit(void *out, const float *in, const float *weight, size_t n)
{
    unsigned char *p = out;
    struct block_iq4_nl b;
    for (size_t k = 0; k < n / QK; k++, p += sizeof b, in += QK, weight += QK) {
        b.d = f16_from_f32(best_scale(in, weight));
        const float inv = inverse(f32_from_f16(b.d));
        for (int i = 0; i < QK / 2; i++)
            b.qs[i] = (uint8_t)(nearest_level(in[i] * inv) | nearest_level(in[QK / 2 + i] * inv) << 4);
        memcpy(p, &b, sizeof b);
    }
}

static void encode(void *out, const float *in, size_t n)
{
    float even[QK];
    unsigned char *p = out;
    for (int i = 0; i < QK; i++)
        even[i] = 1;
    for (size_t k = 0; k < n / QK; k++, p += sizeof(struct block_iq4_nl), in += QK)
        iq4_nl_fit(p, in, even, QK);
}

const struct quant quant_iq4_nl = {QUANT_IQ4_NL, "iq4_nl", QK, sizeof(struct block_iq4_nl), decode, encode};
