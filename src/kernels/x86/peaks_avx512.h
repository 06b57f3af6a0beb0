/* peaks_avx512.h: the shape of a peak loop on 512-bit registers: 24 accumulators, operands in zmm24 and zmm25,
 * zmm26 free for what lies between. */
#ifndef KERNELS_X86_PEAKS_AVX512_H
#define KERNELS_X86_PEAKS_AVX512_H

enum {
    PEAK_ACCUMULATORS_AVX512 = 24
};

#define PEAK_ALL_AVX512(step)                                                                                                  \
    step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7) step(8) step(9) step(10) step(11) step(12) step(13)        \
        step(14) step(15) step(16) step(17) step(18) step(19) step(20) step(21) step(22) step(23)
#define PEAK_CLEAR_AVX512(i) "vpxord %%zmm" #i ",%%zmm" #i ",%%zmm" #i "\n"

/* step(i): the instruction on accumulator i, as a string. */
#define PEAK_LOOP_AVX512(n_round, step)                                                                                        \
    __asm__ volatile(PEAK_ALL_AVX512(PEAK_CLEAR_AVX512) PEAK_CLEAR_AVX512(24)                                                  \
                         PEAK_CLEAR_AVX512(25) "1:\n" PEAK_ALL_AVX512(step) "dec %0\njnz 1b\n"                                 \
                     : "+r"(n_round)                                                                                           \
                     :                                                                                                         \
                     : "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11",       \
                       "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18", "zmm19", "zmm20", "zmm21", "zmm22",      \
                       "zmm23", "zmm24", "zmm25", "zmm26", "cc")

#endif
