/* gguf_write.c: builds the header in memory and streams tensors behind it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "format/gguf_internal.h"
#include "format/gguf_writer.h"

static enum mr_status fail_system(const struct gguf_writer *w, const char *what, struct mr_error *err)
{
    return mr_fail(err, MR_IO, "cannot %s '%s': %s", what, w->path, strerror(errno));
}

/* A new file beside the target, whatever earlier attempts have left there. */
static enum mr_status open_partial(struct gguf_writer *w, struct mr_error *err)
{
    enum {
        TRIES = 100
    };
    const size_t n = strlen(w->path) + sizeof ".partial00";
    w->partial = mem_array(n, 1);
    if (w->partial == NULL)
        return gguf_fail_memory(err);
    for (int i = 0; i < TRIES && w->fd < 0; i++) {
        snprintf(w->partial, n, "%s.partial%d", w->path, i);
        w->fd = open(w->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd < 0 && errno != EEXIST)
            break;
    }
    w->exists = w->fd >= 0;
    return w->exists ? MR_OK : fail_system(w, "write beside", err);
}

enum mr_status gguf_writer_create(struct gguf_writer **out, const char *path, struct mr_error *err)
{
    *out = NULL;
    struct gguf_writer *w = mem_zero_array(1, sizeof *w);
    if (w == NULL)
        return gguf_fail_memory(err);
    w->fd = -1;
    w->alignment = GGUF_DEFAULT_ALIGNMENT;
    string_buffer_init(&w->values);
    string_buffer_init(&w->tensors);
    string_buffer_init(&w->products);
    string_buffer_init(&w->types);
    string_buffer_init(&w->shapes);
    w->path = mem_string(path, strlen(path));
    const enum mr_status status = w->path != NULL ? open_partial(w, err) : gguf_fail_memory(err);
    if (status != MR_OK) {
        gguf_writer_free(w);
        return status;
    }
    *out = w;
    return MR_OK;
}

void gguf_writer_free(struct gguf_writer *w)
{
    if (w == NULL)
        return;
    if (w->fd >= 0)
        close(w->fd);
    if (w->exists)
        unlink(w->partial);
    string_buffer_release(&w->values);
    string_buffer_release(&w->tensors);
    string_buffer_release(&w->products);
    string_buffer_release(&w->types);
    string_buffer_release(&w->shapes);
    free(w->bytes);
    free(w->partial);
    free(w->path);
    free(w);
}

/* Bytes of a tensor; false: not a whole number of blocks, or too many. */
static bool tensor_bytes(size_t *bytes, const struct quant *quant, int n_dims, const int64_t *dims)
{
    if (n_dims < 1 || n_dims > GGUF_MAX_DIMS || dims[0] < 1 || dims[0] % quant->block != 0)
        return false;
    bool ok = size_mul(bytes, (size_t)dims[0] / (size_t)quant->block, quant->bytes);
    for (int i = 1; i < n_dims; i++)
        ok = ok && dims[i] >= 1 && size_mul(bytes, *bytes, (size_t)dims[i]);
    return ok;
}

static enum mr_status declare(struct gguf_writer *w, struct gguf_string name, const struct quant *quant, int n_dims,
                              const int64_t *dims, struct mr_error *err)
{
    size_t bytes, end;
    const int n = name.n < 128 ? (int)name.n : 128;
    if (w->in_data)
        return mr_fail(err, MR_BAD_INPUT, "tensor '%.*s' comes after the header was written", n, name.s);
    if (!tensor_bytes(&bytes, quant, n_dims, dims) || !size_add(&end, w->offset, bytes) || end > SIZE_MAX / 2)
        return mr_fail(err, MR_BAD_INPUT, "tensor '%.*s': %d dimensions, rows of %lld do not make a tensor of type %s", n,
                       name.s, n_dims, (long long)(n_dims > 0 ? dims[0] : 0), quant->name);
    if (!mem_grow(&w->bytes, &w->capacity, w->n_tensor + 1, sizeof *w->bytes))
        return gguf_fail_memory(err);
    gguf_add_string(&w->tensors, name);
    gguf_add_u32(&w->tensors, (uint32_t)n_dims);
    for (int i = 0; i < n_dims; i++)
        gguf_add_u64(&w->tensors, (uint64_t)dims[i]);
    gguf_add_u32(&w->tensors, quant->type);
    gguf_add_u64(&w->tensors, w->offset);
    w->bytes[w->n_tensor++] = bytes;
    w->offset = size_align(end, w->alignment);
    return gguf_check_buffer(&w->tensors, err);
}

