/* limits.h: what this machine can do, measured beside the kernels so that a speed has its share of the limit. */
#ifndef TESTS_KERNELS_LIMITS_H
#define TESTS_KERNELS_LIMITS_H

#include <sys/mman.h>
#include <time.h>

#include "check.h"

/* Bytes on huge pages where the system has them; NULL: none left. */
static inline void *bench_map(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    madvise(p, n, MADV_HUGEPAGE);
    return p;
}

/* Seconds of this thread on the CPU: other programs do not count, though they share caches and memory. */
static inline double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Giga-operations a second of vpmaddubsw + vpmaddwd + vpaddd on one thread, a multiply-add counted as two. */
__attribute__((target("avx2"))) static inline double limit_int8(void)
{
    enum {
        LOOPS = 200000
    };
    double best = 0;
    for (int round = 0; round < 3; round++) {
        const double start = seconds();
        __asm__ volatile("mov %0, %%eax\n"
                         "vpxor %%ymm12, %%ymm12, %%ymm12\n"
                         "1:\n"
                         "vpmaddubsw %%ymm12, %%ymm12, %%ymm0\nvpmaddubsw %%ymm12, %%ymm12, %%ymm1\n"
                         "vpmaddubsw %%ymm12, %%ymm12, %%ymm2\nvpmaddubsw %%ymm12, %%ymm12, %%ymm3\n"
                         "vpmaddwd %%ymm12, %%ymm0, %%ymm0\nvpmaddwd %%ymm12, %%ymm1, %%ymm1\n"
                         "vpmaddwd %%ymm12, %%ymm2, %%ymm2\nvpmaddwd %%ymm12, %%ymm3, %%ymm3\n"
                         "vpaddd %%ymm0, %%ymm4, %%ymm4\nvpaddd %%ymm1, %%ymm5, %%ymm5\n"
                         "vpaddd %%ymm2, %%ymm6, %%ymm6\nvpaddd %%ymm3, %%ymm7, %%ymm7\n"
                         "dec %%eax\njnz 1b\n"
                         :
                         : "i"(LOOPS)
                         : "eax", "cc", "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm12");
        const double rate = 4.0 * 64 * LOOPS / (seconds() - start) * 1e-9;
        best = rate > best ? rate : best;
    }
    return best;
}

/* The same of vfmadd231ps. */
__attribute__((target("avx2,fma"))) static inline double limit_f32(void)
{
    enum {
        LOOPS = 200000
    };
    double best = 0;
    for (int round = 0; round < 3; round++) {
        const double start = seconds();
        __asm__ volatile("mov %0, %%eax\n"
                         "1:\n"
                         "vfmadd231ps %%ymm15, %%ymm15, %%ymm0\nvfmadd231ps %%ymm15, %%ymm15, %%ymm1\n"
                         "vfmadd231ps %%ymm15, %%ymm15, %%ymm2\nvfmadd231ps %%ymm15, %%ymm15, %%ymm3\n"
                         "vfmadd231ps %%ymm15, %%ymm15, %%ymm4\nvfmadd231ps %%ymm15, %%ymm15, %%ymm5\n"
                         "vfmadd231ps %%ymm15, %%ymm15, %%ymm6\nvfmadd231ps %%ymm15, %%ymm15, %%ymm7\n"
                         "vfmadd231ps %%ymm15, %%ymm15, %%ymm8\nvfmadd231ps %%ymm15, %%ymm15, %%ymm9\n"
                         "dec %%eax\njnz 1b\n"
                         :
                         : "i"(LOOPS)
                         : "eax", "cc", "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9",
                           "ymm15");
        const double rate = 10.0 * 16 * LOOPS / (seconds() - start) * 1e-9;
        best = rate > best ? rate : best;
    }
    return best;
}

/* GB/s at which one thread reads n bytes. */
__attribute__((target("avx2"))) static inline double limit_read(const void *p, size_t n)
{
    double best = 0;
    for (int round = 0; round < 5; round++) {
        __m256i s[4] = {0};
        const double start = seconds();
        for (const char *at = p; at + 128 <= (const char *)p + n; at += 128)
            for (int j = 0; j < 4; j++)
                s[j] = _mm256_add_epi64(s[j], _mm256_loadu_si256((const __m256i *)(at + 32 * j)));
        const double rate = (double)n / (seconds() - start) * 1e-9;
        s[0] = _mm256_add_epi64(_mm256_add_epi64(s[0], s[1]), _mm256_add_epi64(s[2], s[3]));
        __asm__ volatile("" : : "x"(s[0]));
        best = rate > best ? rate : best;
    }
    return best;
}
#else
static inline double limit_int8(void) { return 0; }
static inline double limit_f32(void) { return 0; }
static inline double limit_read(const void *p, size_t n) { return (void)p, (void)n, 0; }
#endif

#endif
