/* machine_watch.h: what the machine did besides, while something was measured: its clock, CPU time that a hypervisor or
 * other processes took. A figure measured on a busy or throttled machine says so. */
#ifndef MEASURE_MACHINE_WATCH_H
#define MEASURE_MACHINE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/peaks.h"

struct cpu_times { /* of all CPUs, in clock ticks */
    uint64_t total, busy, steal;
};

/* The first line of /proc/stat (proc(5)). false: it is not of that form. */
bool cpu_times_parse(struct cpu_times *out, const char *line);

enum {
    WATCH_SAMPLES = 256 /* of the clock; later ones replace every other */
};

struct machine_watch {
    const struct peaks *peaks;
    double ghz[WATCH_SAMPLES];
    int n_sample;
    struct cpu_times begin;
    double begin_own_s;
};

void watch_begin(struct machine_watch *w, const struct peaks *peaks); /* peaks is borrowed */

/* Measure the clock, which takes half a millisecond: at once after work, so that the clock is still that of the work. */
void watch_sample(struct machine_watch *w);

struct machine_report {
    double ghz, ghz_min, ghz_max; /* median and range of the samples */
    bool throttled;               /* the lowest sample is more than 15 % below the highest */
    double steal_share;           /* of all CPUs' time; 0 where the system does not say */
    double other_share;           /* of all CPUs' time that other processes used */
};
struct machine_report watch_end(const struct machine_watch *w);

#endif
