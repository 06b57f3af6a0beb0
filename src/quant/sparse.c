/* sparse.c: block types that store half of the weights. */
#include "quant/sparse.h"

#include <math.h>
#include <string.h>

#include "base/fp16.h"
#include "quant/round.h"
#include "quant/types.h"
#include "quant/weighted_fit.h"

int sparse_places(uint8_t place[SPARSE_GROUP_KEPT], uint8_t map)
{
    int n = 0;
    memset(place, 0, SPARSE_GROUP_KEPT);
    for (uint8_t i = 0; i < SPARSE_GROUP && n < SPARSE_GROUP_KEPT; i++)
        if (map >> i & 1)
            place[n++] = i;
    return n;
}

/* Where the 16 stored weights of a block stand; those that a damaged map lacks: at -1. */
static void block_places(int place[SPARSE_KEPT], const uint8_t map[SPARSE_MAP])
{
    for (int g = 0; g < SPARSE_MAP; g++) {
        uint8_t at[SPARSE_GROUP_KEPT];
        const int n = sparse_places(at, map[g]);
        for (int i = 0; i < SPARSE_GROUP_KEPT; i++)
            place[g * SPARSE_GROUP_KEPT + i] = i < n ? g * SPARSE_GROUP + at[i] : -1;
    }
}

/* zero: what is not stored, with the sign of the scale, as if its level were 0. */
static void scatter(float *out, const uint8_t map[SPARSE_MAP], const float kept[SPARSE_KEPT], float zero)
{
    int place[SPARSE_KEPT];
    block_places(place, map);
    for (int i = 0; i < QK; i++)
        out[i] = zero;
    for (int i = 0; i < SPARSE_KEPT; i++)
        if (place[i] >= 0)
            out[place[i]] = kept[i];
}

void sparse_choose(uint8_t *map, const float *score, size_t n, int kept, int of)
{
    memset(map, 0, n / SPARSE_GROUP);
    for (size_t first = 0; first < n; first += (size_t)of) {
        unsigned taken = 0;
        for (int k = 0; k < kept; k++) {
            int best = -1;
            for (int i = 0; i < of; i++)
                if (!(taken >> i & 1) && (best < 0 || score[first + (size_t)i] > score[first + (size_t)best]))
                    best = i;
            taken |= 1u << best;
        }
        map[first / SPARSE_GROUP] |= (uint8_t)(taken << first % SPARSE_GROUP);
    }
}

/* The stored ones of x[32] and, unless NULL, of their weights: those of largest magnitude. */
static void gather(uint8_t map[SPARSE_MAP], float kept[SPARSE_KEPT], float kept_weight[SPARSE_KEPT], const float *x,
                   const float *weight, int of)
{
    float score[QK];
    int place[SPARSE_KEPT];
    for (int i = 0; i < QK; i++)
        score[i] = x[i] == x[i] ? fabsf(x[i]) : INFINITY; /* a NaN is stored, so that it is found */
    sparse_choose(map, score, QK, of / 2, of);
    block_places(place, map);
    for (int i = 0; i < SPARSE_KEPT; i++) {
        kept[i] = x[place[i]];
        if (weight != NULL)
            kept_weight[i] = weight[place[i]];
    }
}

static void decode_q8_0(float *out, const void *in, size_t n)
{
    const unsigned char *p = in;
    struct block_q8_0_sparse b;
    for (size_t k = 0; k < n / QK; k++, p += sizeof b, out += QK) {
        float kept[SPARSE_KEPT];
        memcpy(&b, p, sizeof b);
        for (int i = 0; i < SPARSE_KEPT; i++)
            kept[i] = (float)b.qs[i] * f32_from_f16(b.d);
        scatter(out, b.map, kept, 0.0f * f32_from_f16(b.d));
    }
}

static void encode_q8_0(void *out, const float *in, size_t n, int of)
{
    unsigned char *p = out;
    struct block_q8_0_sparse b;
    for (size_t k = 0; k < n / QK; k++, p += sizeof b, in += QK) {
        float kept[SPARSE_KEPT];
        gather(b.map, kept, NULL, in, NULL, of);
        const float d = fabsf(largest_magnitude(kept, SPARSE_KEPT)) / 127.0f, inv = inverse(d);
        for (int i = 0; i < SPARSE_KEPT; i++)
            b.qs[i] = (int8_t)level_nearest(kept[i] * inv, -127, 127);
        b.d = f16_from_f32(d);
        memcpy(p, &b, sizeof b);
    }
}

static void decode_q4_0(float *out, const void *in, size_t n)
{
    const unsigned char *p = in;
    struct block_q4_0_sparse b;
    for (size_t k = 0; k < n / QK; k++, p += sizeof b, out += QK) {
        float kept[SPARSE_KEPT];
        memcpy(&b, p, sizeof b);
        const float d = f32_from_f16(b.d);
        for (int i = 0; i < SPARSE_KEPT / 2; i++) {
            kept[i] = d * (float)((b.qs[i] & 0x0f) - 8);
            kept[SPARSE_KEPT / 2 + i] = d * (float)((b.qs[i] >> 4) - 8);
        }
        scatter(out, b.map, kept, d * 0.0f);
    }
}

