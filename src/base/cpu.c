/* cpu.c: CPU features by cpuid, and the mask. */
#include "base/cpu.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Leaf 7, subleaf 1, bit 4 of EAX: compilers' own tests do not know it everywhere. The system enables its registers with
 * those of AVX2. */
static bool has_avx_vnni(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1) != 0;
}

/* The system saves and restores the tiles: bits 17 and 18 of XCR0. Behind OSXSAVE, which AVX2 implies. */
static bool system_keeps_tiles(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low >> 17 & 3) == 3;
}

/* Leaf 7, EDX: bit 24 tiles, 25 int8, 22 bf16. Linux gives a process the room for tiles on demand (its documentation,
 * x86/xstate): one that has not asked is ended by its first tile. All threads have what one has asked for. */
static bool has_amx(void)
{
    enum {
        ASK_FOR_FEATURE = 0x1023, /* ARCH_REQ_XCOMP_PERM */
        TILE_DATA = 18
    };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 1) != 0 && (d >> 25 & 1) != 0 && (d >> 22 & 1) != 0 &&
           system_keeps_tiles() && syscall(SYS_arch_prctl, ASK_FOR_FEATURE, TILE_DATA) == 0;
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
        if ((f & CPU_AVX512_VNNI) != 0 && (f & CPU_AVX512_BF16) != 0 && has_amx())
            f |= CPU_AMX;
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
        {"amx", CPU_AVX2 | CPU_AVX_VNNI | CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_BF16 | CPU_AMX, CPU_AMX},
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
                   "MILLRACE_CPU=%s: unknown level; known are scalar, avx2, avxvnni, avx512, avx512vnni, avx512bf16, amx",
                   mask);
}
