/* failing_malloc.h: allocations that fail on demand. malloc, calloc, realloc and posix_memalign of the program (not of
 * shared libraries) go through here at link time. Leaks show in the address sanitizer's run. */
#ifndef TESTS_FAILING_MALLOC_H
#define TESTS_FAILING_MALLOC_H

#include <stdbool.h>

#include "base/status.h"

/* Let n more allocations succeed, then fail one, or all that follow. */
void failing_malloc_arm(long n, bool all);

/* No allocation fails any more. Returns whether one did. */
bool failing_malloc_disarm(void);

/* Run the attempt with its first, second, ... allocation failing, alone and with all that follow, until a run has no more
 * allocations to fail. A run in which one failed must return NO_MEMORY, or OK where it could do without; the last run
 * must return OK. Returns how many allocations a run makes. */
long check_every_allocation(enum mr_status (*attempt)(void *context), void *context);

#endif
