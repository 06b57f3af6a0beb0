/* memory_free.c: free memory from /proc and the control group (kernel documentation: filesystems/proc, cgroup-v2). */
#include "base/memory_free.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number behind `key` at the start of a line of the file, times 1024; SIZE_MAX: none. */
static size_t kib_after(const char *path, const char *key)
{
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return SIZE_MAX;
    char line[256];
    size_t bytes = SIZE_MAX;
    while (bytes == SIZE_MAX && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            bytes = (size_t)strtoull(line + strlen(key), NULL, 10) * 1024;
    fclose(f);
    return bytes;
}

/* The number in a file of one line; SIZE_MAX: none ("max"). */
static size_t number_in(const char *folder, const char *name)
{
    char path[1200], line[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return SIZE_MAX;
    const bool ok = fgets(line, sizeof line, f) != NULL && line[0] >= '0' && line[0] <= '9';
    fclose(f);
    return ok ? (size_t)strtoull(line, NULL, 10) : SIZE_MAX;
}

/* What this process's group and the groups around it leave. */
static size_t group_free(void)
{
    char line[1024] = "", folder[1100];
    FILE *f = fopen("/proc/self/cgroup", "r");
    if (f == NULL)
        return SIZE_MAX;
    while (fgets(line, sizeof line, f) != NULL && strncmp(line, "0::", 3) != 0)
        line[0] = '\0';
    fclose(f);
    if (strncmp(line, "0::/", 4) != 0)
        return SIZE_MAX;
    line[strcspn(line, "\n")] = '\0';
    snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", line + 3);
    size_t least = SIZE_MAX;
    for (char *slash = strrchr(folder, '/'); slash != NULL && slash - folder >= 14; slash = strrchr(folder, '/')) {
        const size_t limit = number_in(folder, "memory.max"), used = number_in(folder, "memory.current");
        if (limit != SIZE_MAX && used != SIZE_MAX) {
            const size_t left = limit > used ? limit - used : 0;
            least = left < least ? left : least;
        }
        *slash = '\0';
    }
    return least;
}

size_t memory_free_bytes(void)
{
    const size_t system = kib_after("/proc/meminfo", "MemAvailable:"), group = group_free();
    return system < group ? system : group;
}

static size_t status_bytes(const char *key)
{
    const size_t bytes = kib_after("/proc/self/status", key);
    return bytes == SIZE_MAX ? 0 : bytes;
}

size_t memory_resident_bytes(void) { return status_bytes("VmRSS:"); }

size_t memory_peak_bytes(void) { return status_bytes("VmHWM:"); }

void memory_peak_reset(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w"); /* proc(5): 5 resets the peak */
    if (f == NULL)
        return;
    fputs("5", f);
    fclose(f);
}
