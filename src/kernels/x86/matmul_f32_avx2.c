/* matmul_f32_avx2.c: products of float activations with F32, F16 and BF16 weights: acc = fma(w, x, acc), k ascending. Few
 * rows read the weights as they stand; more rows share weights widened to floats, a part of k at a time. */
#include "kernels/pack/pack.h"

#if defined(__x86_64__)
#include "kernels/x86/simd_avx2.h"
#include "kernels/x86/x86.h"

enum {
    CHUNK_IN = 256,  /* k whose weights stay in the first-level cache: 16 KB */
    TILE_ROWS = 6,   /* 12 sums, 2 weights, 1 activation in 16 registers */
    BLOCK_ROWS = 48, /* rows that share widened weights */
    PREFETCH_BYTES = 2048
};

SIMD_INLINE size_t weight_bytes(enum quant_type type) { return type == QUANT_F32 ? sizeof(float) : sizeof(uint16_t); }

SIMD_INLINE __m256 load_weights(enum quant_type type, const char *w)
{
    if (type == QUANT_F32)
        return _mm256_loadu_ps((const float *)w);
    return type == QUANT_F16 ? simd_load_f16(w) : simd_load_bf16(w);
}

SIMD_INLINE const float *row_at(const char *x, size_t ld_x, int r) { return (const float *)(x + (size_t)r * ld_x); }

/* Add k from first to last of n_row rows to acc[row][16]; w stands at k = first. */
SIMD_INLINE void tile(enum quant_type type, float (*acc)[PANEL_NR], const char *w, const char *x, size_t ld_x, int n_row,
                      int first, int last)
{
    const size_t half = SIMD_FLOATS * weight_bytes(type);
    __m256 sum[TILE_ROWS][2];
#pragma GCC unroll 6
    for (int r = 0; r < n_row; r++) {
        sum[r][0] = _mm256_loadu_ps(acc[r]);
        sum[r][1] = _mm256_loadu_ps(acc[r] + SIMD_FLOATS);
    }
    for (int k = first; k < last; k++, w += 2 * half) {
        if (n_row == 1)
            _mm_prefetch(w + PREFETCH_BYTES, _MM_HINT_T0);
        const __m256 w0 = load_weights(type, w), w1 = load_weights(type, w + half);
#pragma GCC unroll 6
        for (int r = 0; r < n_row; r++) {
            const __m256 v = _mm256_broadcast_ss(row_at(x, ld_x, r) + k);
            sum[r][0] = _mm256_fmadd_ps(w0, v, sum[r][0]);
            sum[r][1] = _mm256_fmadd_ps(w1, v, sum[r][1]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < n_row; r++) {
        _mm256_storeu_ps(acc[r], sum[r][0]);
        _mm256_storeu_ps(acc[r] + SIMD_FLOATS, sum[r][1]);
    }
}

/* Up to a tile of rows. */
SIMD_INLINE void rows(enum quant_type type, float (*acc)[PANEL_NR], const char *w, const char *x, size_t ld_x, int n_row,
                      int first, int last)
{
    switch (n_row) {
    case 1:
        tile(type, acc, w, x, ld_x, 1, first, last);
        break;
    case 2:
        tile(type, acc, w, x, ld_x, 2, first, last);
        break;
    case 3:
        tile(type, acc, w, x, ld_x, 3, first, last);
        break;
    case 4:
        tile(type, acc, w, x, ld_x, 4, first, last);
        break;
    case 5:
        tile(type, acc, w, x, ld_x, 5, first, last);
        break;
    default:
        tile(type, acc, w, x, ld_x, TILE_ROWS, first, last);
    }
}

SIMD_INLINE void panel_rows(enum quant_type type, float (*acc)[PANEL_NR], const char *w, const char *x, size_t ld_x, int n_row,
                            int n_in)
{
    if (n_row <= TILE_ROWS) {
        rows(type, acc, w, x, ld_x, n_row, 0, n_in);
        return;
    }
    const size_t half = SIMD_FLOATS * weight_bytes(type);
    _Alignas(64) float wide[CHUNK_IN][PANEL_NR];
    for (int first = 0; first < n_in; first += CHUNK_IN) {
        const int last = n_in - first < CHUNK_IN ? n_in : first + CHUNK_IN;
        const char *part = type == QUANT_F32 ? w : (const char *)wide; /* floats are wide as they stand */
        for (int k = 0; k < last - first && type != QUANT_F32; k++)
            for (int h = 0; h < 2; h++)
                _mm256_store_ps(wide[k] + SIMD_FLOATS * h, load_weights(type, w + (size_t)(2 * k + h) * half));
        w += (size_t)(last - first) * 2 * half;
        for (int r = 0; r < n_row; r += TILE_ROWS)
            rows(QUANT_F32, acc + r, part, x + (size_t)r * ld_x, ld_x, n_row - r, first, last);
    }
}

SIMD_INLINE void run(enum quant_type type, float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row,
                     int n_out, int n_in)
{
    for (int first = 0; first < n_row; first += BLOCK_ROWS) {
        const int n = n_row - first < BLOCK_ROWS ? n_row - first : BLOCK_ROWS;
        const char *w = packed;
        for (int o = 0; o < n_out; o += PANEL_NR, w += (size_t)n_in * PANEL_NR * weight_bytes(type)) {
            _Alignas(64) float acc[BLOCK_ROWS][PANEL_NR];
            memset(acc, 0, sizeof acc[0] * (size_t)n);
            panel_rows(type, acc, w, (const char *)x + (size_t)first * ld_x, ld_x, n, n_in);
            for (int r = 0; r < n; r++)
                simd_store_16(out + (size_t)(first + r) * ld_out + o, _mm256_load_ps(acc[r]),
                              _mm256_load_ps(acc[r] + SIMD_FLOATS), n_out - o);
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

void matmul_f32_init_avx2(struct kernels *k)
{
    matmul_set(k, QUANT_F32, ACTIVATION_F32, "f32_f32_avx2", &layout_f32, run_f32);
    matmul_set(k, QUANT_F16, ACTIVATION_F32, "f16_f32_avx2", &layout_f16, run_f16);
    matmul_set(k, QUANT_BF16, ACTIVATION_F32, "bf16_f32_avx2", &layout_bf16, run_bf16);
}
#endif
