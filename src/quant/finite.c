/* finite.c: looks for NaN and infinity in rows of weights. A block of integers is finite where its f16 scales are. */
#include <string.h>

#include "quant/sparse.h"

enum {
    MAX_SCALES = 2
};

/* Where the f16 scales of a block stand. */
struct scales {
    int n;
    int at[MAX_SCALES];
};

static const struct scales scales_of[QUANT_TYPE_END] = {
    [QUANT_F16] = {1, {0}},       [QUANT_Q4_0] = {1, {0}},      [QUANT_Q4_1] = {2, {0, 2}},   [QUANT_Q5_0] = {1, {0}},
    [QUANT_Q5_1] = {2, {0, 2}},   [QUANT_Q8_0] = {1, {0}},      [QUANT_Q2_K] = {2, {80, 82}}, [QUANT_Q3_K] = {1, {108}},
    [QUANT_Q4_K] = {2, {0, 2}},   [QUANT_Q5_K] = {2, {0, 2}},   [QUANT_Q6_K] = {1, {208}},    [QUANT_IQ4_NL] = {1, {0}},
    [QUANT_Q8_0_2OF4] = {1, {0}}, [QUANT_Q8_0_4OF8] = {1, {0}}, [QUANT_Q4_0_2OF4] = {1, {0}}, [QUANT_Q4_0_4OF8] = {1, {0}},
};

/* All bits of the exponent are set. */
static bool has_16(const uint8_t *p, uint16_t exponent)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return (bits & exponent) == exponent;
}

static bool floats_are_finite(const uint8_t *p, size_t n)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, p + i * sizeof bits, sizeof bits);
        bad |= (bits & 0x7f800000) == 0x7f800000;
    }
    return bad == 0;
}

bool quant_is_finite(const struct quant *q, const void *blocks, size_t n)
{
    const uint8_t *p = blocks;
    if (q->type == QUANT_F32)
        return floats_are_finite(p, n);
    bool bad = false;
    const struct scales s = scales_of[q->type];
    for (size_t i = 0; i < n / (size_t)q->block; i++, p += q->bytes) {
        if (q->type == QUANT_BF16)
            bad |= has_16(p, 0x7f80);
        if (q->type == QUANT_BF16_2OF4 || q->type == QUANT_BF16_4OF8)
            for (int k = 0; k < SPARSE_KEPT; k++)
                bad |= has_16(p + SPARSE_MAP + 2 * k, 0x7f80);
        for (int k = 0; k < s.n; k++)
            bad |= has_16(p + s.at[k], 0x7c00);
    }
    return !bad;
}
