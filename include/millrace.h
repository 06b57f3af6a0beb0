/* millrace.h: the public C API of the inference engine.
 * Includes nothing of ours, so that a program needs only this file and the library. */
#ifndef MILLRACE_H
#define MILLRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MR_STATUS_MAP(X)                                                                                                       \
    X(OK, "success")                                                                                                           \
    X(NO_MEMORY, "allocation failed")                                                                                          \
    X(BAD_FORMAT, "file is damaged or not of this format")                                                                     \
    X(NO_SUPPORT, "valid, but this build cannot run it")                                                                       \
    X(BAD_INPUT, "a parameter or an input text is wrong")                                                                      \
    X(NOT_FOUND, "no such file, key or tensor")                                                                                \
    X(IO, "reading or writing failed")                                                                                         \
    X(FULL, "no room now; retry after something is freed")                                                                     \
    X(CANCELLED, "stopped on request")

enum mr_status {
#define X(name, text) MR_##name,
    MR_STATUS_MAP(X)
#undef X
};

enum {
    MR_ERROR_MAX = 512
};

/* What went wrong, for a person: lower case, no full stop, the problem first, naming the key,
 * tensor, field or parameter. Every function that takes one accepts NULL. */
struct mr_error {
    char message[MR_ERROR_MAX];
};

/* The general meaning of a status; never NULL. */
const char *mr_status_text(enum mr_status status);

#ifdef __cplusplus
}
#endif
#endif
