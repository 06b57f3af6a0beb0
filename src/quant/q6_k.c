/* q6_k.c: 256 weights of 6 bits in sixteen sub-blocks with 8-bit scales. */
#include <string.h>

#include "base/fp16.h"
#include "quant/k_fit.h"
#include "quant/types.h"
#include "quant/weighted_fit.h"

static void decode(float *out, const void *in, size_t n)
{
    const unsigned char *p = in;
    struct block_q6_k b;
    for (size_t k = 0; k < n / QK_K; k++, p += sizeof b, out += QK_K) {
        memcpy(&b, p, sizeof b);
        const float d = f32_from_f16(b.d);
        for (int j = 0; j < QK_K / 16; j++) {
            const float scale = d * (float)b.scales[j];
            const int row = j % 8 / 2; /* of 32 weights within the half */
            const uint8_t *l = b.ql + j / 8 * 64 + row % 2 * 32 + j % 2 * 16;
            const uint8_t *h = b.qh + j / 8 * 32 + j % 2 * 16;
            for (int i = 0; i < 16; i++) {
                const int level = (l[i] >> (row / 2 * 4) & 0x0f) | (h[i] >> (row * 2) & 3) << 4;
                out[16 * j + i] = scale * (float)(level - 32);
            }
        }
    }
}

static void pack(unsigned char *p, const struct k_symmetric *fit)
{
    struct block_q6_k b;
    memset(&b, 0, sizeof b);
    b.d = fit->d;
    memcpy(b.scales, fit->scale, sizeof b.scales);
    for (int i = 0; i < QK_K; i++) {
        const int level = fit->q[i] + 32, row = i % 128 / 32;
        uint8_t *l = &b.ql[i / 128 * 64 + row % 2 * 32 + i % 32], *h = &b.qh[i / 128 * 32 + i % 32];
        *l = (uint8_t)(*l | (level & 0x0f) << (row / 2 * 4));
        *h = (uint8_t)(*h | level >> 4 << (row * 2));
    }
    memcpy(p, &b, sizeof b);
}

static void encode(void *out, const float *in, size_t n)
{
    unsigned char *p = out;
    struct k_symmetric f;
    for (size_t k = 0; k < n / QK_K; k++, p += sizeof(struct block_q6_k), in += QK_K) {
        k_symmetric_fit(&f, in, 32, 128);
        pack(p, &f);
    }
}

void q6_k_fit(void *out, const float *in, const float *weight, size_t n)
{
    unsigned char *p = out;
    struct k_symmetric f;
    for (size_t k = 0; k < n / QK_K; k++, p += sizeof(struct block_q6_k), in += QK_K, weight += QK_K) {
        weighted_k_symmetric(&f, in, weight, 32, 128);
        pack(p, &f);
    }
}

const struct quant quant_q6_k = {QUANT_Q6_K, "q6_k", QK_K, sizeof(struct block_q6_k), decode, encode};
