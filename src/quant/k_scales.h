/* k_scales.h: the packed 6-bit scales of the K types. */
#ifndef QUANT_K_SCALES_H
#define QUANT_K_SCALES_H

#include <stdint.h>

#include "quant/blocks.h"

/* q4_k and q5_k: scale[8] and min[8], each 0..63. Bytes 0-3 hold scales 0-3, bytes 4-7 minima 0-3, in their low six
 * bits; bytes 8-11 the low nibbles of scales (low) and minima (high) 4-7, whose upper two bits are the upper two of
 * bytes 0-3 and 4-7. */
static inline void k_scales_unpack(uint8_t scale[8], uint8_t min[8], const uint8_t packed[K_SCALES_BYTES])
{
    for (int i = 0; i < 4; i++) {
        scale[i] = packed[i] & 0x3f;
        min[i] = packed[4 + i] & 0x3f;
        scale[4 + i] = (uint8_t)((packed[8 + i] & 0x0f) | (packed[i] >> 6) << 4);
        min[4 + i] = (uint8_t)(packed[8 + i] >> 4 | (packed[4 + i] >> 6) << 4);
    }
}

static inline void k_scales_pack(uint8_t packed[K_SCALES_BYTES], const uint8_t scale[8], const uint8_t min[8])
{
    for (int i = 0; i < 4; i++) {
        packed[i] = (uint8_t)(scale[i] | (scale[4 + i] >> 4) << 6);
        packed[4 + i] = (uint8_t)(min[i] | (min[4 + i] >> 4) << 6);
        packed[8 + i] = (uint8_t)((scale[4 + i] & 0x0f) | (min[4 + i] & 0x0f) << 4);
    }
}

/* q3_k: scale[16], each -32..31. Byte i < 8 holds the low nibbles of scales i (low) and i + 8 (high); bits 2 j of byte
 * 8 + i hold the upper two bits of scale 4 j + i. */
static inline void q3_k_scales_unpack(int8_t scale[16], const uint8_t packed[K_SCALES_BYTES])
{
    for (int i = 0; i < 16; i++) {
        const int low = packed[i % 8] >> (i / 8 * 4) & 0x0f;
        const int high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
        scale[i] = (int8_t)((low | high << 4) - 32);
    }
}

static inline void q3_k_scales_pack(uint8_t packed[K_SCALES_BYTES], const int8_t scale[16])
{
    for (int i = 0; i < K_SCALES_BYTES; i++)
        packed[i] = 0;
    for (int i = 0; i < 16; i++) {
        const int code = scale[i] + 32;
        packed[i % 8] = (uint8_t)(packed[i % 8] | (code & 0x0f) << (i / 8 * 4));
        packed[8 + i % 4] = (uint8_t)(packed[8 + i % 4] | (code >> 4) << (i / 4 * 2));
    }
}

#endif
