/* matmul_q8_512.h: products of int8 activations in registers of 512 bits, the source of both variants. Few rows read the packed
 * weights once, as they stand, with vpdpbusd. More rows share an expansion of a few blocks of two panels to bytes, which stays
 * in the first-level cache, and run over it in tiles, which the file that includes this one adds up: it
 * defines add_tile behind it, and MATMUL_Q8_TILE_ROWS before where a tile has another height. Integer sums are exact and the
 * float operations those of add_block: both variants give the same bits. */
#ifndef KERNELS_X86_MATMUL_Q8_512_H
#define KERNELS_X86_MATMUL_Q8_512_H

#include "kernels/matmul_q8_types.h"
#include "kernels/x86/panel_avx512.h"
#include "kernels/x86/panel_walk.h"

#ifndef MATMUL_Q8_TILE_ROWS
#define MATMUL_Q8_TILE_ROWS 6 /* times two panels: 12 sums */
#endif

enum {
    BLOCK_BYTES = PANEL_STEPS * PANEL_STEP,
    CHUNK_BLOCKS = 16, /* two panels: 16 KB */
    FEW_ROWS = 4,
    TILE_ROWS = MATMUL_Q8_TILE_ROWS,
    BLOCK_ROWS = 96, /* rows that share an expansion */
    PREFETCH_BYTES = 4096
};

SIMD512_INLINE void prefetch_body(enum quant_type type, const uint8_t *body)
{
    for (size_t i = 0; i < panel_body_bytes(panel_formats[type]); i += 64)
        _mm_prefetch((const char *)body + PREFETCH_BYTES + i, _MM_HINT_T0);
}

/* One block of one panel times n_row rows, straight from the packed planes. */
SIMD512_INLINE void few_rows_block(enum quant_type type, __m512 *acc, const struct cursor *at, const struct tile_rows *rows,
                                   int n_row, int b)
{
    const struct panel_format f = panel_formats[type];
    const enum kind kind = kind_of(type);
    const struct block_scales scales = load_scales(type, at->head, at->body);
    const uint8_t *planes = at->body + panel_scale_bytes(f);
    struct block_row row[FEW_ROWS];
    __m512i isum[FEW_ROWS][2];
#pragma GCC unroll 4
    for (int r = 0; r < n_row; r++) {
        row[r] = load_row(row_at(rows, r), rows->n_in, b);
        for (int half = 0; half <= has_halves(kind); half++)
            isum[r][half] = start_sum(kind, f.offset, &row[r], half);
    }
#pragma GCC unroll 8
    for (int s = 0; s < PANEL_STEPS; s++) {
        const __m512i w = load_step(type, planes, s);
        const int half = has_halves(kind) ? s / (PANEL_STEPS / 2) : 0;
#pragma GCC unroll 4
        for (int r = 0; r < n_row; r++)
            isum[r][half] = _mm512_dpbusd_epi32(isum[r][half], w, simd512_broadcast_32(row[r].q + 4 * s));
    }
#pragma GCC unroll 4
    for (int r = 0; r < n_row; r++)
        acc[r] = add_block(kind, acc[r], &scales, isum[r], &row[r]);
}

SIMD512_INLINE void few_rows(enum quant_type type, float *out, size_t ld_out, const uint8_t *packed, struct tile_rows rows,
                             int n_row, int n_out)
{
    struct cursor at = cursor_at(type, packed);
    for (int o = 0; o < n_out; o += PANEL_NR) {
        __m512 acc[FEW_ROWS];
        for (int r = 0; r < n_row; r++)
            acc[r] = _mm512_setzero_ps();
        for (int b = 0; b < rows.n_in / Q8_BLOCK; b++) {
            prefetch_body(type, at.body);
            few_rows_block(type, acc, &at, &rows, n_row, b);
            cursor_next(type, &at);
        }
        for (int r = 0; r < n_row; r++)
            simd512_store_first(out + (size_t)r * ld_out + o, acc[r], n_out - o);
    }
}

/* Some blocks of a panel, expanded. */
struct chunk {
    _Alignas(64) uint8_t u[CHUNK_BLOCKS][BLOCK_BYTES]; /* [block][step][16 outputs][4 k] */
    struct block_scales scales[CHUNK_BLOCKS];
};

