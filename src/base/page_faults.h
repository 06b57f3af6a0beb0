/* page_faults.h: pages that the process had to wait for. */
#ifndef BASE_PAGE_FAULTS_H
#define BASE_PAGE_FAULTS_H

#include <stdint.h>

/* Page faults of all threads so far that read from a disk; 0 where the system does not tell. */
int64_t page_faults_major(void);

#endif
