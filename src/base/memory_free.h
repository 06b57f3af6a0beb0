/* memory_free.h: how much memory this process may still take. */
#ifndef BASE_MEMORY_FREE_H
#define BASE_MEMORY_FREE_H

#include <stddef.h>

/* Bytes that the system can give without swapping: MemAvailable of /proc/meminfo, and no more than what the limits of
 * the control group leave. SIZE_MAX where the system does not say. */
size_t memory_free_bytes(void);

/* The second part alone: the least that the process's group and the groups around it leave (v1 and v2), cached files not
 * counted as used. Read from the files below `root` (tests give a folder of their own; "" is the system). SIZE_MAX: no limit.
 */
size_t memory_group_free(const char *root);

/* Memory of this process that lies in RAM now, and the most that ever did. 0: unknown. */
size_t memory_resident_bytes(void);
size_t memory_peak_bytes(void);
void memory_peak_reset(void); /* the peak counts from now on, where the system allows it */

#endif
