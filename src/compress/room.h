/* room.h: whether the disk has room for an output, told before the work begins. */
#ifndef COMPRESS_ROOM_H
#define COMPRESS_ROOM_H

#include <stdint.h>

#include "base/status.h"

/* FULL: the file system of `path` has fewer bytes left; OK also where the system cannot tell. */
enum mr_status room_check(const char *path, uint64_t bytes, struct mr_error *err);

#endif
