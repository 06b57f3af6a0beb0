/* f16.c: IEEE 754 binary16. */
#include <string.h>

#include "base/fp16.h"
#include "quant/types.h"

static void decode(float *out, const void *in, size_t n)
{
    const unsigned char *p = in;
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, p + i * sizeof h, sizeof h);
        out[i] = f32_from_f16(h);
    }
}

static void encode(void *out, const float *in, size_t n)
{
    unsigned char *p = out;
    for (size_t i = 0; i < n; i++) {
        const uint16_t h = f16_from_f32(in[i]);
        memcpy(p + i * sizeof h, &h, sizeof h);
    }
}

const struct quant quant_f16 = {QUANT_F16, "f16", 1, sizeof(uint16_t), decode, encode};