/* What a tensor was before `product` packed it. */
static enum mr_status note_packing(struct gguf_writer *w, const char *product, const struct quant *quant, int n_dims,
                                   const int64_t *dims, struct mr_error *err)
{
    gguf_add_string(&w->products, gguf_c_string(product));
    gguf_add_u32(&w->types, quant->type);
    for (int i = 0; i < GGUF_MAX_DIMS; i++)
        gguf_add_u64(&w->shapes, i < n_dims ? (uint64_t)dims[i] : 1);
    MR_TRY(gguf_check_buffer(&w->products, err));
    MR_TRY(gguf_check_buffer(&w->types, err));
    return gguf_check_buffer(&w->shapes, err);
}

enum mr_status gguf_declare_tensor(struct gguf_writer *w, struct gguf_string name, const struct quant *quant, int n_dims,
                                   const int64_t *dims, struct mr_error *err)
{
    MR_TRY(declare(w, name, quant, n_dims, dims, err));
    return note_packing(w, "", quant, n_dims, dims, err);
}

enum mr_status gguf_declare_packed(struct gguf_writer *w, const struct gguf_tensor *original, const char *product, size_t bytes,
                                   struct mr_error *err)
{
    const int64_t n = (int64_t)(bytes / sizeof(float));
    if (bytes % sizeof(float) != 0 || bytes / sizeof(float) > INT64_MAX || product[0] == '\0')
        return mr_fail(err, MR_BAD_INPUT, "tensor '%.*s': %zu bytes for product '%s' cannot be declared", (int)original->name.n,
                       original->name.s, bytes, product);
    MR_TRY(declare(w, original->name, quant_find(QUANT_F32), 1, &n, err));
    w->is_packed = true;
    return note_packing(w, product, original->quant, original->n_dims, original->dims, err);
}

static enum mr_status put_packing(struct gguf_writer *w, struct mr_error *err)
{
    const size_t n = w->n_tensor;
    MR_TRY(gguf_put_int(w, GGUF_PACK_VERSION_KEY, GGUF_U32, GGUF_PACK_VERSION, err));
    MR_TRY(gguf_begin_value(w, gguf_c_string(GGUF_PACK_PRODUCTS_KEY), GGUF_STRING, true, n, err));
    string_buffer_add(&w->values, w->products.s, w->products.n);
    MR_TRY(gguf_put_array(w, GGUF_PACK_TYPES_KEY, GGUF_U32, w->types.s, n, err));
    return gguf_put_array(w, GGUF_PACK_SHAPES_KEY, GGUF_U64, w->shapes.s, n * GGUF_MAX_DIMS, err);
}

static enum mr_status write_all(struct gguf_writer *w, const void *bytes, size_t n, struct mr_error *err)
{
    const char *p = bytes;
    while (n > 0) {
        const ssize_t done = write(w->fd, p, n);
        if (done < 0 && errno != EINTR) {
            w->broken = true;
            return fail_system(w, "write", err);
        }
        if (done > 0) {
            p += done;
            n -= (size_t)done;
        }
    }
    return MR_OK;
}

/* Zeros from n up to the alignment. */
static enum mr_status write_padding(struct gguf_writer *w, size_t n, struct mr_error *err)
{
    static const char zeros[4096];
    size_t rest = size_align(n, w->alignment) - n;
    while (rest > 0) {
        const size_t some = rest < sizeof zeros ? rest : sizeof zeros;
        MR_TRY(write_all(w, zeros, some, err));
        rest -= some;
    }
    return MR_OK;
}

