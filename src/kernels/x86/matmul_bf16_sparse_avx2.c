/* matmul_bf16_sparse_avx2.c: products of float activations with half of the weights as bf16: acc = fma(w, x, acc) over the
 * stored weights, k ascending. A permutation picks from 4 or 8 activations those that the slots of 8 outputs meet. */
#include "kernels/pack/sparse_bf16.h"

#if defined(__x86_64__)
#include "kernels/pack/pack.h"
#include "kernels/x86/simd_avx2.h"
#include "kernels/x86/x86.h"

enum {
    TILE_ROWS = 4, /* 8 sums beside places, weights and activations in 16 registers */
    PREFETCH_BYTES = 2048
};

/* Where the slots of half h stand, slot 0 in the lowest bits of each lane. */
SIMD_INLINE __m256i load_where(bool wide, const uint8_t *group, int h)
{
    if (wide)
        return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(group + 2 * SIMD_FLOATS * h)));
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(group + SIMD_FLOATS * h)));
}

/* The activations of a group that slot j meets; x: the group's first. */
SIMD_INLINE __m256 pick(bool wide, const float *x, __m256i where, int j)
{
    if (wide)
        return _mm256_permutevar8x32_ps(_mm256_loadu_ps(x), _mm256_srli_epi32(where, 3 * j));
    return _mm256_permutevar_ps(_mm256_broadcast_ps((const __m128 *)(const void *)(x + 4 * (j / 2))),
                                _mm256_srli_epi32(where, 2 * j));
}

/* One panel and n_row rows. */
SIMD_INLINE void tile(bool wide, float *out, size_t ld_out, const uint8_t *group, const char *x, size_t ld_x, int n_row,
                      int n_out, int n_in)
{
    __m256 sum[TILE_ROWS][2];
    for (int r = 0; r < n_row; r++)
        sum[r][0] = sum[r][1] = _mm256_setzero_ps();
    for (int k = 0; k < n_in; k += SPARSE_GROUP, group += sparse_bf16_group_bytes(wide)) {
        for (size_t i = 0; i < sparse_bf16_group_bytes(wide); i += 64)
            _mm_prefetch((const char *)group + PREFETCH_BYTES + i, _MM_HINT_T0);
        for (int h = 0; h < 2; h++) {
            const __m256i where = load_where(wide, group, h);
            const uint8_t *w = group + sparse_bf16_where_bytes(wide) + sizeof(uint16_t) * SIMD_FLOATS * (size_t)h;
#pragma GCC unroll 4
            for (int j = 0; j < SPARSE_GROUP_KEPT; j++) {
                const __m256 weight = simd_load_bf16(w + sizeof(uint16_t) * PANEL_NR * (size_t)j);
#pragma GCC unroll 4
                for (int r = 0; r < n_row; r++) {
                    const float *row = (const float *)(x + (size_t)r * ld_x) + k;
                    sum[r][h] = _mm256_fmadd_ps(weight, pick(wide, row, where, j), sum[r][h]);
                }
            }
        }
    }
    for (int r = 0; r < n_row; r++)
        simd_store_16(out + (size_t)r * ld_out, sum[r][0], sum[r][1], n_out);
}

SIMD_INLINE void run(bool wide, float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out,
                     int n_in)
{
    const uint8_t *panel = packed;
    for (int o = 0; o < n_out; o += PANEL_NR, panel += sparse_bf16_panel_bytes(wide, n_in)) {
        int r = 0;
        for (; r + TILE_ROWS <= n_row; r += TILE_ROWS)
            tile(wide, out + (size_t)r * ld_out + o, ld_out, panel, (const char *)x + (size_t)r * ld_x, ld_x, TILE_ROWS,
                 n_out - o, n_in);
        for (; r < n_row; r++)
            tile(wide, out + (size_t)r * ld_out + o, ld_out, panel, (const char *)x + (size_t)r * ld_x, ld_x, 1, n_out - o,
                 n_in);
    }
}

static void run_2of4(float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out, int n_in)
{
    run(false, out, ld_out, packed, x, ld_x, n_row, n_out, n_in);
}

static void run_4of8(float *out, size_t ld_out, const void *packed, const void *x, size_t ld_x, int n_row, int n_out, int n_in)
{
    run(true, out, ld_out, packed, x, ld_x, n_row, n_out, n_in);
}

void matmul_bf16_sparse_init_avx2(struct kernels *k)
{
    matmul_set(k, QUANT_BF16_2OF4, ACTIVATION_F32, "bf16_2of4_f32_avx2", &layout_bf16_2of4, run_2of4);
    matmul_set(k, QUANT_BF16_4OF8, ACTIVATION_F32, "bf16_4of8_f32_avx2", &layout_bf16_4of8, run_4of8);
}
#endif
