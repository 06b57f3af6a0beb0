/* blocks.h: the block types as they lie in a file (GGUF specification; little endian), for decoders and kernels.
 * Structures are read through memcpy, because a block's address need not be aligned. */
#ifndef QUANT_BLOCKS_H
#define QUANT_BLOCKS_H

#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "block types are read in place: the machine must be little endian"
#endif

enum {
    QK = 32,            /* weights in a block of the plain types */
    QK_K = 256,         /* weights in a super-block of the K types */
    K_SCALES_BYTES = 12 /* eight 6-bit scales and eight 6-bit minima, see k_scales.h */
};

/* Nibble types: the low nibble of qs[i] is weight i, the high one weight i + 16. d and m are binary16.
 * Five-bit types: bit i of qh, little endian, is bit 4 of weight i. */
struct block_q4_0 { /* x = d * (q - 8) */
    uint16_t d;
    uint8_t qs[QK / 2];
};
struct block_q4_1 { /* x = d * q + m */
    uint16_t d, m;
    uint8_t qs[QK / 2];
};
struct block_q5_0 { /* x = d * (q - 16) */
    uint16_t d;
    uint8_t qh[4];
    uint8_t qs[QK / 2];
};
struct block_q5_1 { /* x = d * q + m */
    uint16_t d, m;
    uint8_t qh[4];
    uint8_t qs[QK / 2];
};
struct block_q8_0 { /* x = d * q */
    uint16_t d;
    int8_t qs[QK];
};
struct block_iq4_nl { /* x = d * iq4_nl_values[q] */
    uint16_t d;
    uint8_t qs[QK / 2];
};

/* Sixteen sub-blocks of 16. x = (d * scale) * q - (dmin * min); scales[i]: scale in the low, min in the high nibble of
 * sub-block i. Two bits a weight: weight 128 h + 32 s + i is at bits 2 s of qs[32 h + i]. */
struct block_q2_k {
    uint8_t scales[QK_K / 16];
    uint8_t qs[QK_K / 4];
    uint16_t d, dmin;
};
/* Sixteen sub-blocks of 16. x = (d * (scale - 32)) * (q - 4 * !h). Low two bits as in q2_k; bit 4 hi + s of hmask[i] is
 * the third bit h of weight 128 hi + 32 s + i. The sixteen 6-bit scales: see q3_k_scales in k_scales.h. */
struct block_q3_k {
    uint8_t hmask[QK_K / 8];
    uint8_t qs[QK_K / 4];
    uint8_t scales[K_SCALES_BYTES];
    uint16_t d;
};
/* Eight sub-blocks of 32. x = (d * scale) * q - (dmin * min). Weight 64 h + i is the low, weight 64 h + 32 + i the high
 * nibble of qs[32 h + i], i < 32. */
struct block_q4_k {
    uint16_t d, dmin;
    uint8_t scales[K_SCALES_BYTES];
    uint8_t qs[QK_K / 2];
};
/* As q4_k; bit s of qh[i] is bit 4 of weight i of sub-block s. */
struct block_q5_k {
    uint16_t d, dmin;
    uint8_t scales[K_SCALES_BYTES];
    uint8_t qh[QK_K / 8];
    uint8_t qs[QK_K / 2];
};
/* Sixteen sub-blocks of 16. x = (d * scale) * (q - 32). In half h (128 weights), i < 32: weights i, 32 + i are the low
 * nibbles of ql[64 h + i], ql[64 h + 32 + i], weights 64 + i, 96 + i the high ones; bits 2 s of qh[32 h + i] are bits 4
 * and 5 of weight 32 s + i. */
struct block_q6_k {
    uint8_t ql[QK_K / 2];
    uint8_t qh[QK_K / 4];
    int8_t scales[QK_K / 16];
    uint16_t d;
};

_Static_assert(sizeof(struct block_q4_0) == 18, "layout of q4_0");
_Static_assert(sizeof(struct block_q4_1) == 20, "layout of q4_1");
_Static_assert(sizeof(struct block_q5_0) == 22, "layout of q5_0");
_Static_assert(sizeof(struct block_q5_1) == 24, "layout of q5_1");
_Static_assert(sizeof(struct block_q8_0) == 34, "layout of q8_0");
_Static_assert(sizeof(struct block_iq4_nl) == 18, "layout of iq4_nl");
_Static_assert(sizeof(struct block_q2_k) == 84, "layout of q2_k");
_Static_assert(sizeof(struct block_q3_k) == 110, "layout of q3_k");
_Static_assert(sizeof(struct block_q4_k) == 144, "layout of q4_k");
_Static_assert(sizeof(struct block_q5_k) == 176, "layout of q5_k");
_Static_assert(sizeof(struct block_q6_k) == 210, "layout of q6_k");

/* The sixteen values that a nibble of iq4_nl selects. */
extern const int8_t iq4_nl_values[16];

#endif
