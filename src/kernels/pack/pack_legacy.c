/* pack_legacy.c: blocks of 32 with one float scale (Q4_0, Q5_0, Q8_0, IQ4_NL) or a scale and a minimum (Q4_1, Q5_1) to
 * panels. File layouts: docs/formats.md. */
#include <string.h>

#include "kernels/pack/pack.h"

static uint16_t load_u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

/* 16 bytes: the first half of the block in the low nibbles, the second in the high. */
static void read_nibbles(uint8_t *u, const uint8_t *q)
{
    for (int i = 0; i < Q8_BLOCK / 2; i++) {
        u[i] = q[i] & 15;
        u[Q8_BLOCK / 2 + i] = q[i] >> 4;
    }
}

/* 32 bits: bit 4 of each weight. Eight at a time: byte i of the product keeps bit i, and the sum carries it to bit 7. */
static void read_fifth_bits(uint8_t *u, const uint8_t *bits)
{
    for (int i = 0; i < Q8_BLOCK / 8; i++, u += 8) {
        const uint64_t spread = bits[i] * 0x0101010101010101u & 0x8040201008040201u;
        const uint64_t fifth = (spread + 0x7f7f7f7f7f7f7f7fu) >> 3 & 0x1010101010101010u;
        uint64_t low;
        memcpy(&low, u, sizeof low);
        low |= fifth;
        memcpy(u, &low, sizeof low);
    }
}

static void read_q4_0(struct panel_row *row, const uint8_t *block)
{
    row->d = load_u16(block);
    read_nibbles(row->u, block + 2);
}

static void read_q4_1(struct panel_row *row, const uint8_t *block)
{
    row->d = load_u16(block);
    row->m = load_u16(block + 2);
    read_nibbles(row->u, block + 4);
}

static void read_q5_0(struct panel_row *row, const uint8_t *block)
{
    row->d = load_u16(block);
    read_nibbles(row->u, block + 6);
    read_fifth_bits(row->u, block + 2);
}

static void read_q5_1(struct panel_row *row, const uint8_t *block)
{
    row->d = load_u16(block);
    row->m = load_u16(block + 2);
    read_nibbles(row->u, block + 8);
    read_fifth_bits(row->u, block + 4);
}

static void read_q8_0(struct panel_row *row, const uint8_t *block)
{
    row->d = load_u16(block);
    for (int i = 0; i < Q8_BLOCK; i++)
        row->u[i] = block[2 + i] ^ 0x80;
}

static size_t bytes_q4_0(int n_in) { return panel_bytes(QUANT_Q4_0, n_in); }
static void pack_q4_0(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    panel_pack(QUANT_Q4_0, read_q4_0, panel, rows, row_bytes, n_out, n_in);
}
static void unpack_q4_0(float *out, const void *panel, int o, int n_in) { panel_unpack(QUANT_Q4_0, out, panel, o, n_in); }
const struct matmul_layout layout_q4_0 = {bytes_q4_0, pack_q4_0, unpack_q4_0};

static size_t bytes_q4_1(int n_in) { return panel_bytes(QUANT_Q4_1, n_in); }
static void pack_q4_1(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    panel_pack(QUANT_Q4_1, read_q4_1, panel, rows, row_bytes, n_out, n_in);
}
static void unpack_q4_1(float *out, const void *panel, int o, int n_in) { panel_unpack(QUANT_Q4_1, out, panel, o, n_in); }
const struct matmul_layout layout_q4_1 = {bytes_q4_1, pack_q4_1, unpack_q4_1};

static size_t bytes_q5_0(int n_in) { return panel_bytes(QUANT_Q5_0, n_in); }
static void pack_q5_0(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    panel_pack(QUANT_Q5_0, read_q5_0, panel, rows, row_bytes, n_out, n_in);
}
static void unpack_q5_0(float *out, const void *panel, int o, int n_in) { panel_unpack(QUANT_Q5_0, out, panel, o, n_in); }
const struct matmul_layout layout_q5_0 = {bytes_q5_0, pack_q5_0, unpack_q5_0};

static size_t bytes_q5_1(int n_in) { return panel_bytes(QUANT_Q5_1, n_in); }
static void pack_q5_1(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    panel_pack(QUANT_Q5_1, read_q5_1, panel, rows, row_bytes, n_out, n_in);
}
static void unpack_q5_1(float *out, const void *panel, int o, int n_in) { panel_unpack(QUANT_Q5_1, out, panel, o, n_in); }
const struct matmul_layout layout_q5_1 = {bytes_q5_1, pack_q5_1, unpack_q5_1};

static size_t bytes_q8_0(int n_in) { return panel_bytes(QUANT_Q8_0, n_in); }
static void pack_q8_0(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    panel_pack(QUANT_Q8_0, read_q8_0, panel, rows, row_bytes, n_out, n_in);
}
static void unpack_q8_0(float *out, const void *panel, int o, int n_in) { panel_unpack(QUANT_Q8_0, out, panel, o, n_in); }
const struct matmul_layout layout_q8_0 = {bytes_q8_0, pack_q8_0, unpack_q8_0};

static size_t bytes_iq4_nl(int n_in) { return panel_bytes(QUANT_IQ4_NL, n_in); }
static void pack_iq4_nl(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    panel_pack(QUANT_IQ4_NL, read_q4_0, panel, rows, row_bytes, n_out, n_in);
}
static void unpack_iq4_nl(float *out, const void *panel, int o, int n_in) { panel_unpack(QUANT_IQ4_NL, out, panel, o, n_in); }
const struct matmul_layout layout_iq4_nl = {bytes_iq4_nl, pack_iq4_nl, unpack_iq4_nl};
