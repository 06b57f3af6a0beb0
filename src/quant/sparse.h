/* sparse.h: block types that store half of the weights and where they stand: of every 4 weights 2, or of every 8 weights 4.
 * The layouts are ours, with ids beyond those of ggml. A block of 32 weights begins, or behind its scale goes on, with a map
 * of 32 bits, little endian: bit i says that weight i is stored. The stored ones follow in ascending order; the others are 0.
 * A map that stores more or fewer of a group than the pattern is damage, which quant_keeps_pattern finds; decoders then take
 * the first ones, or zeros, and read nothing beyond the block. */
#ifndef QUANT_SPARSE_H
#define QUANT_SPARSE_H

#include "quant/blocks.h"
#include "quant/quant.h"

enum {
    SPARSE_KEPT = QK / 2, /* weights that a block stores */
    SPARSE_GROUP = 8,     /* weights that a byte of the map describes, of which it stores SPARSE_GROUP_KEPT */
    SPARSE_GROUP_KEPT = SPARSE_GROUP / 2,
    SPARSE_MAP = QK / SPARSE_GROUP
};

struct block_q8_0_sparse { /* x = d * q */
    uint16_t d;
    uint8_t map[SPARSE_MAP];
    int8_t qs[SPARSE_KEPT];
};
struct block_q4_0_sparse { /* x = d * (q - 8); the low nibble of qs[i] is stored weight i, the high one i + 8 */
    uint16_t d;
    uint8_t map[SPARSE_MAP];
    uint8_t qs[SPARSE_KEPT / 2];
};
struct block_bf16_sparse {
    uint8_t map[SPARSE_MAP];
    uint16_t w[SPARSE_KEPT];
};
_Static_assert(sizeof(struct block_q8_0_sparse) == 22, "layout of q8_0_2of4");
_Static_assert(sizeof(struct block_q4_0_sparse) == 14, "layout of q4_0_2of4");
_Static_assert(sizeof(struct block_bf16_sparse) == 36, "layout of bf16_2of4");

/* Of every `of` weights `kept` are stored, as `dense` stores them. */
struct quant_pattern {
    int kept, of;
    enum quant_type dense;
};

/* NULL: the type stores all weights. */
const struct quant_pattern *quant_pattern(const struct quant *q);

/* The i-th type with a pattern, NULL past the end; quant_at has the others. */
const struct quant *quant_sparse_at(int i);

/* The type that stores `kept` of `of` weights as `dense` does; NULL: there is none. */
const struct quant *quant_sparse_find(const struct quant *dense, int kept, int of);

/* The maps of n weights (a multiple of 32) store what the pattern says; true for types without one. */
bool quant_keeps_pattern(const struct quant *q, const void *blocks, size_t n);

/* Of x[n] the `kept` largest of every `of` by score, which is 0 or more; of equals the first. map: a bit for each, n / 8 bytes;
 * n and of are multiples of 4, of at most 8 and n whole bytes. */
void sparse_choose(uint8_t *map, const float *score, size_t n, int kept, int of);

/* Where the stored weights of a map's byte stand, ascending; missing ones are 0. Returns how many there are, at most 4. */
int sparse_places(uint8_t place[SPARSE_GROUP_KEPT], uint8_t map);

#endif
