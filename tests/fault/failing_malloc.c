/* failing_malloc.c: allocations that fail on demand. */
#include "fault/failing_malloc.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
int __real_posix_memalign(void **out, size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
int __wrap_posix_memalign(void **out, size_t align, size_t n);

static atomic_bool armed, sticky, fired;
static atomic_long countdown;

static bool fails(void)
{
    if (!armed)
        return false;
    const long before = atomic_fetch_sub(&countdown, 1);
    if (before > 0 || (before < 0 && !sticky))
        return false;
    fired = true;
    return true;
}

void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }

void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }

void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : __real_realloc(p, n); }

int __wrap_posix_memalign(void **out, size_t align, size_t n)
{
    return fails() ? ENOMEM : __real_posix_memalign(out, align, n);
}

void failing_malloc_arm(long n, bool all)
{
    fired = false;
    countdown = n;
    sticky = all;
    armed = true;
}

bool failing_malloc_disarm(void)
{
    armed = false;
    return fired;
}

/* Whether the n-th allocation of the run was there to fail. */
static bool check_allocation(enum mr_status (*attempt)(void *context), void *context, long n, bool all)
{
    failing_malloc_arm(n, all);
    const enum mr_status status = attempt(context);
    const bool failed = failing_malloc_disarm();
    if (status != MR_OK && (!failed || status != MR_NO_MEMORY))
        fail_msg("allocation %ld%s: status %d (%s)", n, all ? " and all that follow" : "", (int)status, mr_status_text(status));
    return failed;
}

long check_every_allocation(enum mr_status (*attempt)(void *context), void *context)
{
    long n = 0;
    while (check_allocation(attempt, context, n, false)) {
        check_allocation(attempt, context, n, true);
        n++;
    }
    return n;
}
