/* cpu.h: what instructions this CPU has. */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include "base/status.h"

enum cpu_feature {
    CPU_AVX2 = 1 << 0, /* AVX2, FMA and F16C */
    CPU_AVX_VNNI = 1 << 1,
    CPU_AVX512 = 1 << 2, /* F, BW, DQ, VL */
    CPU_AVX512_VNNI = 1 << 3,
    CPU_AVX512_BF16 = 1 << 4,
    CPU_AMX = 1 << 5 /* tiles, their int8 and bf16 products */
};

/* All features of the CPU that the operating system enables. Asks Linux to let this process use tiles, where there are any. */
unsigned cpu_detect(void);

/* The features to use: those detected, lowered by a level named in `mask` (the value of MILLRACE_CPU; NULL or "": no mask):
 * scalar, avx2, avxvnni, avx512, avx512vnni, avx512bf16, amx. Unknown name: BAD_INPUT; above the machine: BAD_INPUT. */
enum mr_status cpu_features(unsigned *out, const char *mask, struct mr_error *err);

#endif
