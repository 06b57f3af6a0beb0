/* matmul_f32_avx512.c: products of float activations with F32, F16 and BF16 weights: acc = fma(w, x, acc), k ascending. Few
 * rows read the weights as they stand; more rows share weights widened to floats, a part of k at a time. */
#include "kernels/pack/pack.h"

#if defined(__x86_64__)
#include "kernels/x86/simd_avx512.h"
#include "kernels/x86/x86.h"

enum {
    CHUNK_IN = 256,  /* k whose weights of two panels stay in the first-level cache: 32 KB */
    TILE_ROWS = 6,   /* times two panels: 12 sums hide the latency of a fused multiply-add */
    BLOCK_ROWS = 48, /* rows that share widened weights */
    PREFETCH_BYTES = 4096
};

SIMD512_INLINE size_t weight_bytes(enum quant_type type) { return type == QUANT_F32 ? sizeof(float) : sizeof(uint16_t); }

SIMD512_INLINE __m512 load_weights(enum quant_type type, const char *w)
{
    if (type == QUANT_F32)
        return _mm512_loadu_ps((const float *)w);
    return type == QUANT_F16 ? simd512_load_f16(w) : simd512_load_bf16(w);
}

/* What a tile adds: k from first to last; panel p's weights stand at w + p * ld_w. */
struct span {
    const char *w;
    size_t ld_w;
    const char *x;
    size_t ld_x;
    int first, last;
};

SIMD512_INLINE void tile(enum quant_type type, float (*acc)[2][PANEL_NR], struct span s, int n_panel, int n_row)
{
    __m512 sum[TILE_ROWS][2];
#pragma GCC unroll 6
    for (int r = 0; r < n_row; r++)
        for (int p = 0; p < n_panel; p++)
            sum[r][p] = _mm512_loadu_ps(acc[r][p]);
    for (int k = s.first; k < s.last; k++, s.w += PANEL_NR * weight_bytes(type)) {
        __m512 w[2];
        for (int p = 0; p < n_panel; p++) {
            if (n_row == 1)
                _mm_prefetch(s.w + (size_t)p * s.ld_w + PREFETCH_BYTES, _MM_HINT_T0);
            w[p] = load_weights(type, s.w + (size_t)p * s.ld_w);
        }
#pragma GCC unroll 6
        for (int r = 0; r < n_row; r++) {
            const __m512 v = _mm512_set1_ps(((const float *)(s.x + (size_t)r * s.ld_x))[k]);
            for (int p = 0; p < n_panel; p++)
                sum[r][p] = _mm512_fmadd_ps(w[p], v, sum[r][p]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < n_row; r++)
        for (int p = 0; p < n_panel; p++)
            _mm512_storeu_ps(acc[r][p], sum[r][p]);
}

/* Up to a tile of rows. */
SIMD512_INLINE void tile_rows(enum quant_type type, float (*acc)[2][PANEL_NR], struct span s, int n_panel, int n_row)
{
    switch (n_row) {
    case 1:
        tile(type, acc, s, n_panel, 1);
        break;
    case 2:
        tile(type, acc, s, n_panel, 2);
        break;
    case 3:
        tile(type, acc, s, n_panel, 3);
        break;
    case 4:
        tile(type, acc, s, n_panel, 4);
        break;
    case 5:
        tile(type, acc, s, n_panel, 5);
        break;
    default:
        tile(type, acc, s, n_panel, TILE_ROWS);
    }
}

/* n_row <= BLOCK_ROWS rows of one panel or two. */
SIMD512_INLINE void panel_rows(enum quant_type type, float (*acc)[2][PANEL_NR], struct span all, int n_panel, int n_row)
{
    if (n_row <= TILE_ROWS) {
        tile_rows(type, acc, all, n_panel, n_row);
        return;
    }
    _Alignas(64) float wide[2][CHUNK_IN][PANEL_NR];
    struct span s = {(const char *)wide, sizeof wide[0], all.x, all.ld_x, 0, 0};
    for (s.first = 0; s.first < all.last; s.first = s.last) {
        s.last = all.last - s.first < CHUNK_IN ? all.last : s.first + CHUNK_IN;
        if (type == QUANT_F32) { /* floats are wide as they stand */
            s.w = all.w + (size_t)s.first * PANEL_NR * sizeof(float);
            s.ld_w = all.ld_w;
        }
        for (int p = 0; p < n_panel && type != QUANT_F32; p++)
            for (int k = s.first; k < s.last; k++)
                _mm512_storeu_ps(wide[p][k - s.first],
                                 load_weights(type, all.w + (size_t)p * all.ld_w + (size_t)k * PANEL_NR * weight_bytes(type)));
        for (int r = 0; r < n_row; r += TILE_ROWS) {
            s.x = all.x + (size_t)r * all.ld_x;
            tile_rows(QUANT_F32, acc + r, s, n_panel, n_row - r);
        }
    }
}

SIMD512_INLINE void run(enum quant_type type, float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x,
                        int n_row, int n_out, int n_in)
{
    const size_t bytes = (size_t)n_in * PANEL_NR * weight_bytes(type);
    for (int first = 0; first < n_row; first += BLOCK_ROWS) {
        const int n = n_row - first < BLOCK_ROWS ? n_row - first : BLOCK_ROWS;
        struct span s = {packed, bytes, (const char *)x + (size_t)first * ld_x, ld_x, 0, n_in};
        for (int o = 0; o < n_out; o += 2 * PANEL_NR, s.w += 2 * bytes) {
            _Alignas(64) float acc[BLOCK_ROWS][2][PANEL_NR];
            const int n_panel = n_out - o > PANEL_NR ? 2 : 1;
            memset(acc, 0, sizeof acc[0] * (size_t)n);
            if (n_panel == 2)
                panel_rows(type, acc, s, 2, n);
            else
                panel_rows(type, acc, s, 1, n);
            for (int r = 0; r < n; r++)
                for (int p = 0; p < n_panel; p++)
                    simd512_store_first(out + (size_t)(first + r) * ld_out + o + p * PANEL_NR, _mm512_loadu_ps(acc[r][p]),
                                        n_out - o - p * PANEL_NR);
        }
    }
}

static void run_f32(float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out, int n_in)
{
    run(QUANT_F32, out, ld_out, packed, x, ld_x, n_row, n_out, n_in);
}

static void run_f16(float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out, int n_in)
{
    run(QUANT_F16, out, ld_out, packed, x, ld_x, n_row, n_out, n_in);
}

static void run_bf16(float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out, int n_in)
{
    run(QUANT_BF16, out, ld_out, packed, x, ld_x, n_row, n_out, n_in);
}

void matmul_f32_init_avx512(struct kernels *k)
{
    matmul_set(k, QUANT_F32, ACTIVATION_F32, "f32_f32_avx512", &layout_f32, run_f32);
    matmul_set(k, QUANT_F16, ACTIVATION_F32, "f16_f32_avx512", &layout_f16, run_f16);
    matmul_set(k, QUANT_BF16, ACTIVATION_F32, "bf16_f32_avx512", &layout_bf16, run_bf16);
}
#endif
