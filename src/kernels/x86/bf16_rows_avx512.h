/* bf16_rows_avx512.h: what products of bf16 read: pairs of weights, rounded activations. AVX512_BF16 rounds to nearest even,
 * denormals to zero, whatever the CPU's modes. */
#ifndef KERNELS_X86_BF16_ROWS_AVX512_H
#define KERNELS_X86_BF16_ROWS_AVX512_H

#include <stdbool.h>

#include "kernels/panel.h"
#include "kernels/x86/simd_avx512.h"

/* Weights w[2][16] of two k, those of an output side by side; both: the second k is there, else its weights are zero. */
SIMD512_INLINE __m512i bf16_pairs(const uint16_t *w, bool both)
{
    static const uint16_t place[2 * PANEL_NR] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return _mm512_permutexvar_epi16(simd512_load(place), _mm512_maskz_loadu_epi16(both ? 0xffffffff : 0xffff, w));
}

/* n floats of each row as bf16, padded with zeros to whole registers. */
static inline void bf16_round_rows(uint16_t *to, size_t ld_to, const char *x, size_t ld_x, int n_row, int n)
{
    for (int r = 0; r < n_row; r++)
        for (int k = 0; k < n; k += SIMD512_FLOATS) {
            const __mmask16 there = n - k >= SIMD512_FLOATS ? (__mmask16)0xffff : (__mmask16)((1u << (n - k)) - 1);
            const __m512 v = _mm512_maskz_loadu_ps(there, (const float *)(x + (size_t)r * ld_x) + k);
            _mm256_storeu_si256((__m256i *)(to + (size_t)r * ld_to + k), (__m256i)_mm512_cvtneps_pbh(v));
        }
}

#endif
