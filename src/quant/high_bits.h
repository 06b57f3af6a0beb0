/* high_bits.h: the fifth bits of q5_0 and q5_1. */
#ifndef QUANT_HIGH_BITS_H
#define QUANT_HIGH_BITS_H

#include <stdint.h>

static inline uint32_t high_bits_load(const uint8_t qh[4])
{
    return (uint32_t)qh[0] | (uint32_t)qh[1] << 8 | (uint32_t)qh[2] << 16 | (uint32_t)qh[3] << 24;
}

static inline void high_bits_store(uint8_t qh[4], uint32_t bits)
{
    for (int i = 0; i < 4; i++)
        qh[i] = (uint8_t)(bits >> 8 * i);
}

#endif
