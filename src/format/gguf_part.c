/* gguf_part.c: opens one file: reads and parses its header, and maps it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/file_kind.h"
#include "format/gguf_internal.h"

enum {
    FIRST_READ = 1 << 20,    /* bytes; most headers are larger than 64 KB and smaller than 16 MB */
    LARGEST_HEADER = 1 << 30 /* bytes */
};

enum mr_status gguf_read_at(int fd, void *out, size_t n, uint64_t offset, struct mr_error *err)
{
    char *p = out;
    while (n > 0) {
        const ssize_t got = pread(fd, p, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return mr_fail(err, MR_IO, "reading failed: %s", strerror(errno));
        if (got == 0)
            return mr_fail(err, MR_IO, "the file became shorter while it was read: it ends before byte %llu",
                           (unsigned long long)offset + n);
        p += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return MR_OK;
}

enum mr_status gguf_check_magic(const unsigned char *bytes, size_t n, struct mr_error *err)
{
    if (n >= 4 && memcmp(bytes, "GGUF", 4) == 0)
        return MR_OK;
    return mr_fail(err, MR_BAD_FORMAT, "not a GGUF file but %s", file_kind(bytes, n));
}

/* Read the first n bytes of the file and parse. FULL: n is too small. */
static enum mr_status read_header(struct gguf_part *part, struct gguf_header *h, size_t n, struct mr_error *err)
{
    unsigned char *grown = realloc(part->header, n > 0 ? n : 1);
    if (grown == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for %zu bytes of metadata", n);
    part->header = grown;
    MR_TRY(gguf_read_at(part->fd, part->header, n, 0, err));
    MR_TRY(gguf_check_magic(part->header, n, err));
    return gguf_header_parse(h, part->header, n, part->bytes, err);
}

/* Read more of the file until the header is complete, then keep no more than that. */
static enum mr_status load_header(struct gguf_part *part, struct gguf_header *h, struct mr_error *err)
{
    size_t n = FIRST_READ < part->bytes ? FIRST_READ : part->bytes;
    enum mr_status status;
    while ((status = read_header(part, h, n, err)) == MR_FULL) {
        if (n >= LARGEST_HEADER)
            return mr_fail(err, MR_NO_SUPPORT, "more than %d bytes of metadata", LARGEST_HEADER);
        n = part->bytes / 4 > n ? 4 * n : part->bytes;
        n = n < LARGEST_HEADER ? n : LARGEST_HEADER;
    }
    if (status != MR_OK || h->bytes == n)
        return status;
    const size_t bytes = h->bytes;
    gguf_header_release(h);
    status = read_header(part, h, bytes, err);
    return status == MR_FULL ? mr_fail(err, MR_IO, "the file changed while it was read") : status;
}

static enum mr_status open_file(struct gguf_part *part, const char *path, struct mr_error *err)
{
    struct stat st;
    part->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer must not hold us */
    if (part->fd < 0)
        return mr_fail(err, errno == ENOENT ? MR_NOT_FOUND : MR_IO, "%s", errno == ENOENT ? "no such file" : strerror(errno));
    if (fstat(part->fd, &st) != 0)
        return mr_fail(err, MR_IO, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return mr_fail(err, MR_BAD_FORMAT, "%s", S_ISDIR(st.st_mode) ? "a directory, not a file" : "not a regular file");
    if ((uint64_t)st.st_size > SIZE_MAX / 2)
        return mr_fail(err, MR_NO_SUPPORT, "too large for this machine");
    part->bytes = (size_t)st.st_size;
    return MR_OK;
}

enum mr_status gguf_part_open(struct gguf_part *part, struct gguf_header *h, const char *path, struct mr_error *err)
{
    enum mr_status status = open_file(part, path, err);
    if (status == MR_OK)
        status = load_header(part, h, err);
    if (status == MR_OK && h->n_tensor > 0) {
        void *map = mmap(NULL, part->bytes, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, part->fd, 0);
        if (map == MAP_FAILED)
            status = mr_fail(err, errno == ENOMEM ? MR_NO_MEMORY : MR_IO, "cannot map: %s", strerror(errno));
        else
            part->map = map;
    }
    return status;
}

void gguf_part_close(struct gguf_part *part)
{
    if (part->fd < 0)
        return;
    if (part->map != NULL)
        munmap((void *)(uintptr_t)part->map, part->bytes);
    close(part->fd);
    free(part->header);
}
