/* cpu_limit.h: how many CPUs this process may keep busy. */
#ifndef BASE_CPU_LIMIT_H
#define BASE_CPU_LIMIT_H

/* The CPUs of the affinity mask, lowered by the CPU quota of the control groups (v1 or v2) that the process is in and of
 * all their parents; a quota of 1.5 CPUs gives 2. At least 1. */
int cpu_limit(void);

/* The quota alone, in CPUs, read from the files below `root` (tests give a folder of their own; "" is the system):
 * proc/self/cgroup, proc/self/mountinfo, and the groups' cpu.max or cpu.cfs_quota_us. 0: there is no quota. */
double cpu_limit_quota(const char *root);

#endif
