/* text_file.c: reads a small file whole. */
#include "server/text_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static enum mr_status read_all(struct string_buffer *out, FILE *f, const char *path, size_t max, struct mr_error *err)
{
    char piece[4096];
    size_t n, total = 0;
    while ((n = fread(piece, 1, sizeof piece, f)) > 0) {
        total += n;
        if (total > max)
            return mr_fail(err, MR_BAD_FORMAT, "'%s' has more than %zu bytes", path, max);
        if (memchr(piece, 0, n) != NULL)
            return mr_fail(err, MR_BAD_FORMAT, "'%s' holds a NUL byte: it is no text", path);
        string_buffer_add(out, piece, n);
    }
    if (ferror(f))
        return mr_fail(err, MR_IO, "cannot read '%s': %s", path, strerror(errno));
    string_buffer_puts(out, "");
    return out->failed ? mr_fail(err, MR_NO_MEMORY, "no memory for '%s'", path) : MR_OK;
}

enum mr_status text_file_read(struct string_buffer *out, const char *path, size_t max, struct mr_error *err)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return mr_fail(err, errno == ENOENT ? MR_NOT_FOUND : MR_IO, "cannot open '%s': %s", path, strerror(errno));
    const enum mr_status status = read_all(out, f, path, max, err);
    fclose(f);
    return status;
}
