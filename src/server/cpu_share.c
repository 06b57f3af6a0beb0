/* cpu_share.c: affinity masks, thread by thread. */
#include "server/cpu_share.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>

int cpu_share_size(int total, int index, int n)
{
    const int size = total / n + (index < total % n);
    return size > 0 ? size : 1;
}

/* The CPUs of set from the first-th on, size of them. */
static void select_cpus(cpu_set_t *out, const cpu_set_t *set, int first, int size)
{
    int at = 0;
    CPU_ZERO(out);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, set))
            continue;
        if (at >= first && at < first + size)
            CPU_SET(cpu, out);
        at++;
    }
}

void cpu_share_take(int index, int n)
{
    cpu_set_t all, mine;
    if (n < 2 || sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < n)
        return;
    int first = 0;
    for (int i = 0; i < index; i++)
        first += cpu_share_size(CPU_COUNT(&all), i, n);
    select_cpus(&mine, &all, first, cpu_share_size(CPU_COUNT(&all), index, n));
    DIR *threads = opendir("/proc/self/task");
    if (threads == NULL)
        return;
    for (const struct dirent *e; (e = readdir(threads)) != NULL;)
        if (*e->d_name >= '0' && *e->d_name <= '9')
            sched_setaffinity((pid_t)strtol(e->d_name, NULL, 10), sizeof mine, &mine);
    closedir(threads);
}
