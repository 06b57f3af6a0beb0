/* thread_pin.c: the CPUs of the affinity mask, one for each thread. */
#include "base/thread_pin.h"

#include <sched.h>

enum {
    CPUS_MAX = 1 << 14
};

static bool pin(pthread_t thread, int cpu)
{
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    if (set == NULL)
        return false;
    const size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
    CPU_ZERO_S(bytes, set);
    CPU_SET_S((size_t)cpu, bytes, set);
    const bool ok = pthread_setaffinity_np(thread, bytes, set) == 0;
    CPU_FREE(set);
    return ok;
}

/* The first CPU of the set, which is not empty, from `cpu` on, round about. */
static int next_cpu(const cpu_set_t *set, size_t bytes, int cpu)
{
    while (!CPU_ISSET_S((size_t)(cpu % CPUS_MAX), bytes, set))
        cpu++;
    return cpu % CPUS_MAX;
}

bool threads_pin(const pthread_t *thread, int n)
{
    cpu_set_t *allowed = CPU_ALLOC(CPUS_MAX);
    if (allowed == NULL)
        return false;
    const size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
    bool ok = sched_getaffinity(0, bytes, allowed) == 0 && CPU_COUNT_S(bytes, allowed) > 0;
    int cpu = ok ? next_cpu(allowed, bytes, 0) : 0;
    for (int i = 0; ok && i < n; i++) {
        cpu = next_cpu(allowed, bytes, cpu + 1);
        ok = pin(thread[i], cpu);
    }
    CPU_FREE(allowed);
    return ok;
}
