/* peaks_avxvnni.c: the int8 peak of AVX-VNNI. */
#include "kernels/peaks.h"

static void peak_int8_avxvnni(int64_t n_round)
{
#define TWELVE(step) step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7) step(8) step(9) step(10) step(11)
#define CLEAR(i)     "vpxor %%ymm" #i ",%%ymm" #i ",%%ymm" #i "\n"
#define DOT(i)       "%{vex%} vpdpbusd %%ymm12,%%ymm13,%%ymm" #i "\n"
    __asm__ volatile(TWELVE(CLEAR) CLEAR(12) CLEAR(13) "1:\n" TWELVE(DOT) "dec %0\njnz 1b\n"
                     : "+r"(n_round)
                     :
                     : "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", "ymm10", "ymm11",
                       "ymm12", "ymm13", "cc");
}

void peaks_init_avxvnni(struct peaks *p) { p->peak[PEAK_INT8] = (struct peak){"vpdpbusd ymm", 12 * 64, peak_int8_avxvnni}; }
