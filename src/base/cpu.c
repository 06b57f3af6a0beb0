/* cpu.c: CPU features by cpuid, and the mask. */
#include "base/cpu.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Leaf 7, subleaf 1, bit 4 of EAX: compilers' own tests do not know it everywhere. The system enables its registers with
 * those of AVX2. */
static bool has_avx_vnni(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1) != 0;
}

unsigned cpu_detect(void)
{
    unsigned f = 0;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        f |= CPU_AVX2; /* every CPU with AVX2 and FMA has F16C */
    if (f != 0 && has_avx_vnni())
        f |= CPU_AVX_VNNI;
    if (f != 0 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        f |= CPU_AVX512;
        if (__builtin_cpu_supports("avx512vnni"))
            f |= CPU_AVX512_VNNI;
        if (__builtin_cpu_supports("avx512bf16"))
            f |= CPU_AVX512_BF16;
    }
    return f;
}
#else
unsigned cpu_detect(void) { return 0; }
#endif

enum mr_status cpu_features(unsigned *out, const char *mask, struct mr_error *err)
{
    static const struct {
        const char *name;
        unsigned allows;
        unsigned needs;
    } level[] = {
        {"scalar", 0, 0},
        {"avx2", CPU_AVX2, CPU_AVX2},
        {"avxvnni", CPU_AVX2 | CPU_AVX_VNNI, CPU_AVX_VNNI},
        {"avx512", CPU_AVX2 | CPU_AVX512, CPU_AVX512},
        {"avx512vnni", CPU_AVX2 | CPU_AVX_VNNI | CPU_AVX512 | CPU_AVX512_VNNI, CPU_AVX512_VNNI},
        {"avx512bf16", CPU_AVX2 | CPU_AVX_VNNI | CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_BF16, CPU_AVX512_BF16},
    };
    const unsigned have = cpu_detect();
    *out = 0;
    if (mask == NULL || mask[0] == '\0') {
        *out = have;
        return MR_OK;
    }
    for (size_t i = 0; i < sizeof level / sizeof *level; i++) {
        if (strcmp(mask, level[i].name) != 0)
            continue;
        if ((have & level[i].needs) != level[i].needs)
            return mr_fail(err, MR_BAD_INPUT, "MILLRACE_CPU=%s: this CPU lacks these instructions", mask);
        *out = have & level[i].allows;
        return MR_OK;
    }
    return mr_fail(err, MR_BAD_INPUT,
                   "MILLRACE_CPU=%s: unknown level; known are scalar, avx2, avxvnni, avx512, avx512vnni, avx512bf16", mask);
}
