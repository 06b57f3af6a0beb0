/* shared_weights.h: a model's packed weights in a file without a name, for all processes that get its descriptor to map: they
 * are in memory once. */
#ifndef SERVER_SHARED_WEIGHTS_H
#define SERVER_SHARED_WEIGHTS_H

#include "base/status.h"

/* *fd: of the file, read only; -1 on failure. It is made in memory where there is room (/dev/shm), else in $TMPDIR or /tmp. */
enum mr_status shared_weights_make(int *fd, const struct mr_model *model,
                                   bool (*progress)(void *context, size_t done, size_t total), void *context,
                                   struct mr_error *err);

#endif
