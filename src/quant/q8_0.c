/* q8_0.c: 32 weights of 8 bits and a scale. */
#include <math.h>
#include <string.h>

#include "base/fp16.h"
#include "quant/blocks.h"
#include "quant/round.h"
#include "quant/types.h"

static void decode(float *out, const void *in, size_t n)
{
    const unsigned char *p = in;
    struct block_q8_0 b;
    for (size_t k = 0; k < n / QK; k++, p += sizeof b, out += QK) {
        memcpy(&b, p, sizeof b);
        const float d = f32_from_f16(b.d);
        for (int i = 0; i < QK; i++)
            out[i] = (float)b.qs[i] * d;
    }
}

static void encode(void *out, const float *in, size_t n)
{
    unsigned char *p = out;
    struct block_q8_0 b;
    for (size_t k = 0; k < n / QK; k++, p += sizeof b, in += QK) {
        const float d = fabsf(largest_magnitude(in, QK)) / 127.0f;
        const float inv = inverse(d);
        for (int i = 0; i < QK; i++)
            b.qs[i] = (int8_t)level_nearest(in[i] * inv, -127, 127);
        b.d = f16_from_f32(d);
        memcpy(p, &b, sizeof b);
    }
}

const struct quant quant_q8_0 = {QUANT_Q8_0, "q8_0", QK, sizeof(struct block_q8_0), decode, encode};
