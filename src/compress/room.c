/* room.c: asks the file system. */
#include "compress/room.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/memory.h"

enum mr_status room_check(const char *path, uint64_t bytes, struct mr_error *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash != NULL ? mem_string(path, (size_t)(slash - path) + 1) : mem_string(".", 1);
    struct statvfs fs;
    const bool is_known = folder != NULL && statvfs(folder, &fs) == 0;
    free(folder);
    if (is_known && (uint64_t)fs.f_bavail * fs.f_frsize < bytes)
        return mr_fail(err, MR_FULL, "'%s' takes %llu MB, the disk has %llu MB left", path,
                       (unsigned long long)(bytes / 1000000),
                       (unsigned long long)((uint64_t)fs.f_bavail * fs.f_frsize / 1000000));
    return MR_OK;
}
