/* gguf.c: opens the files of a model, and looks up keys and tensors. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "format/file_kind.h"
#include "format/gguf_internal.h"

enum {
    FIRST_READ = 1 << 20,    /* bytes; most headers are larger than 64 KB and smaller than 16 MB */
    LARGEST_HEADER = 1 << 30 /* bytes */
};

/* Read exactly n bytes. */
static enum mr_status read_at(int fd, void *out, size_t n, uint64_t offset, struct mr_error *err)
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

static enum mr_status check_magic(const unsigned char *bytes, size_t n, struct mr_error *err)
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
    MR_TRY(read_at(part->fd, part->header, n, 0, err));
    MR_TRY(check_magic(part->header, n, err));
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
    part->fd = open(path, O_RDONLY | O_CLOEXEC);
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

static enum mr_status open_part(struct gguf_part *part, struct gguf_header *h, const char *path, struct mr_error *err)
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
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "'%s'", path);
}

static int compare_entries(const void *a, const void *b)
{
    return gguf_string_compare((*(const struct gguf_entry *const *)a)->value.key,
                               (*(const struct gguf_entry *const *)b)->value.key);
}

static int compare_tensors(const void *a, const void *b)
{
    return gguf_string_compare((*(const struct gguf_tensor *const *)a)->name, (*(const struct gguf_tensor *const *)b)->name);
}

