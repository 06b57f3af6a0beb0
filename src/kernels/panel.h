/* panel.h: the packed layout of weights, one for every instruction set (docs/kernels.md draws it).
 * A panel holds 16 outputs. For int8 activations it is a run of units: one block of 32 weights of each output, or 8 blocks
 * that share float scales (the K types). A unit is a head, f16 scales d[16] and, where the type has minima, m[16]; then for
 * each block of 32 its body: integer scales (0 or 2 x 16 bytes) and planes. Weights stand there as unsigned integers u
 * with  weight = d * scale * (u - offset) + m * minimum.  A step is 4 consecutive k of each output, 64 bytes: step s of a
 * block holds u[o][4 s + j] at byte 4 o + j. Planes share bytes between steps:
 *   byte    8 x 64 bytes: step s as it is
 *   nibble  4 x 64 bytes: bits 0-3 of u; steps 2 t and 2 t + 1 in the low and high half of plane t
 *   two     2 x 64 bytes: two bits of u; step 4 t + j at bits 2 j of plane t
 *   one     1 x 64 bytes: one bit of u; step s at bit s
 * The planes stand in this order and hold the bits of u from the lowest up, the lowest in the first plane.
 * Sparse types (quant/sparse.h) store 16 of the 32 weights of a block: those of each group of 8 k in 4 slots. There are 4 steps
 * and half as many planes, behind one that says where the slots stand, 4 bytes an output:
 *   2 of 4   step g holds the slots of group g. Byte j, bits 2 g: where slot j stands in its four k, slots 0 and 1 in the
 *            first four, 2 and 3 in the second
 *   4 of 8   byte g: the map of group g. Stored weights of its low four bits fill slots from 0 up, those of the high four
 *            from 3 down. Step 2 h + s holds slot 2 s of groups 2 h and 2 h + 1, then slot 2 s + 1 of both */
#ifndef KERNELS_PANEL_H
#define KERNELS_PANEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum {
    PANEL_NR = 16,               /* outputs in a panel */
    PANEL_STEP = 4 * PANEL_NR,   /* bytes of 4 k of each output */
    PANEL_STEPS = Q8_BLOCK / 4,  /* steps in a block */
    PANEL_HALVES = 2 * PANEL_NR, /* bytes of 16 f16, or of two integers an output */
    PANEL_SLOTS = 4,             /* of a step of a sparse type */
    PANEL_KEPT_STEPS = 4,        /* in a block of a sparse type */
    PANEL_UNIT_MAX = 8,          /* blocks in a unit */
    PANEL_PAD = 64               /* alignment of panels in memory */
};

enum panel_scale {
    PANEL_SCALE_NONE,   /* 1 */
    PANEL_SCALE_MIN,    /* u8 scale[16], u8 minimum[16] */
    PANEL_SCALE_HALVES, /* i8 scale[16] of the block's first half, i8 scale[16] of the second */
    PANEL_SCALE_NIBBLES /* as before; low half of a byte: scale, high half: minimum, both unsigned */
};

enum panel_pattern {
    PANEL_ALL,
    PANEL_2_OF_4,
    PANEL_4_OF_8
};

struct panel_format {
    uint8_t n_block; /* blocks in a unit; 0: no such format */
    bool has_min;    /* the head holds m; the K types store it negated */
    enum panel_scale scale;
    bool byte, nibble, two, one; /* which planes */
    enum panel_pattern pattern;
    uint8_t offset;
    uint8_t file_bytes; /* of a unit of one row */
};

