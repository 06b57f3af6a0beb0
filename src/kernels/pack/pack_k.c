/* pack_k.c: superblocks of 256 (Q2_K, Q3_K, Q4_K, Q5_K, Q6_K) to panels. File layouts: docs/formats.md. */
#include "kernels/pack/pack.h"

static uint16_t load_u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

/* Minima are subtracted in the file and added in a panel. */
static uint16_t negated(uint16_t f16) { return f16 ^ 0x8000; }

/* Two bits a weight: weight 128 h + 32 j + i at bits 2 j of byte 32 h + i. */
static void read_two_bits(uint8_t *u, const uint8_t *q)
{
    for (int h = 0; h < 2; h++)
        for (int j = 0; j < 4; j++)
            for (int i = 0; i < 32; i++)
                u[128 * h + 32 * j + i] = q[32 * h + i] >> (2 * j) & 3;
}

/* Four bits a weight: blocks 2 c and 2 c + 1 in the low and high halves of 32 bytes. */
static void read_nibbles(uint8_t *u, const uint8_t *q)
{
    for (int c = 0; c < 4; c++)
        for (int i = 0; i < 32; i++) {
            u[64 * c + i] = q[32 * c + i] & 15;
            u[64 * c + 32 + i] = q[32 * c + i] >> 4;
        }
}

/* One bit a weight: block b at bit b of 32 bytes; added to u at bit `low`. */
static void read_one_bit(uint8_t *u, const uint8_t *bits, int low)
{
    for (int b = 0; b < 8; b++)
        for (int i = 0; i < 32; i++)
            u[32 * b + i] |= (uint8_t)((bits[i] >> b & 1) << low);
}

/* Eight 6-bit scales and minima in 12 bytes. */
static void read_scales_and_minima(uint8_t scale[8][2], const uint8_t *p)
{
    for (int b = 0; b < 4; b++) {
        scale[b][0] = p[b] & 63;
        scale[b][1] = p[4 + b] & 63;
        scale[4 + b][0] = (uint8_t)((p[8 + b] & 15) | (p[b] >> 6) << 4);
        scale[4 + b][1] = (uint8_t)(p[8 + b] >> 4 | (p[4 + b] >> 6) << 4);
    }
}

static void read_q2_k(struct panel_row *row, const uint8_t *block)
{
    for (int i = 0; i < 16; i++)
        row->scale[i / 2][i % 2] = block[i];
    read_two_bits(row->u, block + 16);
    row->d = load_u16(block + 80);
    row->m = negated(load_u16(block + 82));
}

static void read_q3_k(struct panel_row *row, const uint8_t *block)
{
    read_two_bits(row->u, block + 32);
    read_one_bit(row->u, block, 2);
    const uint8_t *p = block + 96; /* sixteen 6-bit scales: 4 low bits in 8 bytes, 2 high bits in 4 bytes */
    for (int i = 0; i < 16; i++) {
        const int low = p[i % 8] >> (i < 8 ? 0 : 4) & 15;
        const int high = p[8 + i % 4] >> (2 * (i / 4)) & 3;
        row->scale[i / 2][i % 2] = (uint8_t)((low | high << 4) - 32);
    }
    row->d = load_u16(block + 108);
}

static void read_q4_k(struct panel_row *row, const uint8_t *block)
{
    row->d = load_u16(block);
    row->m = negated(load_u16(block + 2));
    read_scales_and_minima(row->scale, block + 4);
    read_nibbles(row->u, block + 16);
}

static void read_q5_k(struct panel_row *row, const uint8_t *block)
{
    row->d = load_u16(block);
    row->m = negated(load_u16(block + 2));
    read_scales_and_minima(row->scale, block + 4);
    read_nibbles(row->u, block + 48);
    read_one_bit(row->u, block + 16, 4);
}

static void read_q6_k(struct panel_row *row, const uint8_t *block)
{
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 32; i++) {
            const uint8_t *low = block + 64 * h;
            const int high = block[128 + 32 * h + i];
            uint8_t *u = row->u + 128 * h + i;
            u[0] = (uint8_t)((low[i] & 15) | (high & 3) << 4);
            u[32] = (uint8_t)((low[32 + i] & 15) | (high >> 2 & 3) << 4);
            u[64] = (uint8_t)(low[i] >> 4 | (high >> 4 & 3) << 4);
            u[96] = (uint8_t)(low[32 + i] >> 4 | (high >> 6) << 4);
        }
    for (int i = 0; i < 16; i++)
        row->scale[i / 2][i % 2] = block[192 + i];
    row->d = load_u16(block + 208);
}

static size_t bytes_q2_k(int n_in) { return panel_bytes(QUANT_Q2_K, n_in); }
static void pack_q2_k(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    panel_pack(QUANT_Q2_K, read_q2_k, panel, rows, row_bytes, n_out, n_in);
}
static void unpack_q2_k(float *out, const void *panel, int o, int n_in) { panel_unpack(QUANT_Q2_K, out, panel, o, n_in); }
const struct matmul_layout layout_q2_k = {bytes_q2_k, pack_q2_k, unpack_q2_k};

static size_t bytes_q3_k(int n_in) { return panel_bytes(QUANT_Q3_K, n_in); }
static void pack_q3_k(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    panel_pack(QUANT_Q3_K, read_q3_k, panel, rows, row_bytes, n_out, n_in);
}
static void unpack_q3_k(float *out, const void *panel, int o, int n_in) { panel_unpack(QUANT_Q3_K, out, panel, o, n_in); }
const struct matmul_layout layout_q3_k = {bytes_q3_k, pack_q3_k, unpack_q3_k};

static size_t bytes_q4_k(int n_in) { return panel_bytes(QUANT_Q4_K, n_in); }
static void pack_q4_k(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    panel_pack(QUANT_Q4_K, read_q4_k, panel, rows, row_bytes, n_out, n_in);
}
static void unpack_q4_k(float *out, const void *panel, int o, int n_in) { panel_unpack(QUANT_Q4_K, out, panel, o, n_in); }
const struct matmul_layout layout_q4_k = {bytes_q4_k, pack_q4_k, unpack_q4_k};

static size_t bytes_q5_k(int n_in) { return panel_bytes(QUANT_Q5_K, n_in); }
static void pack_q5_k(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    panel_pack(QUANT_Q5_K, read_q5_k, panel, rows, row_bytes, n_out, n_in);
}
static void unpack_q5_k(float *out, const void *panel, int o, int n_in) { panel_unpack(QUANT_Q5_K, out, panel, o, n_in); }
const struct matmul_layout layout_q5_k = {bytes_q5_k, pack_q5_k, unpack_q5_k};

static size_t bytes_q6_k(int n_in) { return panel_bytes(QUANT_Q6_K, n_in); }
static void pack_q6_k(void *panel, const void *rows, size_t row_bytes, int n_out, int n_in)
{
    panel_pack(QUANT_Q6_K, read_q6_k, panel, rows, row_bytes, n_out, n_in);
}
static void unpack_q6_k(float *out, const void *panel, int o, int n_in) { panel_unpack(QUANT_Q6_K, out, panel, o, n_in); }
const struct matmul_layout layout_q6_k = {bytes_q6_k, pack_q6_k, unpack_q6_k};