/* weight NULL: the largest is level -8, as in q4_0; else the scale of least error. */
static void encode_q4_0(void *out, const float *in, const float *weight, size_t n, int of)
{
    unsigned char *p = out;
    struct block_q4_0_sparse b;
    for (size_t k = 0; k < n / QK; k++, p += sizeof b, in += QK) {
        float kept[SPARSE_KEPT], kept_weight[SPARSE_KEPT] = {0};
        gather(b.map, kept, kept_weight, in, weight != NULL ? weight + k * QK : NULL, of);
        const float d = weight != NULL ? weighted_scale_16(kept, kept_weight, SPARSE_KEPT, 8)
                                       : largest_magnitude(kept, SPARSE_KEPT) / -8.0f;
        const float inv = inverse(d);
        for (int i = 0; i < SPARSE_KEPT / 2; i++) {
            const int low = level_cut(kept[i] * inv + 8.5f, 15), high = level_cut(kept[SPARSE_KEPT / 2 + i] * inv + 8.5f, 15);
            b.qs[i] = (uint8_t)(low | high << 4);
        }
        b.d = f16_from_f32(d);
        memcpy(p, &b, sizeof b);
    }
}

static void decode_bf16(float *out, const void *in, size_t n)
{
    const unsigned char *p = in;
    struct block_bf16_sparse b;
    for (size_t k = 0; k < n / QK; k++, p += sizeof b, out += QK) {
        float kept[SPARSE_KEPT];
        memcpy(&b, p, sizeof b);
        for (int i = 0; i < SPARSE_KEPT; i++)
            kept[i] = f32_from_bf16(b.w[i]);
        scatter(out, b.map, kept, 0);
    }
}

static void encode_bf16(void *out, const float *in, size_t n, int of)
{
    unsigned char *p = out;
    struct block_bf16_sparse b;
    for (size_t k = 0; k < n / QK; k++, p += sizeof b, in += QK) {
        float kept[SPARSE_KEPT];
        gather(b.map, kept, NULL, in, NULL, of);
        for (int i = 0; i < SPARSE_KEPT; i++)
            b.w[i] = bf16_from_f32(kept[i]);
        memcpy(p, &b, sizeof b);
    }
}

static void encode_q8_0_2of4(void *out, const float *in, size_t n) { encode_q8_0(out, in, n, 4); }
static void encode_q8_0_4of8(void *out, const float *in, size_t n) { encode_q8_0(out, in, n, 8); }
static void encode_q4_0_2of4(void *out, const float *in, size_t n) { encode_q4_0(out, in, NULL, n, 4); }
static void encode_q4_0_4of8(void *out, const float *in, size_t n) { encode_q4_0(out, in, NULL, n, 8); }
static void encode_bf16_2of4(void *out, const float *in, size_t n) { encode_bf16(out, in, n, 4); }
static void encode_bf16_4of8(void *out, const float *in, size_t n) { encode_bf16(out, in, n, 8); }

void q4_0_2of4_fit(void *out, const float *in, const float *weight, size_t n) { encode_q4_0(out, in, weight, n, 4); }
void q4_0_4of8_fit(void *out, const float *in, const float *weight, size_t n) { encode_q4_0(out, in, weight, n, 8); }

#define SPARSE(id, name, layout)                                                                                               \
    {                                                                                                                          \
        id, #name, QK, sizeof(struct block_##layout##_sparse), decode_##layout, encode_##name                                  \
    }

static const struct quant types[] = {
    SPARSE(QUANT_Q8_0_2OF4, q8_0_2of4, q8_0), SPARSE(QUANT_Q8_0_4OF8, q8_0_4of8, q8_0),
    SPARSE(QUANT_Q4_0_2OF4, q4_0_2of4, q4_0), SPARSE(QUANT_Q4_0_4OF8, q4_0_4of8, q4_0),
    SPARSE(QUANT_BF16_2OF4, bf16_2of4, bf16), SPARSE(QUANT_BF16_4OF8, bf16_4of8, bf16),
};

enum {
    N_TYPES = sizeof types / sizeof *types
};

static const struct quant_pattern patterns[N_TYPES] = {
    {2, 4, QUANT_Q8_0}, {4, 8, QUANT_Q8_0}, {2, 4, QUANT_Q4_0}, {4, 8, QUANT_Q4_0}, {2, 4, QUANT_BF16}, {4, 8, QUANT_BF16},
};

const struct quant *quant_sparse_at(int i) { return i >= 0 && i < N_TYPES ? &types[i] : NULL; }

const struct quant_pattern *quant_pattern(const struct quant *q)
{
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].type == q->type)
            return &patterns[i];
    return NULL;
}

const struct quant *quant_sparse_find(const struct quant *dense, int kept, int of)
{
    for (int i = 0; i < N_TYPES; i++)
        if (patterns[i].dense == dense->type && patterns[i].kept == kept && patterns[i].of == of)
            return &types[i];
    return NULL;
}

/* Bits of each nibble of v, in its place. */
static unsigned nibble_counts(unsigned v)
{
    v = v - (v >> 1 & 0x55);
    return (v & 0x33) + (v >> 2 & 0x33);
}

bool quant_keeps_pattern(const struct quant *q, const void *blocks, size_t n)
{
    const struct quant_pattern *pattern = quant_pattern(q);
    if (pattern == NULL)
        return true;
    const uint8_t *map = (const uint8_t *)blocks + (pattern->dense == QUANT_BF16 ? 0 : sizeof(uint16_t));
    bool bad = false;
    for (size_t k = 0; k < n / QK; k++, map += q->bytes)
        for (int g = 0; g < SPARSE_MAP; g++) {
            const unsigned counts = nibble_counts(map[g]);
            bad |= pattern->of == 4 ? counts != 0x22 : (counts & 15) + (counts >> 4) != SPARSE_GROUP_KEPT;
        }
    return !bad;
}
