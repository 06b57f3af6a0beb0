/* gguf.c: opens a model, and looks up its keys and tensors. */
#include <stdlib.h>

#include "base/memory.h"
#include "format/gguf_internal.h"

static int compare_entries(const void *a, const void *b)
{
    return gguf_string_compare((*(const struct gguf_entry *const *)a)->value.key,
                               (*(const struct gguf_entry *const *)b)->value.key);
}

static int compare_tensors(const void *a, const void *b)
{
    return gguf_string_compare((*(const struct gguf_tensor *const *)a)->name, (*(const struct gguf_tensor *const *)b)->name);
}

/* Equal neighbours are duplicates. */
enum mr_status gguf_index_names(struct gguf *g, struct mr_error *err)
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

static enum mr_status open_memory(struct gguf *g, const void *bytes, size_t n, struct mr_error *err)
{
    g->part[0].map = bytes;
    g->part[0].bytes = n;
    MR_TRY(gguf_check_magic(bytes, n, err));
    MR_TRY(gguf_header_parse(&g->header, bytes, n, n, err));
    return gguf_check_whole(&g->header, err);
}

/* Open the file at `path`, or where that is NULL the n bytes. */
static enum mr_status open_any(struct gguf **out, const char *path, const void *bytes, size_t n, struct mr_error *err)
{
    struct gguf *g = mem_zero_array(1, sizeof *g);
    *out = NULL;
    if (g == NULL || !gguf_grow_parts(g, 1)) {
        free(g);
        return mr_fail(err, MR_NO_MEMORY, "no memory to open a file");
    }
    enum mr_status status = path != NULL ? gguf_open_set(g, path, err) : open_memory(g, bytes, n, err);
    if (status == MR_OK)
        status = gguf_index_names(g, err);
    if (status == MR_OK) {
        attach_data(g);
        status = gguf_read_packing(g, err);
    }
    if (status != MR_OK) {
        gguf_close(g);
        return path != NULL ? mr_fail_in(err, status, "'%s'", path) : status;
    }
    *out = g;
    return MR_OK;
}

enum mr_status gguf_open(struct gguf **out, const char *path, struct mr_error *err)
{
    return open_any(out, path, NULL, 0, err);
}

enum mr_status gguf_open_memory(struct gguf **out, const void *bytes, size_t n, struct mr_error *err)
{
    return open_any(out, NULL, bytes, n, err);
}

void gguf_close(struct gguf *g)
{
    if (g == NULL)
        return;
    for (int i = 0; i < g->n_part; i++)
        gguf_part_close(&g->part[i]);
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
    const enum mr_status status = gguf_read_at(part->fd, out, n, t->file_offset + offset, err);
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
