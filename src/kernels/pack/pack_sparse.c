/* pack_sparse.c: types that store half of the weights (quant/sparse.h). For int8 activations to panels of planes (panel.h).
 * For float activations to panels that hold, for every 8 k, where the four slots of each output stand and then their weights
 * as bf16 [slot][16], ascending in k; where: at 2 of 4 u8[16], slot j at bits 2 j, in its four k; at 4 of 8 u16[16], slot j at
 * bits 3 j. */
#include <string.h>

#include "base/fp16.h"
#include "kernels/pack/pack.h"
#include "kernels/pack/sparse_bf16.h"
#include "quant/sparse.h"

static void read_q8_0(struct panel_row *row, const uint8_t *block)
{
    struct block_q8_0_sparse b;
    memcpy(&b, block, sizeof b);
    row->d = b.d;
    memcpy(row->map, b.map, sizeof b.map);
    for (int i = 0; i < SPARSE_KEPT; i++)
        row->u[i] = (uint8_t)b.qs[i] ^ 0x80;
}

static void read_q4_0(struct panel_row *row, const uint8_t *block)
{
    struct block_q4_0_sparse b;
    memcpy(&b, block, sizeof b);
    row->d = b.d;
    memcpy(row->map, b.map, sizeof b.map);
    for (int i = 0; i < SPARSE_KEPT / 2; i++) {
        row->u[i] = b.qs[i] & 15;
        row->u[SPARSE_KEPT / 2 + i] = b.qs[i] >> 4;
    }
}

#define LAYOUT(name, type, read)                                                                                               \
    static size_t bytes_##name(int n_in) { return panel_bytes(type, n_in); }                                                   \
    static void pack_##name(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)                              \
    {                                                                                                                          \
        panel_pack(type, read, panel, rows, row_bytes, n_out, n_in);                                                           \
    }                                                                                                                          \
    static void unpack_##name(float *out, const void *panel, int o, int n_in) { panel_unpack(type, out, panel, o, n_in); }     \
    const struct matmul_layout layout_##name = {bytes_##name, pack_##name, unpack_##name};

LAYOUT(q8_0_2of4, QUANT_Q8_0_2OF4, read_q8_0)
LAYOUT(q8_0_4of8, QUANT_Q8_0_4OF8, read_q8_0)
LAYOUT(q4_0_2of4, QUANT_Q4_0_2OF4, read_q4_0)
LAYOUT(q4_0_4of8, QUANT_Q4_0_4OF8, read_q4_0)

/* One group of 8 k of output o. */
static void store_group(bool wide, uint8_t *group, int o, uint8_t map, const uint16_t *w)
{
    uint8_t place[SPARSE_GROUP_KEPT];
    uint16_t where = 0;
    sparse_places(place, map);
    for (int j = 0; j < SPARSE_GROUP_KEPT; j++) {
        where = (uint16_t)(where | (wide ? place[j] << 3 * j : (place[j] & 3) << 2 * j));
        memcpy(group + sparse_bf16_where_bytes(wide) + sizeof *w * (size_t)(j * PANEL_NR + o), &w[j], sizeof *w);
    }
    if (wide)
        memcpy(group + 2 * o, &where, sizeof where);
    else
        group[o] = (uint8_t)where;
}

static void pack_bf16(bool wide, void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    if (n_out < PANEL_NR)
        memset(panel, 0, sparse_bf16_panel_bytes(wide, n_in));
    for (int o = 0; o < n_out; o++) {
        const uint8_t *block = (const uint8_t *)rows + o * row_bytes;
        uint8_t *group = panel;
        struct block_bf16_sparse b;
        for (int k = 0; k < n_in; k += QK, block += sizeof b) {
            memcpy(&b, block, sizeof b);
            for (int g = 0; g < SPARSE_MAP; g++, group += sparse_bf16_group_bytes(wide))
                store_group(wide, group, o, b.map[g], b.w + g * SPARSE_GROUP_KEPT);
        }
    }
}

static void unpack_bf16(bool wide, float *out, const void *panel, int o, int n_in)
{
    const uint8_t *group = panel;
    for (int k = 0; k < n_in; k += SPARSE_GROUP, group += sparse_bf16_group_bytes(wide)) {
        for (int i = 0; i < SPARSE_GROUP; i++)
            out[k + i] = 0;
        for (int j = 0; j < SPARSE_GROUP_KEPT; j++)
            out[k + sparse_bf16_place(wide, group, o, j)] = sparse_bf16_weight(wide, group, o, j);
    }
}

static size_t bytes_bf16_2of4(int n_in) { return sparse_bf16_panel_bytes(false, n_in); }
static size_t bytes_bf16_4of8(int n_in) { return sparse_bf16_panel_bytes(true, n_in); }
static void pack_bf16_2of4(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    pack_bf16(false, panel, rows, row_bytes, n_out, n_in);
}
static void pack_bf16_4of8(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    pack_bf16(true, panel, rows, row_bytes, n_out, n_in);
}
static void unpack_bf16_2of4(float *out, const void *panel, int o, int n_in) { unpack_bf16(false, out, panel, o, n_in); }
static void unpack_bf16_4of8(float *out, const void *panel, int o, int n_in) { unpack_bf16(true, out, panel, o, n_in); }

const struct matmul_layout layout_bf16_2of4 = {bytes_bf16_2of4, pack_bf16_2of4, unpack_bf16_2of4};
const struct matmul_layout layout_bf16_4of8 = {bytes_bf16_4of8, pack_bf16_4of8, unpack_bf16_4of8};
