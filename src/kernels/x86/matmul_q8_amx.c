/* matmul_q8_amx.c: products of int8 activations with AMX. One block of 32 weights of a panel, expanded to bytes, is a tile of 8
 * steps; a tile of up to 16 rows of activations meets it in one tdpbsud, or in two of four steps each where the halves of a
 * block have scales of their own. Few rows go by vpdpbusd: they wait for memory. */
#include "kernels/matmul_q8_types.h"

#if defined(__x86_64__)
#define MATMUL_Q8_TILE_ROWS 16
#include "kernels/x86/matmul_q8_512.h"
#include "kernels/x86/simd_amx.h"
#include "kernels/x86/x86.h"

enum {
    HALF_BLOCK = Q8_BLOCK / 2,
    HALF_BYTES = BLOCK_BYTES / 2
};

/* The sums of a block without offset: [panel][half][row][output]. */
typedef int32_t block_sums[2][2][AMX_ROWS][PANEL_NR];

/* Tiles 0 to 3: sums; 4 and 5: activations; 6 and 7: weights. */
static void set_shapes(int n_row, bool halves)
{
    _Alignas(64) struct amx_shapes shapes = {0};
    const int bytes = halves ? HALF_BLOCK : Q8_BLOCK;
    for (int t = 0; t < 4; t++)
        amx_set_shape(&shapes, t, n_row, AMX_ROW_BYTES);
    for (int t = 0; t < 2; t++) {
        amx_set_shape(&shapes, 4 + t, n_row, bytes);
        amx_set_shape(&shapes, 6 + t, bytes / 4, AMX_ROW_BYTES);
    }
    _tile_loadconfig(&shapes);
}

static inline void sum_whole(block_sums sums, const struct span *s, int n_panel, int b)
{
    _tile_loadd(4, q8_q(row_at(&s->rows, 0)) + (s->first + b) * Q8_BLOCK, s->rows.ld_x);
    _tile_zero(0);
    _tile_loadd(6, s->chunk[0].u[b], PANEL_STEP);
    _tile_dpbsud(0, 4, 6);
    if (n_panel == 2) {
        _tile_zero(1);
        _tile_loadd(7, s->chunk[1].u[b], PANEL_STEP);
        _tile_dpbsud(1, 4, 7);
        _tile_stored(1, sums[1][0], AMX_ROW_BYTES);
    }
    _tile_stored(0, sums[0][0], AMX_ROW_BYTES);
}

static inline void sum_halves(block_sums sums, const struct span *s, int n_panel, int b)
{
    const int8_t *q = q8_q(row_at(&s->rows, 0)) + (s->first + b) * Q8_BLOCK;
    _tile_loadd(4, q, s->rows.ld_x);
    _tile_loadd(5, q + HALF_BLOCK, s->rows.ld_x);
    _tile_zero(0);
    _tile_zero(1);
    _tile_loadd(6, s->chunk[0].u[b], PANEL_STEP);
    _tile_loadd(7, s->chunk[0].u[b] + HALF_BYTES, PANEL_STEP);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 5, 7);
    if (n_panel == 2) {
        _tile_zero(2);
        _tile_zero(3);
        _tile_loadd(6, s->chunk[1].u[b], PANEL_STEP);
        _tile_loadd(7, s->chunk[1].u[b] + HALF_BYTES, PANEL_STEP);
        _tile_dpbsud(2, 4, 6);
        _tile_dpbsud(3, 5, 7);
        _tile_stored(2, sums[1][0], AMX_ROW_BYTES);
        _tile_stored(3, sums[1][1], AMX_ROW_BYTES);
    }
    _tile_stored(0, sums[0][0], AMX_ROW_BYTES);
    _tile_stored(1, sums[0][1], AMX_ROW_BYTES);
}

SIMD512_INLINE void add_blocks(enum kind kind, float (*acc)[2][PANEL_NR], const struct span *s, int n_panel, int n_row)
{
    _Alignas(64) block_sums sums;
    for (int b = 0; b < s->n_block; b++) {
        if (has_halves(kind))
            sum_halves(sums, s, n_panel, b);
        else
            sum_whole(sums, s, n_panel, b);
        for (int r = 0; r < n_row; r++) {
            const struct block_row row = load_row(row_at(&s->rows, r), s->rows.n_in, s->first + b);
            for (int p = 0; p < n_panel; p++) {
                __m512i isum[2];
                for (int half = 0; half <= has_halves(kind); half++)
                    isum[half] = _mm512_add_epi32(simd512_load(sums[p][half][r]), start_sum(kind, s->offset, &row, half));
                _mm512_storeu_ps(acc[r][p], add_block(kind, _mm512_loadu_ps(acc[r][p]), &s->chunk[p].scales[b], isum, &row));
            }
        }
    }
}

static void add_tile(enum kind kind, float (*acc)[2][PANEL_NR], const struct span *s, int n_panel, int n_row)
{
    if (n_row > TILE_ROWS)
        n_row = TILE_ROWS;
    set_shapes(n_row, has_halves(kind));
    switch (kind) {
    case KIND_PLAIN:
        add_blocks(KIND_PLAIN, acc, s, n_panel, n_row);
        break;
    case KIND_FLOAT_MIN:
        add_blocks(KIND_FLOAT_MIN, acc, s, n_panel, n_row);
        break;
    case KIND_SCALE_MIN:
        add_blocks(KIND_SCALE_MIN, acc, s, n_panel, n_row);
        break;
    case KIND_HALVES:
        add_blocks(KIND_HALVES, acc, s, n_panel, n_row);
        break;
    case KIND_HALVES_MIN:
        add_blocks(KIND_HALVES_MIN, acc, s, n_panel, n_row);
        break;
    }
    _tile_release();
}

#define MATMUL_ISA "amx"
MATMUL_Q8_TYPES(MATMUL_Q8_RUN)

void matmul_q8_init_amx(struct kernels *k) { MATMUL_Q8_TYPES(MATMUL_Q8_SET) }
#endif
