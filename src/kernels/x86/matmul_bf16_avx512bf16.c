/* matmul_bf16_avx512bf16.c: products of activations rounded to bf16 with BF16 weights, by vdpbf16ps. For each pair of k,
 * ascending:  acc = fma(w[k + 1], x[k + 1], acc);  acc = fma(w[k], x[k], acc)
 * to nearest even, denormals being zero, whatever the CPU's modes (Intel, Software Developer's Manual, volume 2, VDPBF16PS).
 * A row is rounded once for a part of k, whatever number of panels then reads it; sums wait in the output meanwhile. */
#include "kernels/pack/pack.h"

#if defined(__x86_64__)
#include "kernels/x86/bf16_rows_avx512.h"
#include "kernels/x86/x86.h"

enum {
    FEW_IN = 2048,  /* k at a time of a tile of rows, which reads weights as they stand: 24 KB of activations */
    CHUNK_IN = 256, /* and of more rows: 24 KB, beside 16 KB of weights in pairs */
    TILE_ROWS = 6,  /* times two panels: 12 sums hide the latency of vdpbf16ps */
    BLOCK_ROWS = 48,
    PREFETCH_BYTES = 4096
};
_Static_assert((int)FEW_IN *(int)TILE_ROWS == (int)CHUNK_IN * (int)BLOCK_ROWS, "they share memory");

/* What a tile adds: n k of n_panel panels whose weights are ld_w apart, for rows ld_x apart, both in elements. */
struct span {
    const uint16_t *w, *x;
    size_t ld_w, ld_x;
    int n;
    bool in_pairs; /* w is [k / 2][16][2], padded with a zero weight; else [k][16] */
    float *out;    /* of the first row and panel */
    size_t ld_out;
    int n_out;    /* of both panels */
    bool goes_on; /* out holds the sums so far */
};

/* Weights k and k + 1 of 16 outputs side by side. */
SIMD512_INLINE __m512i load_pair(const struct span *s, const uint16_t *w, int k)
{
    w += (size_t)k * PANEL_NR;
    return s->in_pairs ? simd512_load(w) : bf16_pairs(w, s->n - k > 1);
}

SIMD512_INLINE __mmask16 outs_left(const struct span *s, int panel)
{
    const int left = s->n_out - panel * PANEL_NR;
    return left >= PANEL_NR ? (__mmask16)0xffff : (__mmask16)((1u << left) - 1);
}

SIMD512_INLINE void tile(const struct span *s, int n_panel, int n_row)
{
    __m512 sum[TILE_ROWS][2];
#pragma GCC unroll 6
    for (int r = 0; r < n_row; r++)
        for (int p = 0; p < n_panel; p++)
            sum[r][p] = s->goes_on ? _mm512_maskz_loadu_ps(outs_left(s, p), s->out + (size_t)r * s->ld_out + p * PANEL_NR)
                                   : _mm512_setzero_ps();
    for (int k = 0; k < s->n; k += 2) {
        __m512i w[2];
        for (int p = 0; p < n_panel; p++) {
            if (n_row == 1)
                _mm_prefetch((const char *)(s->w + (size_t)p * s->ld_w + (size_t)k * PANEL_NR) + PREFETCH_BYTES, _MM_HINT_T0);
            w[p] = load_pair(s, s->w + (size_t)p * s->ld_w, k);
        }
#pragma GCC unroll 6
        for (int r = 0; r < n_row; r++) {
            const __m512i x = simd512_broadcast_32(s->x + (size_t)r * s->ld_x + k);
            for (int p = 0; p < n_panel; p++)
                sum[r][p] = _mm512_dpbf16_ps(sum[r][p], simd512_as_bf16(w[p]), simd512_as_bf16(x));
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < n_row; r++)
        for (int p = 0; p < n_panel; p++)
            _mm512_mask_storeu_ps(s->out + (size_t)r * s->ld_out + p * PANEL_NR, outs_left(s, p), sum[r][p]);
}

SIMD512_INLINE void tile_rows(const struct span *s, int n_panel, int n_row)
{
    switch (n_row) {
    case 1:
        tile(s, n_panel, 1);
        break;
    case 2:
        tile(s, n_panel, 2);
        break;
    case 3:
        tile(s, n_panel, 3);
        break;
    case 4:
        tile(s, n_panel, 4);
        break;
    case 5:
        tile(s, n_panel, 5);
        break;
    default:
        tile(s, n_panel, TILE_ROWS);
    }
}

/* Up to a tile of rows times one panel or two. */
static void few_rows(const struct span *s, int n_row)
{
    if (s->n_out > PANEL_NR)
        tile_rows(s, 2, n_row);
    else
        tile_rows(s, 1, n_row);
}

/* The same weights in pairs for all rows. */
static void many_rows(struct span s, int n_row)
{
    _Alignas(64) uint16_t pairs[2][CHUNK_IN * PANEL_NR];
    for (int p = 0; p < 2 && p * PANEL_NR < s.n_out; p++)
        for (int k = 0; k < s.n; k += 2)
            _mm512_storeu_si512(pairs[p] + (size_t)k * PANEL_NR, load_pair(&s, s.w + (size_t)p * s.ld_w, k));
    s.w = pairs[0];
    s.ld_w = CHUNK_IN * PANEL_NR;
    s.in_pairs = true;
    for (int r = 0; r < n_row; r += TILE_ROWS) {
        few_rows(&s, n_row - r);
        s.x += TILE_ROWS * s.ld_x;
        s.out += TILE_ROWS * s.ld_out;
    }
}

static void block_rows(float *out, size_t ld_out, const uint16_t *w, const char *x, size_t ld_x, int n_row, int n_out, int n_in)
{
    _Alignas(64) uint16_t rounded[BLOCK_ROWS * CHUNK_IN];
    const int step = n_row <= TILE_ROWS ? FEW_IN : CHUNK_IN;
    struct span s = {.x = rounded, .ld_w = (size_t)n_in * PANEL_NR, .ld_x = (size_t)step, .ld_out = ld_out};
    for (int first = 0; first < n_in; first += step) {
        s.n = n_in - first < step ? n_in - first : step;
        s.goes_on = first > 0;
        bf16_round_rows(rounded, s.ld_x, x + sizeof(float) * (size_t)first, ld_x, n_row, s.n);
        for (int o = 0; o < n_out; o += 2 * PANEL_NR) {
            s.w = w + (size_t)(o / PANEL_NR) * s.ld_w + (size_t)first * PANEL_NR;
            s.out = out + o;
            s.n_out = n_out - o;
            if (n_row <= TILE_ROWS)
                few_rows(&s, n_row);
            else
                many_rows(s, n_row);
        }
    }
}

static void run_bf16(float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out, int n_in)
{
    for (int r = 0; r < n_row; r += BLOCK_ROWS)
        block_rows(out + (size_t)r * ld_out, ld_out, packed, (const char *)x + (size_t)r * ld_x, ld_x,
                   n_row - r < BLOCK_ROWS ? n_row - r : BLOCK_ROWS, n_out, n_in);
}

void matmul_bf16_init_avx512bf16(struct kernels *k)
{
    matmul_set(k, QUANT_BF16, ACTIVATION_BF16, "bf16_bf16_avx512bf16", &layout_bf16, run_bf16);
}
#endif
