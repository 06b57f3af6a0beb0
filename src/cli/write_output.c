/* write_output.c: beside the target first, then renamed. */
#include "cli/write_output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool write_all(const char *path, const struct string_buffer *text)
{
    FILE *f = fopen(path, "w");
    if (f == NULL)
        return false;
    bool ok = fwrite(text->s, 1, text->n, f) == text->n;
    ok = fflush(f) == 0 && ok;
    ok = fsync(fileno(f)) == 0 && ok;
    return fclose(f) == 0 && ok;
}

enum mr_status write_output(const char *path, const struct string_buffer *text, struct mr_error *err)
{
    struct string_buffer partial;
    enum mr_status status = MR_OK;
    if (text->failed)
        return mr_fail(err, MR_NO_MEMORY, "no memory for '%s'", path);
    string_buffer_init(&partial);
    string_buffer_printf(&partial, "%s.%ld.partial", path, (long)getpid());
    if (partial.failed) {
        status = mr_fail(err, MR_NO_MEMORY, "no memory for '%s'", path);
    } else if (!write_all(partial.s, text) || rename(partial.s, path) != 0) {
        status = mr_fail(err, MR_IO, "cannot write '%s': %s", path, strerror(errno));
        unlink(partial.s);
    }
    string_buffer_release(&partial);
    return status;
}