/* Sort for the look-ups; equal neighbours are duplicates. */
static enum mr_status index_names(struct gguf *g, struct mr_error *err)
{
    const size_t n_entry = g->header.n_entry, n_tensor = g->header.n_tensor;
    g->entry_order = mem_array(n_entry, sizeof *g->entry_order);
    g->tensor_order = mem_array(n_tensor, sizeof *g->tensor_order);
    if (g->entry_order == NULL || g->tensor_order == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for an index of %zu keys and %zu tensors", n_entry, n_tensor);
    for (size_t i = 0; i < n_entry; i++)
        g->entry_order[i] = &g->header.entry[i];
    for (size_t i = 0; i < n_tensor; i++)
        g->tensor_order[i] = &g->header.tensor[i];
    qsort(g->entry_order, n_entry, sizeof *g->entry_order, compare_entries);
    qsort(g->tensor_order, n_tensor, sizeof *g->tensor_order, compare_tensors);
    for (size_t i = 1; i < n_entry; i++) {
        const struct gguf_string key = g->entry_order[i]->value.key;
        if (compare_entries(&g->entry_order[i - 1], &g->entry_order[i]) == 0)
            return mr_fail(err, MR_BAD_FORMAT, "key '%.*s' stands twice", key.n < 128 ? (int)key.n : 128, key.s);
    }
    for (size_t i = 1; i < n_tensor; i++) {
        const struct gguf_string name = g->tensor_order[i]->name;
        if (compare_tensors(&g->tensor_order[i - 1], &g->tensor_order[i]) == 0)
            return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s' stands twice", (int)name.n, name.s);
    }
    return MR_OK;
}

static void attach_data(struct gguf *g)
{
    for (size_t i = 0; i < g->header.n_tensor; i++) {
        struct gguf_tensor *t = &g->header.tensor[i];
        t->data = g->part[t->split].map + t->file_offset;
    }
}

static struct gguf *create(int n_part, struct mr_error *err)
{
    struct gguf *g = mem_zero_array(1, sizeof *g);
    struct gguf_part *part = mem_zero_array((size_t)n_part, sizeof *part);
    if (g == NULL || part == NULL) {
        free(g);
        free(part);
        mr_fail(err, MR_NO_MEMORY, "no memory to open a file");
        return NULL;
    }
    for (int i = 0; i < n_part; i++)
        part[i].fd = -1;
    g->part = part;
    g->n_part = n_part;
    return g;
}

enum mr_status gguf_open(struct gguf **out, const char *path, struct mr_error *err)
{
    struct gguf *g = create(1, err);
    *out = NULL;
    if (g == NULL)
        return MR_NO_MEMORY;
    enum mr_status status = open_part(&g->part[0], &g->header, path, err);
    if (status == MR_OK)
        status = index_names(g, err);
    if (status != MR_OK) {
        gguf_close(g);
        return status;
    }
    attach_data(g);
    *out = g;
    return MR_OK;
}

enum mr_status gguf_open_memory(struct gguf **out, const void *bytes, size_t n, struct mr_error *err)
{
    struct gguf *g = create(1, err);
    *out = NULL;
    if (g == NULL)
        return MR_NO_MEMORY;
    g->part[0].map = bytes;
    g->part[0].bytes = n;
    enum mr_status status = check_magic(bytes, n, err);
    if (status == MR_OK)
        status = gguf_header_parse(&g->header, bytes, n, n, err);
    if (status == MR_OK)
        status = index_names(g, err);
    if (status != MR_OK) {
        gguf_close(g);
        return status;
    }
    attach_data(g);
    *out = g;
    return MR_OK;
}

void gguf_close(struct gguf *g)
{
    if (g == NULL)
        return;
    for (int i = 0; i < g->n_part; i++) {
        struct gguf_part *part = &g->part[i];
        if (part->fd < 0)
            continue;
        if (part->map != NULL)
            munmap((void *)(uintptr_t)part->map, part->bytes);
        close(part->fd);
        free(part->header);
    }
    gguf_header_release(&g->header);
    free(g->part);
    free(g->entry_order);
    free(g->tensor_order);
    free(g);
}

uint32_t gguf_version(const struct gguf *g) { return g->header.version; }

int gguf_n_splits(const struct gguf *g) { return g->n_part; }

uint64_t gguf_file_bytes(const struct gguf *g)
{
    uint64_t bytes = 0;
    for (int i = 0; i < g->n_part; i++)
        bytes += g->part[i].bytes;
    return bytes;
}

void gguf_drop_pages(const struct gguf *g, const struct gguf_tensor *t)
{
    const struct gguf_part *part = &g->part[t->split];
    if (part->fd < 0)
        return;
    /* Pages shared with a neighbour go too: they come back from the file when it is read. */
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t start = (size_t)t->file_offset / page * page;
    madvise((void *)(uintptr_t)(part->map + start), (size_t)t->file_offset + t->bytes - start, MADV_DONTNEED);
}

enum mr_status gguf_read(const struct gguf *g, const struct gguf_tensor *t, size_t offset, void *out, size_t n,
                         struct mr_error *err)
{
    const struct gguf_part *part = &g->part[t->split];
    if (offset > t->bytes || n > t->bytes - offset)
        return mr_fail(err, MR_BAD_INPUT, "tensor '%.*s' has no bytes %zu to %zu", (int)t->name.n, t->name.s, offset,
                       offset + n);
    if (part->fd < 0) {
        memcpy(out, (const char *)t->data + offset, n);
        return MR_OK;
    }
    const enum mr_status status = read_at(part->fd, out, n, t->file_offset + offset, err);
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "tensor '%.*s'", (int)t->name.n, t->name.s);
}

int gguf_n_tensors(const struct gguf *g) { return (int)g->header.n_tensor; }

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, int i) { return &g->header.tensor[i]; }

const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name)
{
    const struct gguf_tensor wanted = {.name = {name, strlen(name)}}, *key = &wanted;
    const struct gguf_tensor *const *found =
        bsearch(&key, g->tensor_order, g->header.n_tensor, sizeof *g->tensor_order, compare_tensors);
    return found != NULL ? *found : NULL;
}

int gguf_n_values(const struct gguf *g) { return (int)g->header.n_entry; }

const struct gguf_value *gguf_value_at(const struct gguf *g, int i) { return &g->header.entry[i].value; }

const struct gguf_value *gguf_value_find(const struct gguf *g, const char *name)
{
    const struct gguf_entry wanted = {.value = {.key = {name, strlen(name)}}}, *key = &wanted;
    const struct gguf_entry *const *found =
        bsearch(&key, g->entry_order, g->header.n_entry, sizeof *g->entry_order, compare_entries);
    return found != NULL ? &(*found)->value : NULL;
}
