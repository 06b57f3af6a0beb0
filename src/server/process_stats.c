/* process_stats.c: reads /proc/self (proc(5)) and the control group's memory files (cgroups(7), version 2). */
#include "server/process_stats.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PATH_BYTES = 4096,
    FILE_BYTES = 16384
};

/* The file's beginning as a string; false: it cannot be read. */
static bool read_text(char text[FILE_BYTES], const char *root, const char *path)
{
    char full[PATH_BYTES];
    if (snprintf(full, sizeof full, "%s%s", root, path) >= (int)sizeof full)
        return false;
    FILE *f = fopen(full, "re");
    if (f == NULL)
        return false;
    text[fread(text, 1, FILE_BYTES - 1, f)] = '\0';
    fclose(f);
    return true;
}

/* The number behind a line's first word; -1: no such line. */
static int64_t field(const char *text, const char *name)
{
    const size_t n = strlen(name);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) == 0 && (line[n] == ' ' || line[n] == '\t'))
            return strtoll(line + n, NULL, 10);
    }
    return -1;
}

static int64_t at_least_0(int64_t n) { return n > 0 ? n : 0; }

/* Fields 10 (minor faults), 12 (major), 14, 15 (user and system ticks), 22 (ticks from boot to start). */
static void read_stat(struct process_stats *out, const char *root, const char *path)
{
    char text[FILE_BYTES];
    unsigned long long minor, major, user, system, start;
    const double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    const char *behind_name = read_text(text, root, path) ? strrchr(text, ')') : NULL;
    if (behind_name == NULL ||
        sscanf(behind_name + 1, " %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu %*u %llu %llu %*d %*d %*d %*d %*d %*d %llu", &minor,
               &major, &user, &system, &start) != 5)
        return;
    out->minor_faults = (int64_t)minor;
    out->major_faults = (int64_t)major;
    out->cpu_us = (int64_t)((double)(user + system) * tick * 1e6);
    if (read_text(text, root, "/proc/stat"))
        out->start_s = (double)at_least_0(field(text, "btime")) + (double)start * tick;
}

static void read_memory(struct process_stats *out, const char *root, const char *path)
{
    char text[FILE_BYTES];
    if (!read_text(text, root, path))
        return;
    out->resident_bytes = at_least_0(field(text, "VmRSS:")) * 1024;
    out->swap_bytes = at_least_0(field(text, "VmSwap:")) * 1024;
}

static int64_t count_files(const char *root)
{
    char full[PATH_BYTES];
    int64_t n = 0;
    snprintf(full, sizeof full, "%s/proc/self/fd", root);
    DIR *folder = opendir(full);
    if (folder == NULL)
        return 0;
    for (const struct dirent *e; (e = readdir(folder)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(folder);
    return n > 0 ? n - 1 : 0; /* without the one that reads */
}

static int64_t group_number(const char *root, const char *group, const char *file, const char *name)
{
    char path[PATH_BYTES], text[FILE_BYTES];
    if (snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", group, file) >= (int)sizeof path || !read_text(text, root, path))
        return -1;
    if (name != NULL)
        return field(text, name);
    return text[0] >= '0' && text[0] <= '9' ? strtoll(text, NULL, 10) : -1; /* "max": no limit */
}

static void read_group(struct process_stats *out, const char *root)
{
    char text[FILE_BYTES];
    char *group = read_text(text, root, "/proc/self/cgroup") ? strstr(text, "0::/") : NULL;
    if (group == NULL)
        return;
    group += strlen("0::");
    group[strcspn(group, "\n")] = '\0';
    if (strcmp(group, "/") == 0)
        group[0] = '\0';
    out->oom_kills = group_number(root, group, "memory.events", "oom_kill");
    out->group_bytes = group_number(root, group, "memory.current", NULL);
    out->group_limit_bytes = group_number(root, group, "memory.max", NULL);
}

void process_stats_read(struct process_stats *out, const char *root)
{
    *out = (struct process_stats){.oom_kills = -1, .group_bytes = -1, .group_limit_bytes = -1};
    read_stat(out, root, "/proc/self/stat");
    read_memory(out, root, "/proc/self/status");
    out->open_files = count_files(root);
    read_group(out, root);
}

void process_use_read(struct process_use *out, pid_t pid, const char *root)
{
    char path[64];
    struct process_stats all = {0};
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    read_stat(&all, root, path);
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    read_memory(&all, root, path);
    *out = (struct process_use){.cpu_us = all.cpu_us, .resident_bytes = all.resident_bytes, .swap_bytes = all.swap_bytes};
}

int64_t process_swap_grown(int64_t *known, const char *root)
{
    struct process_stats stats = {0};
    read_memory(&stats, root, "/proc/self/status");
    if (stats.swap_bytes < *known + PROCESS_SWAP_STEP)
        return 0;
    *known = stats.swap_bytes;
    return stats.swap_bytes;
}
