/* peaks.c: picks the loops. */
#include "kernels/peaks.h"

#include "base/cpu.h"

void peaks_select(struct peaks *p, unsigned cpu_features)
{
    static const struct {
        const char *name;
        unsigned needs;
        void (*init)(struct peaks *p);
    } level[] = {
        {"scalar", 0, peaks_init_scalar},
#if defined(__x86_64__)
        {"avx2", CPU_AVX2, peaks_init_avx2},
        {"avxvnni", CPU_AVX_VNNI, peaks_init_avxvnni},
        {"avx512", CPU_AVX512, peaks_init_avx512},
        {"avx512vnni", CPU_AVX512_VNNI, peaks_init_avx512vnni},
        {"avx512bf16", CPU_AVX512_BF16, peaks_init_avx512bf16},
        {"amx", CPU_AMX, peaks_init_amx},
#endif
    };
    *p = (struct peaks){0};
    for (size_t i = 0; i < sizeof level / sizeof *level; i++) {
        if ((cpu_features & level[i].needs) != level[i].needs)
            continue;
        level[i].init(p);
        p->isa = level[i].name;
    }
}