SIMD512_INLINE void expand(enum quant_type type, struct chunk *chunk, struct cursor *at, int n_block)
{
    for (int b = 0; b < n_block; b++) {
        const uint8_t *planes = at->body + panel_scale_bytes(panel_formats[type]);
        chunk->scales[b] = load_scales(type, at->head, at->body);
#pragma GCC unroll 8
        for (int s = 0; s < PANEL_STEPS; s++)
            _mm512_storeu_si512(chunk->u[b] + s * PANEL_STEP, load_step(type, planes, s));
        cursor_next(type, at);
    }
}

/* Blocks first .. first + n_block of one panel or two. */
struct span {
    const struct chunk *chunk; /* [n_panel] */
    struct tile_rows rows;
    int first, n_block;
    int offset;
};

/* Add the blocks of the span to acc[row][panel], for n_row rows or a tile of them if they are more. */
static void add_tile(enum kind kind, float (*acc)[2][PANEL_NR], const struct span *s, int n_panel, int n_row);

/* All blocks of one panel or two for n_row <= BLOCK_ROWS rows. */
SIMD512_INLINE void panel_rows(enum quant_type type, float (*acc)[2][PANEL_NR], const uint8_t *panel, int n_panel,
                               struct tile_rows rows, int n_row)
{
    struct chunk chunk[2];
    struct cursor at[2] = {cursor_at(type, panel), cursor_at(type, panel + panel_bytes(type, rows.n_in))};
    struct span s = {chunk, rows, 0, 0, panel_formats[type].offset};
    const int n_block = rows.n_in / Q8_BLOCK;
    for (s.first = 0; s.first < n_block; s.first += CHUNK_BLOCKS) {
        s.n_block = n_block - s.first < CHUNK_BLOCKS ? n_block - s.first : CHUNK_BLOCKS;
        for (int p = 0; p < n_panel; p++)
            expand(type, &chunk[p], &at[p], s.n_block);
        for (int r = 0; r < n_row; r += TILE_ROWS) {
            s.rows.x = rows.x + (size_t)r * rows.ld_x;
            add_tile(kind_of(type), acc + r, &s, n_panel, n_row - r);
        }
    }
}

SIMD512_INLINE void many_rows(enum quant_type type, float *out, size_t ld_out, const uint8_t *packed, struct tile_rows rows,
                              int n_row, int n_out)
{
    const size_t bytes = panel_bytes(type, rows.n_in);
    for (int o = 0; o < n_out; o += 2 * PANEL_NR, packed += 2 * bytes) {
        _Alignas(64) float acc[BLOCK_ROWS][2][PANEL_NR];
        const int n_panel = n_out - o > PANEL_NR ? 2 : 1;
        memset(acc, 0, sizeof acc[0] * (size_t)n_row);
        panel_rows(type, acc, packed, n_panel, rows, n_row);
        for (int r = 0; r < n_row; r++)
            for (int p = 0; p < n_panel; p++)
                simd512_store_first(out + (size_t)r * ld_out + o + p * PANEL_NR, _mm512_loadu_ps(acc[r][p]),
                                    n_out - o - p * PANEL_NR);
    }
}

SIMD512_INLINE void run(enum quant_type type, float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x,
                        int n_row, int n_out, int n_in)
{
    struct tile_rows rows = {x, ld_x, n_in};
    switch (n_row) {
    case 1:
        few_rows(type, out, ld_out, packed, rows, 1, n_out);
        return;
    case 2:
        few_rows(type, out, ld_out, packed, rows, 2, n_out);
        return;
    case 3:
        few_rows(type, out, ld_out, packed, rows, 3, n_out);
        return;
    case 4:
        few_rows(type, out, ld_out, packed, rows, 4, n_out);
        return;
    default:
        break;
    }
    for (int first = 0; first < n_row; first += BLOCK_ROWS) {
        rows.x = (const char *)x + (size_t)first * ld_x;
        many_rows(type, out + (size_t)first * ld_out, ld_out, packed, rows,
                  n_row - first < BLOCK_ROWS ? n_row - first : BLOCK_ROWS, n_out);
    }
}

#endif
