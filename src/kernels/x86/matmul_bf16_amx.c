/* matmul_bf16_amx.c: products of activations rounded to bf16 with BF16 weights, by tdpbf16ps. For each 32 k, ascending, padded
 * with zeros: even = the fused sum over even k, odd = that over odd k, ascending;  acc = acc + (even + odd) to nearest even,
 * denormals being zero, whatever the CPU's modes (Intel, Software Developer's Manual, volume 2, TDPBF16PS). The same for one
 * row and many, and other bits than vdpbf16ps gives. Sums wait in the output between parts of k. */
#include <string.h>

#include "kernels/pack/pack.h"

#if defined(__x86_64__)
#include "kernels/x86/bf16_rows_avx512.h"
#include "kernels/x86/simd_amx.h"
#include "kernels/x86/x86.h"

enum {
    TILE_IN = 32,              /* k in a tile */
    PART_IN = 512,             /* k of 32 rows: 32 KB, and of two panels in pairs: 32 KB */
    BLOCK_ROWS = 2 * AMX_ROWS, /* times two panels: four sums hide the latency of tdpbf16ps */
};

/* What a block adds: n k (whole tiles) of its rows and of one panel or two. */
struct span {
    const uint16_t *x; /* [row][PART_IN] */
    const uint16_t *w; /* [panel][PART_IN / 2][16][2] */
    int n, n_row;
    bool goes_on; /* the sums hold those so far */
    float *sum[2];
    size_t ld_sum[2]; /* in bytes */
};

/* Tiles 0 to 3: sums of rows 0 to 15 with each panel, then of rows 16 to 31; 4 and 5: activations; 6 and 7: weights. */
static void set_shapes(int n_row)
{
    _Alignas(64) struct amx_shapes shapes = {0};
    const int rows[2] = {n_row < AMX_ROWS ? n_row : AMX_ROWS, n_row < AMX_ROWS ? 0 : n_row - AMX_ROWS};
    for (int t = 0; t < 2; t++) {
        amx_set_shape(&shapes, 2 * t, rows[t], AMX_ROW_BYTES);
        amx_set_shape(&shapes, 2 * t + 1, rows[t], AMX_ROW_BYTES);
        amx_set_shape(&shapes, 4 + t, rows[t], AMX_ROW_BYTES);
        amx_set_shape(&shapes, 6 + t, TILE_IN / 2, AMX_ROW_BYTES);
    }
    _tile_loadconfig(&shapes);
}

static inline float *rows_below(const struct span *s, int panel)
{
    return (float *)((char *)s->sum[panel] + AMX_ROWS * s->ld_sum[panel]);
}

SIMD512_INLINE void begin_sums(const struct span *s, bool two_panels, bool two_tiles)
{
    if (s->goes_on)
        _tile_loadd(0, s->sum[0], s->ld_sum[0]);
    else
        _tile_zero(0);
    if (two_panels && s->goes_on)
        _tile_loadd(1, s->sum[1], s->ld_sum[1]);
    else if (two_panels)
        _tile_zero(1);
    if (two_tiles && s->goes_on)
        _tile_loadd(2, rows_below(s, 0), s->ld_sum[0]);
    else if (two_tiles)
        _tile_zero(2);
    if (two_tiles && two_panels && s->goes_on)
        _tile_loadd(3, rows_below(s, 1), s->ld_sum[1]);
    else if (two_tiles && two_panels)
        _tile_zero(3);
}

