/* durable_file.c: write, fsync, rename, fsync of the folder. */
#include "server/batch/durable_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

enum {
    FLUSH_BYTES = 1 << 18
};

static enum mr_status fail_io(struct mr_error *err, const char *what, const char *path)
{
    return mr_fail(err, errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? MR_FULL : MR_IO, "cannot %s '%s': %s", what,
                   path, strerror(errno));
}

static enum mr_status flush(struct durable_file *f, struct mr_error *err)
{
    size_t at = 0;
    while (at < f->buffer.n) {
        const ssize_t n = write(f->fd, f->buffer.s + at, f->buffer.n - at);
        if (n < 0 && errno != EINTR)
            return fail_io(err, "write", f->part);
        at += n > 0 ? (size_t)n : 0;
    }
    string_buffer_clear(&f->buffer);
    return MR_OK;
}

enum mr_status durable_file_open(struct durable_file *f, const char *path, struct mr_error *err)
{
    static const char suffix[] = ".part";
    const size_t n = strlen(path);
    *f = (struct durable_file){.fd = -1};
    string_buffer_init(&f->buffer);
    f->path = mem_string(path, n);
    f->part = mem_array(n + sizeof suffix, 1);
    if (f->path == NULL || f->part == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for '%s'", path);
    memcpy(f->part, path, n);
    memcpy(f->part + n, suffix, sizeof suffix);
    f->fd = open(f->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return f->fd >= 0 ? MR_OK : fail_io(err, "open", f->part);
}

enum mr_status durable_file_add(struct durable_file *f, const char *bytes, size_t n, struct mr_error *err)
{
    string_buffer_add(&f->buffer, bytes, n);
    if (f->buffer.failed)
        return mr_fail(err, MR_NO_MEMORY, "no memory for '%s'", f->path);
    return f->buffer.n < FLUSH_BYTES ? MR_OK : flush(f, err);
}

enum mr_status durable_file_commit(struct durable_file *f, struct mr_error *err)
{
    MR_TRY(flush(f, err));
    if (fsync(f->fd) != 0)
        return fail_io(err, "write", f->part);
    if (rename(f->part, f->path) != 0)
        return fail_io(err, "rename", f->part);
    free(f->part);
    f->part = NULL;
    return durable_folder_sync(f->path, err);
}

void durable_file_discard(struct durable_file *f)
{
    if (f->fd >= 0) {
        close(f->fd);
        if (f->part != NULL)
            unlink(f->part);
    }
    free(f->path);
    free(f->part);
    string_buffer_release(&f->buffer);
    *f = (struct durable_file){.fd = -1};
}

enum mr_status durable_folder_sync(const char *path, struct mr_error *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL   ? mem_string(".", 1)
                   : slash == path ? mem_string("/", 1)
                                   : mem_string(path, (size_t)(slash - path));
    if (folder == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for '%s'", path);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum mr_status status = MR_OK;
    if (fd < 0 || fsync(fd) != 0)
        status = fail_io(err, "write", folder);
    if (fd >= 0)
        close(fd);
    free(folder);
    return status;
}

enum mr_status durable_folder_lock(int *fd, const char *folder, struct mr_error *err)
{
    struct string_buffer path;
    enum mr_status status = MR_OK;
    *fd = -1;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return fail_io(err, "make", folder);
    string_buffer_init(&path);
    string_buffer_printf(&path, "%s/lock", folder);
    if (path.failed) {
        status = mr_fail(err, MR_NO_MEMORY, "no memory for '%s'", folder);
    } else if ((*fd = open(path.s, O_RDWR | O_CREAT | O_CLOEXEC, 0666)) < 0) {
        status = fail_io(err, "open", path.s);
    } else if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
        status = errno == EWOULDBLOCK ? mr_fail(err, MR_BUSY, "'%s' is in use by another process", folder)
                                      : fail_io(err, "lock", path.s);
        close(*fd);
        *fd = -1;
    }
    string_buffer_release(&path);
    return status == MR_OK ? durable_folder_sync(folder, err) : status;
}
