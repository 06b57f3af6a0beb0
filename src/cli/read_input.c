/* read_input.c: whole files and pipes into memory. */
#include "cli/read_input.h"

#include <errno.h>
#include <string.h>

#include "cli/interrupt.h"

enum mr_status read_stream(struct string_buffer *out, FILE *stream, const char *name, struct mr_error *err)
{
    char piece[65536];
    size_t n;
    while ((n = fread(piece, 1, sizeof piece, stream)) > 0) {
        if (out->n + n > READ_INPUT_MAX)
            return mr_fail(err, MR_BAD_INPUT, "%s: larger than %d bytes", name, READ_INPUT_MAX);
        string_buffer_add(out, piece, n);
        if (out->failed)
            return mr_fail(err, MR_NO_MEMORY, "%s: no memory to read it", name);
    }
    if (!ferror(stream))
        return MR_OK;
    return interrupt_seen() ? mr_fail(err, MR_CANCELLED, "interrupted") : mr_fail(err, MR_IO, "%s: %s", name, strerror(errno));
}

enum mr_status read_file(struct string_buffer *out, const char *path, struct mr_error *err)
{
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        return mr_fail(err, errno == ENOENT ? MR_NOT_FOUND : MR_IO, "%s: %s", path, strerror(errno));
    const enum mr_status status = read_stream(out, stream, path, err);
    fclose(stream);
    return status;
}

enum mr_status read_input(struct string_buffer *out, const char *path, struct mr_error *err)
{
    return strcmp(path, "-") == 0 ? read_stream(out, stdin, "standard input", err) : read_file(out, path, err);
}
