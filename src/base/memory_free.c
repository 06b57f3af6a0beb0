/* memory_free.c: free memory from /proc and the control group (kernel documentation: filesystems/proc, cgroup-v1/memory,
 * cgroup-v2). */
#include "base/memory_free.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATH_BYTES = 1200
};

/* The number behind `key` at the start of a line of the file; SIZE_MAX: none. */
static size_t number_after(const char *path, const char *key)
{
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return SIZE_MAX;
    char line[256];
    size_t number = SIZE_MAX;
    while (number == SIZE_MAX && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            number = (size_t)strtoull(line + strlen(key), NULL, 10);
    fclose(f);
    return number;
}

static size_t kib_after(const char *path, const char *key)
{
    const size_t n = number_after(path, key);
    return n == SIZE_MAX ? n : n * 1024;
}

/* The files of one version of control groups. */
struct group_files {
    const char *prefix; /* of the line in /proc/self/cgroup, behind the hierarchy's number */
    const char *mount;
    const char *limit, *used;
    const char *cached[2]; /* in memory.stat: what the kernel drops before it refuses memory */
};

static const struct group_files versions[] = {
    {"::", "/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file ", "active_file "}},
    {":memory:",
     "/sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_inactive_file ", "total_active_file "}},
};

static size_t number_in_file(const char *root, const char *folder, const char *name, const char *key)
{
    char path[3 * PATH_BYTES];
    snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    return number_after(path, key);
}

/* What one group leaves; SIZE_MAX: it states no limit ("max" reads as 0). */
static size_t folder_free(const struct group_files *v, const char *root, const char *folder)
{
    const size_t limit = number_in_file(root, folder, v->limit, ""), used = number_in_file(root, folder, v->used, "");
    if (limit == SIZE_MAX || limit == 0 || used == SIZE_MAX)
        return SIZE_MAX;
    size_t cached = 0;
    for (int i = 0; i < 2; i++) {
        const size_t n = number_in_file(root, folder, "memory.stat", v->cached[i]);
        cached += n == SIZE_MAX ? 0 : n;
    }
    const size_t kept = used > cached ? used - cached : 0;
    return limit > kept ? limit - kept : 0;
}

/* What the group of the process below v->mount, and the groups around it, leave. */
static size_t hierarchy_free(const struct group_files *v, const char *root, const char *group)
{
    char folder[PATH_BYTES];
    const size_t n_mount = strlen(v->mount);
    snprintf(folder, sizeof folder, "%s%s", v->mount, strcmp(group, "/") == 0 ? "" : group);
    size_t least = SIZE_MAX;
    for (;;) {
        const size_t left = folder_free(v, root, folder);
        least = left < least ? left : least;
        char *slash = strrchr(folder, '/');
        if (slash == NULL || (size_t)(slash - folder) < n_mount)
            return least;
        *slash = '\0';
    }
}

size_t memory_group_free(const char *root)
{
    char line[1024], path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return SIZE_MAX;
    size_t least = SIZE_MAX;
    while (fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        const char *rest = strchr(line, ':');
        for (size_t i = 0; rest != NULL && i < sizeof versions / sizeof *versions; i++) {
            const size_t n = strlen(versions[i].prefix);
            if (strncmp(rest, versions[i].prefix, n) != 0)
                continue;
            const size_t left = hierarchy_free(&versions[i], root, rest + n);
            least = left < least ? left : least;
        }
    }
    fclose(f);
    return least;
}

size_t memory_free_bytes(void)
{
    const size_t system = kib_after("/proc/meminfo", "MemAvailable:"), group = memory_group_free("");
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
