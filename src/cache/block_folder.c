/* block_folder.c: files of blocks, by the system's calls. */
#include "cache/block_folder.h"

#include <dirent.h>
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
    DIGITS = 64,
    FILE_NAME_MAX = 80,
    NS_PER_S = 1000000000
};

static const char unfinished[] = "unfinished";

struct block_folder {
    int fd;      /* the folder */
    int lock_fd; /* holds the lock as long as it is open */
};

static void file_name(char out[FILE_NAME_MAX], const struct block_name *name)
{
    for (int i = 0; i < DIGITS / 2; i++)
        snprintf(out + 2 * i, 3, "%02x", name->byte[i]);
    snprintf(out + DIGITS, FILE_NAME_MAX - DIGITS, "-%u", name->group);
}

static int hex_value(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* false: not the name of a record. */
static bool parse_name(struct block_name *out, const char *s)
{
    if (strlen(s) != DIGITS + 2 || s[DIGITS] != '-' || s[DIGITS + 1] < '0' || s[DIGITS + 1] >= '0' + KV_MAX_GROUPS)
        return false;
    for (int i = 0; i < DIGITS; i += 2) {
        const int high = hex_value(s[i]), low = hex_value(s[i + 1]);
        if (high < 0 || low < 0)
            return false;
        out->byte[i / 2] = (uint8_t)(high * 16 + low);
    }
    out->group = (uint32_t)(s[DIGITS + 1] - '0');
    return true;
}

enum mr_status block_folder_open(struct block_folder **out, const char *path, struct mr_error *err)
{
    *out = NULL;
    struct block_folder *f = mem_zero_array(1, sizeof *f);
    if (f == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the folder of cached blocks");
    f->fd = f->lock_fd = -1;
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        f->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->fd >= 0)
        f->lock_fd = openat(f->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    enum mr_status status = MR_OK;
    if (f->lock_fd < 0)
        status = mr_fail(err, MR_IO, "cannot use the folder of cached blocks '%s': %s", path, strerror(errno));
    else if (flock(f->lock_fd, LOCK_EX | LOCK_NB) != 0)
        status = mr_fail(err, MR_FULL, "another process uses the folder of cached blocks '%s'", path);
    if (status != MR_OK)
        block_folder_close(f);
    else
        *out = f;
    return status;
}

void block_folder_close(struct block_folder *f)
{
    if (f == NULL)
        return;
    if (f->lock_fd >= 0)
        close(f->lock_fd);
    if (f->fd >= 0)
        close(f->fd);
    free(f);
}

enum mr_status block_folder_list(struct block_folder *f,
                                 bool (*found)(void *context, const struct block_name *name, size_t bytes, int64_t used_ns),
                                 void *context, struct mr_error *err)
{
    unlinkat(f->fd, unfinished, 0);
    const int fd = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (d == NULL) {
        const enum mr_status status = mr_fail(err, MR_IO, "cannot list the folder of cached blocks: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return status;
    }
    bool go_on = true;
    for (struct dirent *entry; go_on && (entry = readdir(d)) != NULL;) {
        struct block_name name;
        struct stat st;
        if (!parse_name(&name, entry->d_name) || fstatat(f->fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode))
            continue;
        go_on = found(context, &name, (size_t)st.st_size, (int64_t)st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec);
    }
    closedir(d);
    return MR_OK;
}

static bool write_all(int fd, const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t written = write(fd, bytes, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        bytes += written;
        n -= (size_t)written;
    }
    return true;
}

static enum mr_status write_file(struct block_folder *f, const char *name, const void *bytes, size_t n, struct mr_error *err)
{
    const int fd = openat(f->fd, unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && write_all(fd, bytes, n);
    const int failure = errno;
    ok = (fd < 0 || close(fd) == 0) && ok;
    if (ok && renameat(f->fd, unfinished, f->fd, name) == 0)
        return MR_OK;
    const char *reason = strerror(ok ? errno : failure);
    unlinkat(f->fd, unfinished, 0);
    return mr_fail(err, MR_IO, "cannot write a cached block: %s", reason);
}

enum mr_status block_folder_write(struct block_folder *f, const struct block_name *name, const uint8_t *record, size_t n,
                                  struct mr_error *err)
{
    char file[FILE_NAME_MAX];
    file_name(file, name);
    return write_file(f, file, record, n, err);
}

/* Up to n bytes and not more; *more: there are. */
static size_t read_up_to(int fd, uint8_t *bytes, size_t n, bool *more)
{
    size_t done = 0;
    uint8_t behind;
    *more = false;
    while (done <= n) {
        const ssize_t got = done < n ? read(fd, bytes + done, n - done) : read(fd, &behind, 1);
        if (got < 0 && errno == EINTR)
            continue;
        *more = done == n && got > 0;
        if (got <= 0 || *more)
            break;
        done += (size_t)got;
    }
    return done;
}

enum mr_status block_folder_read(struct block_folder *f, const struct block_name *name, uint8_t *record, size_t n_bytes,
                                 struct mr_error *err)
{
    char file[FILE_NAME_MAX];
    file_name(file, name);
    const int fd = openat(f->fd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return mr_fail(err, MR_IO, "cannot read a cached block: %s", strerror(errno));
    bool more;
    const size_t n = read_up_to(fd, record, BLOCK_RECORD_HEADER + n_bytes, &more);
    futimens(fd, NULL); /* where it fails the file counts as older than it is */
    close(fd);
    return block_record_check(record, n + more, name, n_bytes, err);
}

void block_folder_remove(struct block_folder *f, const struct block_name *name)
{
    char file[FILE_NAME_MAX];
    file_name(file, name);
    unlinkat(f->fd, file, 0);
}

enum mr_status block_folder_put_note(struct block_folder *f, const char *name, const void *bytes, size_t n,
                                     struct mr_error *err)
{
    return write_file(f, name, bytes, n, err);
}

bool block_folder_get_note(struct block_folder *f, const char *name, void *bytes, size_t n)
{
    const int fd = openat(f->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool more;
    const bool ok = read_up_to(fd, bytes, n, &more) == n && !more;
    close(fd);
    return ok;
}
