/* page_faults.c: getrusage. */
#include "base/page_faults.h"

#include <sys/resource.h>

int64_t page_faults_major(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_majflt : 0;
}
