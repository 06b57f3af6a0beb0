/* q5_1.c: 32 weights of 5 bits above a minimum, and a scale. */
#include <string.h>

#include "base/fp16.h"
#include "quant/blocks.h"
#include "quant/high_bits.h"
#include "quant/round.h"
#include "quant/types.h"
#include "quant/weighted_fit.h"

static void decode(float *out, const void *in, size_t n)
{
    const unsigned char *p = in;
    struct block_q5_1 b;
    for (size_t k = 0; k < n / QK; k++, p += sizeof b, out += QK) {
        memcpy(&b, p, sizeof b);
        const float d = f32_from_f16(b.d);
        const float m = f32_from_f16(b.m);
        const uint32_t qh = high_bits_load(b.qh);
        for (int i = 0; i < QK / 2; i++) {
            const int low = (b.qs[i] & 0x0f) | (int)(qh >> i & 1) << 4;
            const int high = b.qs[i] >> 4 | (int)(qh >> (QK / 2 + i) & 1) << 4;
            out[i] = d * (float)low + m;
            out[QK / 2 + i] = d * (float)high + m;
        }
    }
}

static void pack(unsigned char *p, const float *x, float d, float min)
{
    struct block_q5_1 b;
    const float inv = inverse(d);
    uint32_t qh = 0;
    for (int i = 0; i < QK / 2; i++) {
        const uint32_t low = level_cut((x[i] - min) * inv + 0.5f, 31);
        const uint32_t high = level_cut((x[QK / 2 + i] - min) * inv + 0.5f, 31);
        b.qs[i] = (uint8_t)((low & 0x0f) | (high & 0x0f) << 4);
        qh |= low >> 4 << i | high >> 4 << (QK / 2 + i);
    }
    high_bits_store(b.qh, qh);
    b.d = f16_from_f32(d);
    b.m = f16_from_f32(min);
    memcpy(p, &b, sizeof b);
}

static void encode(void *out, const float *in, size_t n)
{
    unsigned char *p = out;
    for (size_t k = 0; k < n / QK; k++, p += sizeof(struct block_q5_1), in += QK) {
        float min, max;
        range(&min, &max, in, QK);
        pack(p, in, (max - min) / 31.0f, min);
    }
}

void q5_1_fit(void *out, const float *in, const float *weight, size_t n)
{
    unsigned char *p = out;
    for (size_t k = 0; k < n / QK; k++, p += sizeof(struct block_q5_1), in += QK, weight += QK) {
        float d, min;
        weighted_affine_16(in, weight, QK, 31, &d, &min);
        pack(p, in, d, min);
    }
}

const struct quant quant_q5_1 = {QUANT_Q5_1, "q5_1", QK, sizeof(struct block_q5_1), decode, encode};
