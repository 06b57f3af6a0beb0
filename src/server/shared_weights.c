/* shared_weights.c: the model is packed into a folder of its own, which is removed once the file is open. */
#include "server/shared_weights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PATH_BYTES = 4096
};

static enum mr_status make_in(int *fd, const char *folder, const struct mr_model *model,
                              bool (*progress)(void *context, size_t done, size_t total), void *context, struct mr_error *err)
{
    char own[PATH_BYTES], path[PATH_BYTES + 16];
    if (snprintf(own, sizeof own, "%s/millrace-XXXXXX", folder) >= (int)sizeof own || mkdtemp(own) == NULL)
        return mr_fail(err, MR_IO, "no folder in '%s': %s", folder, strerror(errno));
    snprintf(path, sizeof path, "%s/weights", own);
    enum mr_status status = mr_model_pack(model, path, progress, context, err);
    if (status == MR_OK && (*fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        status = mr_fail(err, MR_IO, "cannot open '%s': %s", path, strerror(errno));
    unlink(path);
    rmdir(own);
    return status;
}

enum mr_status shared_weights_make(int *fd, const struct mr_model *model,
                                   bool (*progress)(void *context, size_t done, size_t total), void *context,
                                   struct mr_error *err)
{
    const char *given = getenv("TMPDIR");
    const char *const folder[] = {"/dev/shm", given != NULL && *given != '\0' ? given : "/tmp"};
    enum mr_status status = MR_OK;
    *fd = -1;
    for (size_t i = 0; i < sizeof folder / sizeof *folder; i++) {
        status = make_in(fd, folder[i], model, progress, context, err);
        if (status != MR_IO)
            break;
    }
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "warm_pool: weights to share");
}
