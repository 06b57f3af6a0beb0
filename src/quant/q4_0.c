/* q4_0.c: 32 weights of 4 bits around zero and a scale. */
#include <string.h>

#include "base/fp16.h"
#include "quant/blocks.h"
#include "quant/round.h"
#include "quant/types.h"
#include "quant/weighted_fit.h"

static void decode(float *out, const void *in, size_t n)
{
    const unsigned char *p = in;
    struct block_q4_0 b;
    for (size_t k = 0; k < n / QK; k++, p += sizeof b, out += QK) {
        memcpy(&b, p, sizeof b);
        const float d = f32_from_f16(b.d);
        for (int i = 0; i < QK / 2; i++) {
            out[i] = d * (float)((b.qs[i] & 0x0f) - 8);
            out[QK / 2 + i] = d * (float)((b.qs[i] >> 4) - 8);
        }
    }
}

static void pack(unsigned char *p, const float *x, float d)
{
    struct block_q4_0 b;
    const float inv = inverse(d);
    for (int i = 0; i < QK / 2; i++) {
        const int low = level_cut(x[i] * inv + 8.5f, 15);
        const int high = level_cut(x[QK / 2 + i] * inv + 8.5f, 15);
        b.qs[i] = (uint8_t)(low | high << 4);
    }
    b.d = f16_from_f32(d);
    memcpy(p, &b, sizeof b);
}

/* The scale is chosen so that the largest weight is the level -8, the one that has no positive twin. */
static void encode(void *out, const float *in, size_t n)
{
    unsigned char *p = out;
    for (size_t k = 0; k < n / QK; k++, p += sizeof(struct block_q4_0), in += QK)
        pack(p, in, largest_magnitude(in, QK) / -8.0f);
}

void q4_0_fit(void *out, const float *in, const float *weight, size_t n)
{
    unsigned char *p = out;
    for (size_t k = 0; k < n / QK; k++, p += sizeof(struct block_q4_0), in += QK, weight += QK)
        pack(p, in, weighted_scale_16(in, weight, QK, 8));
}

const struct quant quant_q4_0 = {QUANT_Q4_0, "q4_0", QK, sizeof(struct block_q4_0), decode, encode};
