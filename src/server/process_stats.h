/* process_stats.h: what the system says of this process and of its control group. */
#ifndef SERVER_PROCESS_STATS_H
#define SERVER_PROCESS_STATS_H

#include <stdint.h>
#include <sys/types.h>

struct process_stats {
    int64_t cpu_us; /* of all threads, spinning included */
    int64_t resident_bytes, swap_bytes;
    int64_t minor_faults, major_faults;
    int64_t open_files;
    double start_s; /* seconds since the epoch */
    /* Of the control group (v2); -1: there is none to be read. */
    int64_t oom_kills, group_bytes, group_limit_bytes;
};

/* root: in front of every path, for tests; "" is the system. What cannot be read is 0. */
void process_stats_read(struct process_stats *out, const char *root);

/* Bytes of this process that are swapped out, where they are PROCESS_SWAP_STEP more than *known, which they become; else 0. */
enum {
    PROCESS_SWAP_STEP = 8 << 20
};
int64_t process_swap_grown(int64_t *known, const char *root);

/* What another process takes; 0 where it is gone. */
struct process_use {
    int64_t cpu_us, resident_bytes, swap_bytes;
};
void process_use_read(struct process_use *out, pid_t pid, const char *root);

#endif
