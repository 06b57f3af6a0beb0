/* cpu_caches.h: the sizes of this CPU's caches, from which tiles and the sizes of measurements derive. */
#ifndef BASE_CPU_CACHES_H
#define BASE_CPU_CACHES_H

#include <stddef.h>

struct cpu_cache {
    size_t bytes; /* 0: there is none, or the system does not say */
    int n_cpus;   /* logical CPUs that share it, at least 1 */
};

enum {
    CPU_CACHE_LEVELS = 3
};

/* cache[0] is the first level's data cache, then L2 and L3; those of the first CPU. */
void cpu_caches(struct cpu_cache cache[CPU_CACHE_LEVELS]);

#endif
