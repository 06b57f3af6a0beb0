/* status.h: how our functions fail.
 * What can fail returns enum mr_status; results leave through `out`, set to NULL on failure; the reason
 * leaves through a struct mr_error, which may be NULL. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <stdarg.h>

#include "millrace.h"

/* Hand a failure up. */
#define MR_TRY(call)                                                                                                           \
    do {                                                                                                                       \
        const enum mr_status try_status = (call);                                                                              \
        if (try_status != MR_OK)                                                                                               \
            return try_status;                                                                                                 \
    } while (0)

#if defined(__GNUC__)
#define MR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define MR_PRINTF(fmt, args)
#endif

/* Write the message and return status: `return mr_fail(err, MR_BAD_FORMAT, "key '%s' ...", key);`
 * A message too long is cut at a character border; bytes that are not printable or not UTF-8 become '?',
 * so that a hostile name in a file cannot reach a terminal or break JSON. */
enum mr_status mr_fail(struct mr_error *err, enum mr_status status, const char *fmt, ...) MR_PRINTF(3, 4);
enum mr_status mr_fail_va(struct mr_error *err, enum mr_status status, const char *fmt, va_list args) MR_PRINTF(3, 0);

/* Put a prefix such as a file's name in front of the message. Returns status. */
enum mr_status mr_fail_in(struct mr_error *err, enum mr_status status, const char *fmt, ...) MR_PRINTF(3, 4);

#endif
