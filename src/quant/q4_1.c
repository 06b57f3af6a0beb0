/* q4_1.c: 32 weights of 4 bits above a minimum, and a scale. */
#include <string.h>

#include "base/fp16.h"
#include "quant/blocks.h"
#include "quant/round.h"
#include "quant/types.h"

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

static void encode(void *out, const float *in, size_t n)
{
    unsigned char *p = out;
    struct block_q4_1 b;
    for (size_t k = 0; k < n / QK; k++, p += sizeof b, in += QK) {
        float min, max;
        range(&min, &max, in, QK);
        const float d = (max - min) / 15.0f;
        const float inv = inverse(d);
        for (int i = 0; i < QK / 2; i++) {
            const int low = level_cut((in[i] - min) * inv + 0.5f, 15);
            const int high = level_cut((in[QK / 2 + i] - min) * inv + 0.5f, 15);
            b.qs[i] = (uint8_t)(low | high << 4);
        }
        b.d = f16_from_f32(d);
        b.m = f16_from_f32(min);
        memcpy(p, &b, sizeof b);
    }
}

const struct quant quant_q4_1 = {QUANT_Q4_1, "q4_1", QK, sizeof(struct block_q4_1), decode, encode};