SIMD512_INLINE void add_block(const struct span *s, bool two_panels, bool two_tiles)
{
    begin_sums(s, two_panels, two_tiles);
    for (int k = 0; k < s->n; k += TILE_IN) {
        const uint16_t *w = s->w + (size_t)k * PANEL_NR, *x = s->x + k;
        _tile_loadd(4, x, PART_IN * sizeof *x);
        _tile_loadd(6, w, AMX_ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        if (two_panels) {
            _tile_loadd(7, w + (size_t)PART_IN * PANEL_NR, AMX_ROW_BYTES);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (two_tiles) {
            _tile_loadd(5, x + (size_t)AMX_ROWS * PART_IN, PART_IN * sizeof *x);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (two_tiles && two_panels)
            _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, s->sum[0], s->ld_sum[0]);
    if (two_panels)
        _tile_stored(1, s->sum[1], s->ld_sum[1]);
    if (two_tiles)
        _tile_stored(2, rows_below(s, 0), s->ld_sum[0]);
    if (two_tiles && two_panels)
        _tile_stored(3, rows_below(s, 1), s->ld_sum[1]);
}

static void add_panels(const struct span *s, int n_panel)
{
    if (n_panel == 2 && s->n_row > AMX_ROWS)
        add_block(s, true, true);
    else if (n_panel == 2)
        add_block(s, true, false);
    else if (s->n_row > AMX_ROWS)
        add_block(s, false, true);
    else
        add_block(s, false, false);
}

/* k from 0 to n of a panel in pairs; zeros up to a whole tile. */
static void expand(uint16_t *pairs, const uint16_t *w, int n)
{
    int k = 0;
    for (; k < n; k += 2)
        _mm512_storeu_si512(pairs + (size_t)k * PANEL_NR, bf16_pairs(w + (size_t)k * PANEL_NR, n - k > 1));
    for (; k % TILE_IN != 0; k += 2)
        _mm512_storeu_si512(pairs + (size_t)k * PANEL_NR, _mm512_setzero_si512());
}

/* A panel that ends before its 16 outputs keeps its sums beside the output. */
struct last_panel {
    float sum[BLOCK_ROWS][PANEL_NR];
};

static void copy_rows(float *to, size_t ld_to, const float *from, size_t ld_from, int n_row, int n)
{
    for (int r = 0; r < n_row; r++)
        memcpy(to + (size_t)r * ld_to, from + (size_t)r * ld_from, sizeof *to * (size_t)n);
}

static void panel_pair(struct span *s, float *out, size_t ld_out, int n_out)
{
    struct last_panel last;
    const int n_panel = n_out > PANEL_NR ? 2 : 1, n_last = n_out - (n_panel - 1) * PANEL_NR;
    float *end = out + (n_panel - 1) * PANEL_NR;
    for (int p = 0; p < n_panel; p++) {
        s->sum[p] = out + p * PANEL_NR;
        s->ld_sum[p] = sizeof *out * ld_out;
    }
    if (n_last < PANEL_NR) {
        memset(&last, 0, sizeof last);
        if (s->goes_on)
            copy_rows(last.sum[0], PANEL_NR, end, ld_out, s->n_row, n_last);
        s->sum[n_panel - 1] = last.sum[0];
        s->ld_sum[n_panel - 1] = sizeof last.sum[0];
    }
    add_panels(s, n_panel);
    if (n_last < PANEL_NR)
        copy_rows(end, ld_out, last.sum[0], PANEL_NR, s->n_row, n_last);
}

static void block_rows(float *out, size_t ld_out, const uint16_t *w, const char *x, size_t ld_x, int n_row, int n_out, int n_in)
{
    _Alignas(64) uint16_t rounded[BLOCK_ROWS * PART_IN], pairs[2][PART_IN * PANEL_NR];
    struct span s = {.x = rounded, .w = pairs[0], .n_row = n_row};
    set_shapes(n_row);
    for (int first = 0; first < n_in; first += PART_IN) {
        const int n = n_in - first < PART_IN ? n_in - first : PART_IN;
        s.n = (n + TILE_IN - 1) / TILE_IN * TILE_IN;
        s.goes_on = first > 0;
        if (s.n != n)
            memset(rounded, 0, sizeof rounded);
        bf16_round_rows(rounded, PART_IN, x + sizeof(float) * (size_t)first, ld_x, n_row, n);
        for (int o = 0; o < n_out; o += 2 * PANEL_NR) {
            for (int p = 0; p < 2 && o + p * PANEL_NR < n_out; p++)
                expand(pairs[p], w + ((size_t)(o / PANEL_NR + p) * (size_t)n_in + (size_t)first) * PANEL_NR, n);
            panel_pair(&s, out + o, ld_out, n_out - o < 2 * PANEL_NR ? n_out - o : 2 * PANEL_NR);
        }
    }
    _tile_release();
}

static void run_bf16(float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out, int n_in)
{
    for (int r = 0; r < n_row; r += BLOCK_ROWS)
        block_rows(out + (size_t)r * ld_out, ld_out, packed, (const char *)x + (size_t)r * ld_x, ld_x,
                   n_row - r < BLOCK_ROWS ? n_row - r : BLOCK_ROWS, n_out, n_in);
}

void matmul_bf16_init_amx(struct kernels *k)
{
    matmul_set(k, QUANT_BF16, ACTIVATION_BF16, "bf16_bf16_amx", &layout_bf16, run_bf16);
}
#endif