static const struct panel_format panel_formats[QUANT_TYPE_END] = {
    [QUANT_Q4_0] = {.file_bytes = 18, .n_block = 1, .nibble = true, .offset = 8},
    [QUANT_Q4_1] = {.file_bytes = 20, .n_block = 1, .has_min = true, .nibble = true},
    [QUANT_Q5_0] = {.file_bytes = 22, .n_block = 1, .nibble = true, .one = true, .offset = 16},
    [QUANT_Q5_1] = {.file_bytes = 24, .n_block = 1, .has_min = true, .nibble = true, .one = true},
    [QUANT_Q8_0] = {.file_bytes = 34, .n_block = 1, .byte = true, .offset = 128},
    [QUANT_Q2_K] = {.file_bytes = 84, .n_block = 8, .has_min = true, .scale = PANEL_SCALE_NIBBLES, .two = true},
    [QUANT_Q3_K] = {.file_bytes = 110, .n_block = 8, .scale = PANEL_SCALE_HALVES, .two = true, .one = true, .offset = 4},
    [QUANT_Q4_K] = {.file_bytes = 144, .n_block = 8, .has_min = true, .scale = PANEL_SCALE_MIN, .nibble = true},
    [QUANT_Q5_K] = {.file_bytes = 176, .n_block = 8, .has_min = true, .scale = PANEL_SCALE_MIN, .nibble = true, .one = true},
    [QUANT_Q6_K] = {.file_bytes = 210, .n_block = 8, .scale = PANEL_SCALE_HALVES, .nibble = true, .two = true, .offset = 32},
    [QUANT_IQ4_NL] = {.file_bytes = 18,
                      .n_block = 1,
                      .nibble = true,
                      .offset = 128}, /* the nibble is an index into panel_iq4_nl */
    [QUANT_Q8_0_2OF4] = {.file_bytes = 22, .n_block = 1, .byte = true, .pattern = PANEL_2_OF_4, .offset = 128},
    [QUANT_Q8_0_4OF8] = {.file_bytes = 22, .n_block = 1, .byte = true, .pattern = PANEL_4_OF_8, .offset = 128},
    [QUANT_Q4_0_2OF4] = {.file_bytes = 14, .n_block = 1, .nibble = true, .pattern = PANEL_2_OF_4, .offset = 8},
    [QUANT_Q4_0_4OF8] = {.file_bytes = 14, .n_block = 1, .nibble = true, .pattern = PANEL_4_OF_8, .offset = 8},
};

/* u of IQ4_NL's 16 values. */
static const uint8_t panel_iq4_nl[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

static inline size_t panel_head_bytes(struct panel_format f) { return (size_t)PANEL_HALVES * (f.has_min ? 2 : 1); }
static inline size_t panel_scale_bytes(struct panel_format f) { return f.scale == PANEL_SCALE_NONE ? 0 : PANEL_HALVES; }
static inline size_t panel_body_bytes(struct panel_format f)
{
    const int n_all = 8 * f.byte + 4 * f.nibble + 2 * f.two + f.one, n_plane = f.pattern == PANEL_ALL ? n_all : 1 + n_all / 2;
    return panel_scale_bytes(f) + (size_t)n_plane * PANEL_STEP;
}
static inline size_t panel_unit_bytes(struct panel_format f) { return panel_head_bytes(f) + f.n_block * panel_body_bytes(f); }
static inline int panel_unit_weights(struct panel_format f) { return f.n_block * Q8_BLOCK; }

/* A unit of one row of the file, taken apart. */
struct panel_row {
    uint8_t u[PANEL_UNIT_MAX * Q8_BLOCK]; /* of sparse types the stored ones */
    uint8_t map[PANEL_KEPT_STEPS];        /* sparse types: which those are */
    uint8_t scale[PANEL_UNIT_MAX][2];     /* for each block the bytes of its scale part */
    uint16_t d, m;                        /* f16 */
};
typedef void panel_reader(struct panel_row *row, const uint8_t *block);

size_t panel_bytes(enum quant_type type, int n_in);
void panel_pack(enum quant_type type, panel_reader *read, void *panel, const void *rows, size_t row_bytes, int n_out, int n_in);
void panel_unpack(enum quant_type type, float *out, const void *panel, int o, int n_in);

/* One block of 32 weights of one output as integers: weight k = (d * scale[k / 16]) * q[k] + m * minimum[k / 16], where
 * the second term is absent without minima. */
struct panel_column {
    int16_t q[Q8_BLOCK];
    int16_t scale[2], minimum[2];
    float d, m;
};

/* Output o of block b of the panel. */
void panel_column(struct panel_column *c, enum quant_type type, const void *panel, int b, int o);

#endif
