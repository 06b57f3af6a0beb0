/* q2_k.c: 256 weights of 2 bits in sixteen sub-blocks with 4-bit scales and minima. */
#include <string.h>

#include "base/fp16.h"
#include "quant/k_fit.h"
#include "quant/types.h"
#include "quant/weighted_fit.h"

static void decode(float *out, const void *in, size_t n)
{
    const unsigned char *p = in;
    struct block_q2_k b;
    for (size_t k = 0; k < n / QK_K; k++, p += sizeof b, out += QK_K) {
        memcpy(&b, p, sizeof b);
        const float d = f32_from_f16(b.d), dmin = f32_from_f16(b.dmin);
        for (int j = 0; j < QK_K / 16; j++) {
            const float scale = d * (float)(b.scales[j] & 0x0f);
            const float min = dmin * (float)(b.scales[j] >> 4);
            const uint8_t *q = b.qs + j / 8 * 32 + j % 2 * 16;
            const int shift = j % 8 / 2 * 2;
            for (int i = 0; i < 16; i++)
                out[16 * j + i] = scale * (float)(q[i] >> shift & 3) - min;
        }
    }
}

static void pack(unsigned char *p, const struct k_affine *fit)
{
    struct block_q2_k b;
    memset(&b, 0, sizeof b);
    b.d = fit->d;
    b.dmin = fit->dmin;
    for (int j = 0; j < 16; j++)
        b.scales[j] = (uint8_t)(fit->scale[j] | fit->min[j] << 4);
    for (int i = 0; i < QK_K; i++) {
        uint8_t *q = &b.qs[i / 128 * 32 + i % 32];
        *q = (uint8_t)(*q | fit->q[i] << (i % 128 / 32 * 2));
    }
    memcpy(p, &b, sizeof b);
}

static void encode(void *out, const float *in, size_t n)
{
    unsigned char *p = out;
    struct k_affine f;
    for (size_t k = 0; k < n / QK_K; k++, p += sizeof(struct block_q2_k), in += QK_K) {
        k_affine_fit(&f, in, 16, 3, 15);
        pack(p, &f);
    }
}

void q2_k_fit(void *out, const float *in, const float *weight, size_t n)
{
    unsigned char *p = out;
    struct k_affine f;
    for (size_t k = 0; k < n / QK_K; k++, p += sizeof(struct block_q2_k), in += QK_K, weight += QK_K) {
        weighted_k_affine(&f, in, weight, 16, 3, 15);
        pack(p, &f);
    }
}

const struct quant quant_q2_k = {QUANT_Q2_K, "q2_k", QK_K, sizeof(struct block_q2_k), decode, encode};
