/* bf16.c: bfloat16, the upper half of a float. */
#include <string.h>

#include "base/fp16.h"
#include "quant/types.h"

static void decode(float *out, const void *in, size_t n)
{
    const unsigned char *p = in;
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, p + i * sizeof h, sizeof h);
        out[i] = f32_from_bf16(h);
    }
}

static void encode(void *out, const float *in, size_t n)
{
    unsigned char *p = out;
    for (size_t i = 0; i < n; i++) {
        const uint16_t h = bf16_from_f32(in[i]);
        memcpy(p + i * sizeof h, &h, sizeof h);
    }
}

const struct quant quant_bf16 = {QUANT_BF16, "bf16", 1, sizeof(uint16_t), decode, encode};
