/* cpu_limit.c: the affinity mask and the quota of control groups (Linux: sched_getaffinity(2), cgroups(7)). */
#include "base/cpu_limit.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATH_BYTES = 4096
};

static bool read_line(char *line, size_t n, const char *path)
{
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return false;
    const bool ok = fgets(line, (int)n, f) != NULL;
    fclose(f);
    return ok;
}

/* CPUs that the folder of one group allows; 0: it states no quota. */
static double folder_quota(const char *folder, bool v2)
{
    char path[PATH_BYTES + 32], line[128];
    double quota, period;
    if (v2) {
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        if (!read_line(line, sizeof line, path) || sscanf(line, "%lf %lf", &quota, &period) != 2)
            return 0;
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
        if (!read_line(line, sizeof line, path) || sscanf(line, "%lf", &quota) != 1)
            return 0;
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        if (!read_line(line, sizeof line, path) || sscanf(line, "%lf", &period) != 1)
            return 0;
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

static double lower(double a, double b) { return a == 0 || (b != 0 && b < a) ? b : a; }

/* The lowest quota of mount/group and of the folders above it, down to `mount` itself. */
static double group_quota(const char *mount, const char *group, bool v2)
{
    char folder[PATH_BYTES];
    const size_t n_mount = strlen(mount);
    if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder)
        return 0;
    double quota = 0;
    for (;;) {
        quota = lower(quota, folder_quota(folder, v2));
        char *slash = strrchr(folder, '/');
        if (slash == NULL || (size_t)(slash - folder) < n_mount)
            return quota;
        *slash = '\0';
    }
}

static bool has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)) != NULL; p += n)
        if ((p == list || p[-1] == ',') && (p[n] == '\0' || p[n] == ','))
            return true;
    return false;
}

/* One line of mountinfo, "id parent dev root mount options ... - type source super", is the hierarchy that we look for:
 * *group then is the process's group below the mount. */
static bool match_mount(char *line, bool v2, char *mount, const char **group)
{
    char root[PATH_BYTES], point[PATH_BYTES], type[64], super[1024];
    char *tail = strstr(line, " - ");
    if (tail == NULL || sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2)
        return false;
    if (sscanf(tail, " - %63s %*s %1023s", type, super) != 2 || strcmp(type, v2 ? "cgroup2" : "cgroup") != 0)
        return false;
    if (!v2 && !has_word(super, "cpu"))
        return false;
    memcpy(mount, point, strlen(point) + 1);
    /* In a container the mount shows a part of the tree, and the group's path may be stated from the tree's root. */
    const size_t n = strlen(root);
    if (n > 1 && strncmp(*group, root, n) == 0)
        *group += n;
    return true;
}

static double hierarchy_quota(const char *system_root, const char *group, bool v2)
{
    char path[PATH_BYTES], line[2 * PATH_BYTES + 2048], mount[PATH_BYTES];
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", system_root);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    double quota = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        const char *below = group;
        if (!match_mount(line, v2, mount, &below))
            continue;
        char full[2 * PATH_BYTES];
        snprintf(full, sizeof full, "%s%s", system_root, mount);
        quota = lower(quota, group_quota(full, strcmp(below, "/") == 0 ? "" : below, v2));
    }
    fclose(f);
    return quota;
}

double cpu_limit_quota(const char *root)
{
    char path[PATH_BYTES], line[PATH_BYTES + 512];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    double quota = 0;
    while (fgets(line, sizeof line, f) != NULL) { /* "id:controllers:/path"; v2 has id 0 and no controllers */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL)
            continue;
        *group++ = '\0';
        const bool v2 = controllers[1] == '\0';
        if (v2 || has_word(controllers + 1, "cpu"))
            quota = lower(quota, hierarchy_quota(root, group, v2));
    }
    fclose(f);
    return quota;
}

static int affinity_count(void)
{
    for (int n = CPU_SETSIZE; n <= 1 << 20; n *= 2) { /* EINVAL: the machine's mask is longer */
        cpu_set_t *set = CPU_ALLOC((size_t)n);
        if (set == NULL)
            return 1;
        const size_t bytes = CPU_ALLOC_SIZE((size_t)n);
        const int failed = sched_getaffinity(0, bytes, set);
        const int count = failed == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (failed == 0)
            return count > 0 ? count : 1;
        if (errno != EINVAL)
            return 1;
    }
    return 1;
}

int cpu_limit(void)
{
    const int n = affinity_count();
    const double quota = cpu_limit_quota("");
    if (quota <= 0 || quota >= n)
        return n;
    const int whole = (int)quota;
    return whole < quota ? whole + 1 : whole;
}
