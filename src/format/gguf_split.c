/* gguf_split.c: models split over files NAME-00001-of-00003.gguf, ...: the keys split.count, split.no (from 0) and
 * split.tensors.count say what belongs together. All other metadata is that of the first file. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "format/gguf_internal.h"

/* *out: the key's value, 0 where there is none. The header is not indexed yet. */
static enum mr_status split_value(const struct gguf_header *h, const char *key, int *out, struct mr_error *err)
{
    const struct gguf_string wanted = {key, strlen(key)};
    *out = 0;
    for (size_t i = 0; i < h->n_entry; i++) {
        const struct gguf_value *v = &h->entry[i].value;
        if (gguf_string_compare(v->key, wanted) != 0)
            continue;
        if (v->is_array || !gguf_is_integer(v) || gguf_as_u64(v, 0) > INT_MAX)
            return mr_fail(err, MR_BAD_FORMAT, "key '%s' is not a count", key);
        *out = (int)gguf_as_u64(v, 0);
    }
    return MR_OK;
}

enum mr_status gguf_check_whole(const struct gguf_header *h, struct mr_error *err)
{
    int count;
    MR_TRY(split_value(h, "split.count", &count, err));
    return count <= 1 ? MR_OK : mr_fail(err, MR_NO_SUPPORT, "one of %d files of a split model", count);
}

bool gguf_grow_parts(struct gguf *g, int n)
{
    struct gguf_part *part = realloc(g->part, (size_t)n * sizeof *part);
    if (part == NULL)
        return false;
    g->part = part;
    for (; g->n_part < n; g->n_part++)
        g->part[g->n_part] = (struct gguf_part){.fd = -1};
    return true;
}

/* Take over the tensors of file number `no`, which must be that file. */
static enum mr_status append_tensors(struct gguf *g, const struct gguf_header *h, int no, struct mr_error *err)
{
    struct gguf_header *all = &g->header;
    int count, found;
    MR_TRY(split_value(h, "split.count", &count, err));
    MR_TRY(split_value(h, "split.no", &found, err));
    if (count != g->n_part || found != no)
        return mr_fail(err, MR_BAD_FORMAT, "is number %d of %d files, not %d of %d", found, count, no, g->n_part);
    if (h->n_tensor > INT_MAX - all->n_tensor)
        return mr_fail(err, MR_BAD_FORMAT, "too many tensors");
    if (!mem_grow(&all->tensor, &all->tensor_capacity, all->n_tensor + h->n_tensor, sizeof *all->tensor))
        return mr_fail(err, MR_NO_MEMORY, "no memory for %zu tensors", all->n_tensor + h->n_tensor);
    for (size_t i = 0; i < h->n_tensor; i++) {
        all->tensor[all->n_tensor] = h->tensor[i];
        all->tensor[all->n_tensor++].split = no;
    }
    return MR_OK;
}

static enum mr_status open_other(struct gguf *g, const char *stem, int no, struct mr_error *err)
{
    struct gguf_header h = {0};
    char suffix[64];
    snprintf(suffix, sizeof suffix, "-%05d-of-%05d.gguf", no + 1, g->n_part);
    const size_t n = strlen(stem);
    char *path = mem_array(n + sizeof suffix, 1);
    if (path == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a file name");
    memcpy(path, stem, n);
    memcpy(path + n, suffix, sizeof suffix);
    enum mr_status status = gguf_part_open(&g->part[no], &h, path, err);
    if (status == MR_OK)
        status = append_tensors(g, &h, no, err);
    if (status != MR_OK)
        mr_fail_in(err, status, "its part '%s'", path);
    gguf_header_release(&h);
    free(path);
    return status;
}

/* Open the others beside the first, whose path is `stem` and a suffix. */
static enum mr_status open_others(struct gguf *g, const char *stem, int count, struct mr_error *err)
{
    int n_tensor;
    if (!gguf_grow_parts(g, count))
        return mr_fail(err, MR_NO_MEMORY, "no memory for %d files", count);
    for (int no = 1; no < count; no++)
        MR_TRY(open_other(g, stem, no, err));
    MR_TRY(split_value(&g->header, "split.tensors.count", &n_tensor, err));
    if (n_tensor != 0 && (size_t)n_tensor != g->header.n_tensor)
        return mr_fail(err, MR_BAD_FORMAT, "key 'split.tensors.count' is %d, but the %d files hold %zu tensors", n_tensor,
                       count, g->header.n_tensor);
    return MR_OK;
}

enum mr_status gguf_open_set(struct gguf *g, const char *path, struct mr_error *err)
{
    enum {
        MAX_SPLITS = 65535 /* split.count is a u16 */
    };
    int count, no;
    char suffix[64];
    MR_TRY(gguf_part_open(&g->part[0], &g->header, path, err));
    MR_TRY(split_value(&g->header, "split.count", &count, err));
    MR_TRY(split_value(&g->header, "split.no", &no, err));
    if (count <= 1)
        return MR_OK;
    if (count > MAX_SPLITS)
        return mr_fail(err, MR_BAD_FORMAT, "key 'split.count' is %d, not in 0..%d", count, MAX_SPLITS);
    const int n = snprintf(suffix, sizeof suffix, "-00001-of-%05d.gguf", count);
    if (no != 0)
        return mr_fail(err, MR_BAD_INPUT, "part %d of a split model; open the first part, which ends in '%s'", no + 1, suffix);
    const size_t length = strlen(path);
    if (length < (size_t)n || strcmp(path + length - n, suffix) != 0)
        return mr_fail(err, MR_BAD_FORMAT, "the first of %d parts of a split model, but its name does not end in '%s'", count,
                       suffix);
    char *stem = mem_string(path, length - (size_t)n);
    if (stem == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a file name");
    const enum mr_status status = open_others(g, stem, count, err);
    free(stem);
    return status;
}
