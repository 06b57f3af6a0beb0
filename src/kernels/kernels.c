/* kernels.c: the choice of kernels, the one place. */
#include "kernels/kernels.h"

#include <string.h>

#include "base/cpu.h"
#include "kernels/init.h"

static const struct kernels_isa isas[] = {
    {"scalar", 0, kernels_init_scalar},
#if defined(__x86_64__)
    {"avx2", CPU_AVX2, kernels_init_avx2},
    {"avxvnni", CPU_AVX2 | CPU_AVX_VNNI, kernels_init_avxvnni},
    {"avx512", CPU_AVX2 | CPU_AVX512, kernels_init_avx512},
    {"avx512vnni", CPU_AVX2 | CPU_AVX512 | CPU_AVX512_VNNI, kernels_init_avx512vnni},
    {"avx512bf16", CPU_AVX2 | CPU_AVX512 | CPU_AVX512_BF16, kernels_init_avx512bf16},
    {"amx", CPU_AVX2 | CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_BF16 | CPU_AMX, kernels_init_amx},
#endif
};

enum {
    N_ISAS = sizeof isas / sizeof *isas
};

const struct kernels_isa *kernels_isa_at(int i) { return i >= 0 && i < N_ISAS ? &isas[i] : NULL; }

void kernels_select(struct kernels *k, unsigned cpu_features)
{
    memset(k, 0, sizeof *k);
    for (int i = 0; i < N_ISAS; i++) {
        if ((cpu_features & isas[i].cpu) != isas[i].cpu)
            continue;
        isas[i].init(k);
        k->isa = isas[i].name;
    }
}
