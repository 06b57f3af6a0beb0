/* sparse_bf16.h: a group of 8 k of a panel with half of the weights as bf16 (pack_sparse.c says how it stands). wide: 4 of 8,
 * else 2 of 4. */
#ifndef KERNELS_PACK_SPARSE_BF16_H
#define KERNELS_PACK_SPARSE_BF16_H

#include <string.h>

#include "base/fp16.h"
#include "kernels/panel.h"
#include "quant/sparse.h"

static inline size_t sparse_bf16_where_bytes(bool wide) { return wide ? 2 * PANEL_NR : PANEL_NR; }
static inline size_t sparse_bf16_group_bytes(bool wide)
{
    return sparse_bf16_where_bytes(wide) + sizeof(uint16_t) * SPARSE_GROUP_KEPT * PANEL_NR;
}
static inline size_t sparse_bf16_panel_bytes(bool wide, int n_in)
{
    return (size_t)(n_in / SPARSE_GROUP) * sparse_bf16_group_bytes(wide);
}

/* Where slot j of output o stands among the group's eight k. */
static inline int sparse_bf16_place(bool wide, const uint8_t *group, int o, int j)
{
    return wide ? (group[2 * o] | group[2 * o + 1] << 8) >> 3 * j & 7 : 4 * (j / 2) + (group[o] >> 2 * j & 3);
}

static inline float sparse_bf16_weight(bool wide, const uint8_t *group, int o, int j)
{
    uint16_t w;
    memcpy(&w, group + sparse_bf16_where_bytes(wide) + sizeof w * (size_t)(j * PANEL_NR + o), sizeof w);
    return f32_from_bf16(w);
}

#endif
