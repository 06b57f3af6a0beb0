/* peaks.h: what this machine can do at most: loops that multiply and add in registers, and loops that only read. Every
 * figure of `millrace bench` is a share of what these measure. One table as in kernels.h: the scalar loops fill it, each
 * better instruction set overwrites what it does better. One call runs on one thread; threads are the caller's business.
 * A multiply-accumulate counts as two operations. */
#ifndef KERNELS_PEAKS_H
#define KERNELS_PEAKS_H

#include <stddef.h>
#include <stdint.h>

enum peak_type {
    PEAK_INT8,
    PEAK_BF16,
    PEAK_F32,
    N_PEAK_TYPES
};

/* Independent chains of one instruction or sequence, enough of them to hide its latency; no accumulator leaves its
 * register. */
struct peak {
    const char *instruction; /* for a person: "vpdpbusd zmm"; NULL: this CPU has none for the type */
    int ops;                 /* operations in one round */
    void (*run)(int64_t n_round);
};

struct peaks {
    const char *isa; /* the best level in this table */
    struct peak peak[N_PEAK_TYPES];
    /* Read the bytes at p (64-byte aligned) once as n_stream (1, 2 or 4) equal stretches side by side: what hardware
     * prefetchers serve best differs. bytes: a multiple of 256 * n_stream. Returns a sum, so that no read can be left out. */
    uint64_t (*read)(const void *p, size_t bytes, int n_stream);
    /* A chain of PEAK_CYCLES * n_round dependent additions, one CPU cycle each: n over the time it takes is the clock. */
    void (*cycles)(int64_t n_round);
};

enum {
    PEAK_CYCLES = 8
}; /* cycles in a round of peaks.cycles */

/* Fill *p with the best loops for this CPU (base/cpu.h). */
void peaks_select(struct peaks *p, unsigned cpu_features);

/* One for each instruction set; they overwrite what they do better. */
void peaks_init_scalar(struct peaks *p);
void peaks_init_avx2(struct peaks *p);
void peaks_init_avxvnni(struct peaks *p);
void peaks_init_avx512(struct peaks *p);
void peaks_init_avx512vnni(struct peaks *p);
void peaks_init_avx512bf16(struct peaks *p);
void peaks_init_amx(struct peaks *p);

#endif