/* What our own reader refuses is not written. */
static enum mr_status check_header(const struct gguf_writer *w, const struct string_buffer *b, struct mr_error *err)
{
    struct gguf g = {0};
    const size_t file_bytes = size_align(b->n, w->alignment) + w->offset;
    enum mr_status status = gguf_header_parse(&g.header, (const unsigned char *)b->s, b->n, file_bytes, err);
    if (status == MR_OK)
        status = gguf_index_names(&g, err);
    gguf_header_release(&g.header);
    free(g.entry_order);
    free(g.tensor_order);
    return status;
}

enum mr_status gguf_begin_data(struct gguf_writer *w, struct mr_error *err)
{
    struct string_buffer header;
    if (w->in_data || w->broken)
        return mr_fail(err, MR_BAD_INPUT, "the header was written already");
    if (w->is_packed)
        MR_TRY(put_packing(w, err));
    string_buffer_init(&header);
    string_buffer_puts(&header, "GGUF");
    gguf_add_u32(&header, 3);
    gguf_add_u64(&header, w->n_tensor);
    gguf_add_u64(&header, w->n_value);
    string_buffer_add(&header, w->values.s, w->values.n);
    string_buffer_add(&header, w->tensors.s, w->tensors.n);
    enum mr_status status = header.failed || w->values.failed || w->tensors.failed ? gguf_fail_memory(err) : MR_OK;
    if (status == MR_OK)
        status = check_header(w, &header, err);
    if (status == MR_OK)
        status = write_all(w, header.s, header.n, err);
    if (status == MR_OK)
        status = write_padding(w, header.n, err);
    string_buffer_release(&header);
    w->in_data = status == MR_OK;
    return status;
}

enum mr_status gguf_write_data(struct gguf_writer *w, const void *bytes, size_t n, struct mr_error *err)
{
    const char *p = bytes;
    while (n > 0) {
        if (!w->in_data || w->current == w->n_tensor)
            return mr_fail(err, MR_BAD_INPUT, "%zu bytes belong to no tensor", n);
        const size_t size = w->bytes[w->current];
        const size_t some = n < size - w->written ? n : size - w->written;
        MR_TRY(write_all(w, p, some, err));
        p += some;
        n -= some;
        w->written += some;
        if (w->written < size)
            break;
        MR_TRY(write_padding(w, size, err));
        w->current++;
        w->written = 0;
    }
    return MR_OK;
}

/* The folder of the target, whose entry must reach the disk as well. */
static enum mr_status open_folder(const struct gguf_writer *w, int *fd, struct mr_error *err)
{
    const char *slash = strrchr(w->path, '/');
    char *folder = slash == NULL ? mem_string(".", 1) : mem_string(w->path, (size_t)(slash - w->path) + 1);
    if (folder == NULL)
        return gguf_fail_memory(err);
    *fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    return *fd >= 0 ? MR_OK : fail_system(w, "open the folder of", err);
}

static enum mr_status rename_partial(struct gguf_writer *w, int folder, struct mr_error *err)
{
    const int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0)
        return fail_system(w, "write", err);
    if (rename(w->partial, w->path) != 0)
        return fail_system(w, "rename a file to", err);
    w->exists = false;
    if (fsync(folder) != 0 && errno != EINVAL) /* some file systems cannot */
        return fail_system(w, "flush the folder of", err);
    return MR_OK;
}

enum mr_status gguf_writer_finish(struct gguf_writer *w, struct mr_error *err)
{
    int folder = -1;
    if (!w->in_data || w->broken || w->current < w->n_tensor || !w->exists)
        return mr_fail(err, MR_BAD_INPUT, "'%s' is not complete: %zu of %zu tensors are written", w->path, w->current,
                       w->n_tensor);
    if (fsync(w->fd) != 0)
        return fail_system(w, "flush", err);
    MR_TRY(open_folder(w, &folder, err));
    const enum mr_status status = rename_partial(w, folder, err);
    close(folder);
    return status;
}
