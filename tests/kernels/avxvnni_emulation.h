/* avxvnni_emulation.h: vpdpbusd on 256 bits as a function in plain C. */
#ifndef TESTS_KERNELS_AVXVNNI_EMULATION_H
#define TESTS_KERNELS_AVXVNNI_EMULATION_H

#include <immintrin.h>
#include <stdint.h>

union emulated_256 {
    __m256i v;
    int32_t i32[8];
    uint8_t u8[32];
    int8_t i8[32];
};

static inline __m256i emulated_dpbusd_256(__m256i sum, __m256i u, __m256i x)
{
    union emulated_256 s = {.v = sum};
    const union emulated_256 a = {.v = u}, b = {.v = x};
    for (int i = 0; i < 32; i++)
        s.i32[i / 4] += a.u8[i] * b.i8[i];
    return s.v;
}

#define _mm256_dpbusd_avx_epi32(sum, u, x) emulated_dpbusd_256(sum, u, x)

#endif
