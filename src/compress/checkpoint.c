/* checkpoint.c: one file, one checksum. */
#include "compress/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "compress/text_windows.h"

enum {
    MAX_POINTS = 1 << 20,
    PIECE = 8 << 20 /* bytes read or written at a time; a multiple of 8 */
};

struct head {
    char magic[8];
    uint64_t recipe;
    int64_t step;
    uint64_t n_array, n_point;
};

static enum mr_status fail_file(const char *what, const char *path, struct mr_error *err)
{
    return mr_fail(err, MR_IO, "cannot %s '%s': %s", what, path, strerror(errno != 0 ? errno : EIO));
}

static bool write_part(int fd, uint64_t *sum, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n > 0) {
        const size_t some = n < PIECE ? n : PIECE;
        *sum = digest_bytes(*sum, p, some);
        for (size_t done = 0; done < some;) {
            const ssize_t k = write(fd, p + done, some - done);
            if (k < 0 && errno != EINTR)
                return false;
            done += k > 0 ? (size_t)k : 0;
        }
        p += some;
        n -= some;
    }
    return true;
}

static bool write_all(int fd, const struct train_state *s)
{
    struct head head = {.recipe = s->recipe, .step = s->step, .n_array = s->n_array, .n_point = s->curve.n};
    uint64_t sum = 0, ignored = 0;
    memcpy(head.magic, "MRTRAIN2", sizeof head.magic);
    bool ok =
        write_part(fd, &sum, &head, sizeof head) && write_part(fd, &sum, s->curve.point, s->curve.n * sizeof *s->curve.point);
    for (int i = 0; i < 3; i++)
        ok = ok && write_part(fd, &sum, s->array[i], s->n_array * sizeof(float));
    return ok && write_part(fd, &ignored, &sum, sizeof sum) && fsync(fd) == 0;
}

/* The entry of the file in its folder must reach the disk, too. */
static void flush_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? mem_string(".", 1) : mem_string(path, (size_t)(slash - path) + 1);
    const int fd = folder != NULL ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(folder);
}

enum mr_status checkpoint_write(const struct train_state *s, const char *path, struct mr_error *err)
{
    const size_t n = strlen(path) + sizeof ".partial";
    char *partial = mem_array(n, 1);
    if (partial == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a file name");
    snprintf(partial, n, "%s.partial", path);
    const int fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool ok = fd >= 0 && write_all(fd, s);
    enum mr_status status = ok ? MR_OK : fail_file("write", partial, err);
    if (fd >= 0 && close(fd) != 0 && ok)
        status = fail_file("write", partial, err);
    if (status == MR_OK && rename(partial, path) != 0)
        status = fail_file("rename a file to", path, err);
    if (status == MR_OK)
        flush_folder(path);
    else if (fd >= 0)
        unlink(partial);
    free(partial);
    return status;
}

static bool read_part(FILE *f, uint64_t *sum, void *bytes, size_t n)
{
    char *p = bytes;
    while (n > 0) {
        const size_t some = n < PIECE ? n : PIECE;
        if (fread(p, 1, some, f) != some)
            return false;
        *sum = digest_bytes(*sum, p, some);
        p += some;
        n -= some;
    }
    return true;
}

static enum mr_status read_rest(struct train_state *s, FILE *f, const struct head *head, uint64_t sum, const char *path,
                                struct mr_error *err)
{
    struct curve curve = {0};
    uint64_t stored;
    if (!mem_grow(&curve.point, &curve.capacity, head->n_point + 1, sizeof *curve.point))
        return mr_fail(err, MR_NO_MEMORY, "no memory for the curve of '%s'", path);
    curve.n = head->n_point;
    bool ok = read_part(f, &sum, curve.point, curve.n * sizeof *curve.point);
    for (int i = 0; i < 3; i++)
        ok = ok && read_part(f, &sum, s->array[i], s->n_array * sizeof(float));
    if (!ok || fread(&stored, sizeof stored, 1, f) != 1 || stored != sum || fgetc(f) != EOF) {
        free(curve.point);
        return mr_fail(err, MR_BAD_FORMAT, "'%s' is damaged; remove it to begin again", path);
    }
    free(s->curve.point);
    s->curve = curve;
    s->step = head->step;
    return MR_OK;
}

static enum mr_status read_file(struct train_state *s, FILE *f, const char *path, struct mr_error *err)
{
    struct head head;
    uint64_t sum = 0;
    if (!read_part(f, &sum, &head, sizeof head) || memcmp(head.magic, "MRTRAIN2", sizeof head.magic) != 0 ||
        head.n_point > MAX_POINTS || head.step < 0)
        return mr_fail(err, MR_BAD_FORMAT, "'%s' is no checkpoint", path);
    if (head.recipe != s->recipe || head.n_array != s->n_array)
        return mr_fail(err, MR_BAD_INPUT, "'%s' is of another run: model, teacher, text or options differ", path);
    return read_rest(s, f, &head, sum, path, err);
}

enum mr_status checkpoint_read(struct train_state *s, const char *path, bool *found, struct mr_error *err)
{
    errno = 0;
    FILE *f = fopen(path, "rbe");
    *found = f != NULL;
    if (f == NULL)
        return errno == ENOENT ? MR_OK : fail_file("open", path, err);
    const enum mr_status status = read_file(s, f, path, err);
    fclose(f);
    return status;
}
