/* q3_k.c: 256 weights of 3 bits in sixteen sub-blocks with 6-bit scales. */
#include <string.h>

#include "base/fp16.h"
#include "quant/k_fit.h"
#include "quant/k_scales.h"
#include "quant/types.h"
#include "quant/weighted_fit.h"

static void decode(float *out, const void *in, size_t n)
{
    const unsigned char *p = in;
    struct block_q3_k b;
    int8_t scales[16];
    for (size_t k = 0; k < n / QK_K; k++, p += sizeof b, out += QK_K) {
        memcpy(&b, p, sizeof b);
        q3_k_scales_unpack(scales, b.scales);
        const float d = f32_from_f16(b.d);
        for (int j = 0; j < QK_K / 16; j++) {
            const float scale = d * (float)scales[j];
            const uint8_t *q = b.qs + j / 8 * 32 + j % 2 * 16;
            const uint8_t *h = b.hmask + j % 2 * 16;
            const int shift = j % 8 / 2 * 2, bit = j / 2;
            for (int i = 0; i < 16; i++)
                out[16 * j + i] = scale * (float)((q[i] >> shift & 3) + (h[i] >> bit & 1) * 4 - 4);
        }
    }
}

static void pack(unsigned char *p, const struct k_symmetric *fit)
{
    struct block_q3_k b;
    memset(&b, 0, sizeof b);
    b.d = fit->d;
    q3_k_scales_pack(b.scales, fit->scale);
    for (int i = 0; i < QK_K; i++) {
        const int code = fit->q[i] + 4;
        uint8_t *q = &b.qs[i / 128 * 32 + i % 32], *h = &b.hmask[i % 32];
        *q = (uint8_t)(*q | (code & 3) << (i % 128 / 32 * 2));
        *h = (uint8_t)(*h | code >> 2 << i / 32);
    }
    memcpy(p, &b, sizeof b);
}

static void encode(void *out, const float *in, size_t n)
{
    unsigned char *p = out;
    struct k_symmetric f;
    for (size_t k = 0; k < n / QK_K; k++, p += sizeof(struct block_q3_k), in += QK_K) {
        k_symmetric_fit(&f, in, 4, 32);
        pack(p, &f);
    }
}

void q3_k_fit(void *out, const float *in, const float *weight, size_t n)
{
    unsigned char *p = out;
    struct k_symmetric f;
    for (size_t k = 0; k < n / QK_K; k++, p += sizeof(struct block_q3_k), in += QK_K, weight += QK_K) {
        weighted_k_symmetric(&f, in, weight, 4, 32);
        pack(p, &f);
    }
}

const struct quant quant_q3_k = {QUANT_Q3_K, "q3_k", QK_K, sizeof(struct block_q3_k), decode, encode};
