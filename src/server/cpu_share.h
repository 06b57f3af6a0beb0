/* cpu_share.h: processes that divide the CPUs. */
#ifndef SERVER_CPU_SHARE_H
#define SERVER_CPU_SHARE_H

/* CPUs of the index-th of n equal shares of total, at least 1: the first ones get what is over. */
int cpu_share_size(int total, int index, int n);
/* All threads of this process stay on the index-th of n parts of the CPUs that it may use, and those that they start. Nothing
 * happens where there are fewer CPUs than parts, or the system does not let it. */
void cpu_share_take(int index, int n);

#endif
