/* matmul_q8_avx512vnni.c: products of int8 activations with vpdpbusd: a broadcast activation serves both panels of a tile. */
#include "kernels/matmul_q8_types.h"

#if defined(__x86_64__)
#include "kernels/x86/matmul_q8_512.h"
#include "kernels/x86/x86.h"

/* Add one block of n_row rows to acc[row][panel]. */
SIMD512_INLINE void tile_block(enum kind kind, float (*acc)[2][PANEL_NR], const struct span *s, int n_panel, int n_row, int b)
{
    struct block_row row[TILE_ROWS];
    __m512i isum[2][TILE_ROWS][2]; /* [panel][row][half] */
#pragma GCC unroll 6
    for (int r = 0; r < n_row; r++) {
        row[r] = load_row(row_at(&s->rows, r), s->rows.n_in, s->first + b);
        for (int p = 0; p < n_panel; p++)
            for (int half = 0; half <= has_halves(kind); half++)
                isum[p][r][half] = start_sum(kind, s->offset, &row[r], half);
    }
#pragma GCC unroll 8
    for (int step = 0; step < PANEL_STEPS; step++) {
        const int half = has_halves(kind) ? step / (PANEL_STEPS / 2) : 0;
        __m512i w[2];
        for (int p = 0; p < n_panel; p++)
            w[p] = simd512_load(s->chunk[p].u[b] + step * PANEL_STEP);
#pragma GCC unroll 6
        for (int r = 0; r < n_row; r++) {
            const __m512i x = simd512_broadcast_32(row[r].q + 4 * step);
            for (int p = 0; p < n_panel; p++)
                isum[p][r][half] = _mm512_dpbusd_epi32(isum[p][r][half], w[p], x);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < n_row; r++)
        for (int p = 0; p < n_panel; p++)
            _mm512_storeu_ps(acc[r][p],
                             add_block(kind, _mm512_loadu_ps(acc[r][p]), &s->chunk[p].scales[b], isum[p][r], &row[r]));
}

SIMD512_INLINE void tile(enum kind kind, float (*acc)[2][PANEL_NR], const struct span *s, int n_panel, int n_row)
{
    for (int b = 0; b < s->n_block; b++)
        tile_block(kind, acc, s, n_panel, n_row, b);
}

SIMD512_INLINE void tile_of(enum kind kind, float (*acc)[2][PANEL_NR], const struct span *s, int n_panel, int n_row)
{
    switch (n_row) {
    case 1:
        tile(kind, acc, s, n_panel, 1);
        break;
    case 2:
        tile(kind, acc, s, n_panel, 2);
        break;
    case 3:
        tile(kind, acc, s, n_panel, 3);
        break;
    case 4:
        tile(kind, acc, s, n_panel, 4);
        break;
    case 5:
        tile(kind, acc, s, n_panel, 5);
        break;
    default:
        tile(kind, acc, s, n_panel, TILE_ROWS);
    }
}

/* Up to a tile of rows; one function for each kind, shared by its block types. */
typedef void tile_fn(float (*acc)[2][PANEL_NR], const struct span *s, int n_panel, int n_row);

SIMD512_INLINE void tile_of_panels(enum kind kind, float (*acc)[2][PANEL_NR], const struct span *s, int n_panel, int n_row)
{
    if (n_panel == 2)
        tile_of(kind, acc, s, 2, n_row);
    else
        tile_of(kind, acc, s, 1, n_row);
}

static void tile_plain(float (*acc)[2][PANEL_NR], const struct span *s, int n_panel, int n_row)
{
    tile_of_panels(KIND_PLAIN, acc, s, n_panel, n_row);
}

static void tile_float_min(float (*acc)[2][PANEL_NR], const struct span *s, int n_panel, int n_row)
{
    tile_of_panels(KIND_FLOAT_MIN, acc, s, n_panel, n_row);
}

static void tile_scale_min(float (*acc)[2][PANEL_NR], const struct span *s, int n_panel, int n_row)
{
    tile_of_panels(KIND_SCALE_MIN, acc, s, n_panel, n_row);
}

static void tile_halves(float (*acc)[2][PANEL_NR], const struct span *s, int n_panel, int n_row)
{
    tile_of_panels(KIND_HALVES, acc, s, n_panel, n_row);
}

static void tile_halves_min(float (*acc)[2][PANEL_NR], const struct span *s, int n_panel, int n_row)
{
    tile_of_panels(KIND_HALVES_MIN, acc, s, n_panel, n_row);
}

static tile_fn *const tiles[] = {
    [KIND_PLAIN] = tile_plain,   [KIND_FLOAT_MIN] = tile_float_min,   [KIND_SCALE_MIN] = tile_scale_min,
    [KIND_HALVES] = tile_halves, [KIND_HALVES_MIN] = tile_halves_min,
};

static void add_tile(enum kind kind, float (*acc)[2][PANEL_NR], const struct span *s, int n_panel, int n_row)
{
    tiles[kind](acc, s, n_panel, n_row);
}

#define MATMUL_ISA "avx512vnni"
MATMUL_Q8_TYPES(MATMUL_Q8_RUN)

void matmul_q8_init_avx512vnni(struct kernels *k) { MATMUL_Q8_TYPES(MATMUL_Q8_SET) }
#endif
