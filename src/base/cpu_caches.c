/* cpu_caches.c: cache sizes as Linux shows them under /sys (Documentation/ABI/testing/sysfs-devices-system-cpu). */
#include "base/cpu_caches.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_INDEX = 8 /* caches that the system lists for one CPU */
};

static bool read_line(char *line, int size, int index, const char *name)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return false;
    const bool ok = fgets(line, size, f) != NULL;
    fclose(f);
    return ok;
}

/* "0-3,8" is five CPUs. */
static int count_cpus(const char *list)
{
    int n = 0;
    for (const char *s = list; s != NULL && *s >= '0' && *s <= '9'; s = strchr(s, ',') != NULL ? strchr(s, ',') + 1 : NULL) {
        char *end;
        const long first = strtol(s, &end, 10);
        const long last = *end == '-' ? strtol(end + 1, NULL, 10) : first;
        if (last >= first && last - first < 1 << 16)
            n += (int)(last - first + 1);
    }
    return n > 0 ? n : 1;
}

void cpu_caches(struct cpu_cache cache[CPU_CACHE_LEVELS])
{
    for (int i = 0; i < CPU_CACHE_LEVELS; i++)
        cache[i] = (struct cpu_cache){.n_cpus = 1};
    for (int i = 0; i < MAX_INDEX; i++) {
        char type[32], line[256];
        if (!read_line(type, sizeof type, i, "type") || strncmp(type, "Instruction", 11) == 0 ||
            !read_line(line, sizeof line, i, "level"))
            continue;
        const long level = strtol(line, NULL, 10);
        if (level < 1 || level > CPU_CACHE_LEVELS || !read_line(line, sizeof line, i, "size"))
            continue;
        struct cpu_cache *c = &cache[level - 1];
        char *unit;
        const unsigned long n = strtoul(line, &unit, 10);
        c->bytes = (size_t)n * (*unit == 'K' ? 1024 : *unit == 'M' ? 1024 * 1024 : 1);
        if (read_line(line, sizeof line, i, "shared_cpu_list"))
            c->n_cpus = count_cpus(line);
    }
}
