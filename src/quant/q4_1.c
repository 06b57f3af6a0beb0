/* q4_1.c: 32 weights of 4 bits above a minimum, and a scale. */
#include <string.h>

#include "base/fp16.h"
#include "quant/blocks.h"
#include "quant/round.h"
#include "quant/types.h"
#include "quant/weighted_fit.h"

static void decode(float *out, const void *in, size_t n)
{
    const unsigned char *p = in;
    struct block_q4_1 b;
    for (size_t k = 0; k < n / QK; k++, p += sizeof b, out += QK) {
        memcpy(&b, p, sizeof b);
        const float d = f32_from_f16(b.d);
        const float m = f32_from_f16(b.m);
        for (int i = 0; i < QK / 2; i++) {
            out[i] = d * (float)(b.qs[i] & 0x0f) + m;
            out[QK / 2 + i] = d * (float)(b.qs[i] >> 4) + m;
        }
    }
}

static void pack(unsigned char *p, const float *x, float d, float min)
{
    struct block_q4_1 b;
    const float inv = inverse(d);
    for (int i = 0; i < QK / 2; i++) {
        const int low = level_cut((x[i] - min) * inv + 0.5f, 15);
        const int high = level_cut((x[QK / 2 + i] - min) * inv + 0.5f, 15);
        b.qs[i] = (uint8_t)(low | high << 4);
    }
    b.d = f16_from_f32(d);
    b.m = f16_from_f32(min);
    memcpy(p, &b, sizeof b);
}

static void encode(void *out, const float *in, size_t n)
{
    unsigned char *p = out;
    for (size_t k = 0; k < n / QK; k++, p += sizeof(struct block_q4_1), in += QK) {
        float min, max;
        range(&min, &max, in, QK);
        pack(p, in, (max - min) / 15.0f, min);
    }
}

void q4_1_fit(void *out, const float *in, const float *weight, size_t n)
{
    unsigned char *p = out;
    for (size_t k = 0; k < n / QK; k++, p += sizeof(struct block_q4_1), in += QK, weight += QK) {
        float d, min;
        weighted_affine_16(in, weight, QK, 15, &d, &min);
        pack(p, in, d, min);
    }
}

const struct quant quant_q4_1 = {QUANT_Q4_1, "q4_1", QK, sizeof(struct block_q4_1), decode, encode};
