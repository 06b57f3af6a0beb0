/* limits.h: what this machine can do at most, measured: the figures that every other figure is a share of. */
#ifndef MEASURE_LIMITS_H
#define MEASURE_LIMITS_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/cpu_caches.h"
#include "base/status.h"
#include "kernels/peaks.h"

struct limits {
    const char *isa;
    int n_threads;
    const char *instruction[N_PEAK_TYPES]; /* NULL: the CPU has none for the type */
    double gops[N_PEAK_TYPES];             /* 10^9 operations a second, all threads; 0: none */
    double read_gb_s;                      /* of memory, all threads, on huge pages where the system gives them */
    int read_streams;                      /* streams a thread with which that was reached */
    size_t read_bytes;                     /* over which it was measured; 0: too little memory */
    struct cpu_cache cache[CPU_CACHE_LEVELS];
    double cache_gb_s[CPU_CACHE_LEVELS]; /* all threads together; 0: unknown size, or too small a share of it */
    double clock_ghz;                    /* of one thread right after the peaks */
};

/* Measure for about two seconds on n_threads (1 to TIMED_THREADS_MAX) with the instructions of cpu_features. Every figure
 * is the best of many short rounds: on a shared machine a longer one would count what others used. At most 1 GiB of
 * memory, never more than a quarter of what is free. CANCELLED when *stop (may be NULL) becomes true. */
enum mr_status limits_measure(struct limits *out, int n_threads, unsigned cpu_features, const atomic_bool *stop,
                              struct mr_error *err);

/* The same in about a fifth of a second, less certain, and without the caches: for a server that starts. */
enum mr_status limits_measure_quick(struct limits *out, int n_threads, unsigned cpu_features, struct mr_error *err);

/* The rate for products of this type: bf16 without an instruction of its own is computed in f32. */
double limits_gops(const struct limits *l, enum peak_type type);

/* Clock of the calling thread now, in GHz: the best of a few runs of 100 microseconds. */
double limits_clock_ghz(const struct peaks *p);

#endif
