/* q4_k.c: 256 weights of 4 bits in eight sub-blocks with 6-bit scales and minima. */
#include <string.h>

#include "base/fp16.h"
#include "quant/k_fit.h"
#include "quant/k_scales.h"
#include "quant/types.h"
#include "quant/weighted_fit.h"

static void decode(float *out, const void *in, size_t n)
{
    const unsigned char *p = in;
    struct block_q4_k b;
    uint8_t scales[8], mins[8];
    for (size_t k = 0; k < n / QK_K; k++, p += sizeof b, out += QK_K) {
        memcpy(&b, p, sizeof b);
        k_scales_unpack(scales, mins, b.scales);
        const float d = f32_from_f16(b.d), dmin = f32_from_f16(b.dmin);
        for (int j = 0; j < 8; j++) {
            const float scale = d * (float)scales[j], min = dmin * (float)mins[j];
            const uint8_t *q = b.qs + j / 2 * 32;
            const int shift = j % 2 * 4;
            for (int i = 0; i < 32; i++)
                out[32 * j + i] = scale * (float)(q[i] >> shift & 0x0f) - min;
        }
    }
}

static void pack(unsigned char *p, const struct k_affine *fit)
{
    struct block_q4_k b;
    b.d = fit->d;
    b.dmin = fit->dmin;
    k_scales_pack(b.scales, fit->scale, fit->min);
    for (int i = 0; i < QK_K / 2; i++) {
        const uint8_t *q = fit->q + i / 32 * 64 + i % 32;
        b.qs[i] = (uint8_t)(q[0] | q[32] << 4);
    }
    memcpy(p, &b, sizeof b);
}

static void encode(void *out, const float *in, size_t n)
{
    unsigned char *p = out;
    struct k_affine f;
    for (size_t k = 0; k < n / QK_K; k++, p += sizeof(struct block_q4_k), in += QK_K) {
        k_affine_fit(&f, in, 8, 15, 63);
        pack(p, &f);
    }
}

void q4_k_fit(void *out, const float *in, const float *weight, size_t n)
{
    unsigned char *p = out;
    struct k_affine f;
    for (size_t k = 0; k < n / QK_K; k++, p += sizeof(struct block_q4_k), in += QK_K, weight += QK_K) {
        weighted_k_affine(&f, in, weight, 8, 15, 63);
        pack(p, &f);
    }
}

const struct quant quant_q4_k = {QUANT_Q4_K, "q4_k", QK_K, sizeof(struct block_q4_k), decode, encode};
