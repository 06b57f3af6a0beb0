/* gguf_stamp.c: the files behind a model as such. */
#include <sys/stat.h>

#include "format/gguf_internal.h"

enum {
    NS_PER_S = 1000000000
};

bool gguf_stamp(const struct gguf *g, int i, struct gguf_stamp *out)
{
    struct stat st;
    if (g->part[i].fd < 0 || fstat(g->part[i].fd, &st) != 0)
        return false;
    *out = (struct gguf_stamp){.device = st.st_dev,
                               .inode = st.st_ino,
                               .bytes = (uint64_t)st.st_size,
                               .modified_ns = (int64_t)st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec,
                               .changed_ns = (int64_t)st.st_ctim.tv_sec * NS_PER_S + st.st_ctim.tv_nsec};
    return true;
}

enum mr_status gguf_read_file(const struct gguf *g, int i, uint64_t offset, void *out, size_t n, struct mr_error *err)
{
    return gguf_read_at(g->part[i].fd, out, n, offset, err);
}
