/* safetensors.c: reads the header with jansson, checks it, reads data with pread. */
#include "format/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "format/file_kind.h"

enum {
    LENGTH_BYTES = 8,
    NAME_SHOWN = 200
};

struct safetensors {
    int fd; /* -1: memory */
    const char *memory;
    uint64_t file_bytes;
    uint64_t data; /* where it begins */
    json_t *header;
    struct safetensor *tensor;
    size_t n, capacity;
};

static const struct {
    const char *name;
    int bytes;
} types[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},     {"I32", 4},     {"I16", 2}, {"I8", 1},
             {"U64", 8}, {"U32", 4}, {"U16", 2}, {"U8", 1},   {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"BOOL", 1}};

static int type_bytes(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i].name) == 0)
            return types[i].bytes;
    return 0;
}

static enum mr_status read_at(const struct safetensors *s, uint64_t offset, void *out, size_t n, struct mr_error *err)
{
    if (offset > s->file_bytes || n > s->file_bytes - offset)
        return mr_fail(err, MR_BAD_FORMAT, "the file ends before byte %llu", (unsigned long long)offset + n);
    if (s->fd < 0) {
        memcpy(out, s->memory + offset, n);
        return MR_OK;
    }
    for (size_t done = 0; done < n;) {
        const ssize_t got = pread(s->fd, (char *)out + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return mr_fail(err, MR_IO, "cannot read: %s", got < 0 ? strerror(errno) : "the file was cut");
        done += (size_t)got;
    }
    return MR_OK;
}

/* The number of values of a shape; false: too many. */
static bool n_values(const json_t *shape, struct safetensor *t, uint64_t *out)
{
    *out = 1;
    bool is_zero = false;
    t->n_dims = (int)json_array_size(shape);
    for (int i = 0; i < t->n_dims; i++) {
        const json_t *n = json_array_get(shape, (size_t)i);
        if (!json_is_integer(n) || json_integer_value(n) < 0 || json_integer_value(n) > INT64_MAX / 16)
            return false;
        t->dims[i] = json_integer_value(n);
        is_zero |= t->dims[i] == 0;
        if (t->dims[i] > 0 && *out > (uint64_t)INT64_MAX / 16 / (uint64_t)t->dims[i])
            return false;
        *out *= t->dims[i] > 0 ? (uint64_t)t->dims[i] : 1;
    }
    *out = is_zero ? 0 : *out;
    return true;
}

static enum mr_status read_entry(const struct safetensors *s, const char *name, const json_t *entry, struct safetensor *t,
                                 struct mr_error *err)
{
    const json_t *type = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape"),
                 *offsets = json_object_get(entry, "data_offsets");
    *t = (struct safetensor){.name = name, .type = json_string_value(type)};
    if (t->type == NULL || !json_is_array(shape) || !json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !json_is_integer(json_array_get(offsets, 0)) || !json_is_integer(json_array_get(offsets, 1)))
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s': dtype, shape or data_offsets is missing or no such thing",
                       NAME_SHOWN, name);
    const int64_t begin = json_integer_value(json_array_get(offsets, 0)), end = json_integer_value(json_array_get(offsets, 1));
    uint64_t n;
    if (type_bytes(t->type) == 0)
        return mr_fail(err, MR_NO_SUPPORT, "tensor '%.*s': type '%.32s' is not known", NAME_SHOWN, name, t->type);
    if (json_array_size(shape) > SAFETENSORS_MAX_DIMS || !n_values(shape, t, &n))
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s': its shape is too large or no list of sizes", NAME_SHOWN, name);
    if (begin < 0 || end < begin || (uint64_t)end > s->file_bytes - s->data)
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s': bytes %lld to %lld do not lie in the file's data", NAME_SHOWN, name,
                       (long long)begin, (long long)end);
    t->offset = (uint64_t)begin;
    t->bytes = (uint64_t)(end - begin);
    if (t->bytes != n * (uint64_t)type_bytes(t->type))
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s': %llu bytes of data, its shape has %llu values of %s", NAME_SHOWN,
                       name, (unsigned long long)t->bytes, (unsigned long long)n, t->type);
    return MR_OK;
}

static int by_offset(const void *a, const void *b)
{
    const struct safetensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty ones first */
}

static enum mr_status check_cover(struct safetensors *s, struct mr_error *err)
{
    uint64_t at = 0;
    if (s->n > 0)
        qsort(s->tensor, s->n, sizeof *s->tensor, by_offset);
    for (size_t i = 0; i < s->n; at += s->tensor[i++].bytes)
        if (s->tensor[i].offset != at)
            return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s': a hole or an overlap before its data", NAME_SHOWN,
                           s->tensor[i].name);
    return at == s->file_bytes - s->data ? MR_OK
                                         : mr_fail(err, MR_BAD_FORMAT, "%llu bytes behind the last tensor",
                                                   (unsigned long long)(s->file_bytes - s->data - at));
}

static enum mr_status read_header(struct safetensors *s, const char *text, size_t n, struct mr_error *err)
{
    json_error_t why;
    const char *name;
    json_t *entry;
    s->header = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(s->header))
        return mr_fail(err, MR_BAD_FORMAT, "the header is no JSON object%s%s", s->header == NULL ? ": " : "",
                       s->header == NULL ? why.text : "");
    json_object_foreach(s->header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        if (s->n == INT32_MAX || !mem_grow(&s->tensor, &s->capacity, s->n + 1, sizeof *s->tensor))
            return mr_fail(err, MR_NO_MEMORY, "no memory for the list of tensors");
        MR_TRY(read_entry(s, name, entry, &s->tensor[s->n], err));
        s->n++;
    }
    return check_cover(s, err);
}

static enum mr_status read_all(struct safetensors *s, struct mr_error *err)
{
    unsigned char length[FILE_KIND_BYTES] = {0};
    const size_t n_look = s->file_bytes < sizeof length ? (size_t)s->file_bytes : sizeof length;
    MR_TRY(read_at(s, 0, length, n_look, err));
    uint64_t n = 0;
    for (int i = LENGTH_BYTES; i-- > 0;)
        n = n << 8 | length[i];
    if (n_look < LENGTH_BYTES || n > SAFETENSORS_MAX_HEADER || n > s->file_bytes - LENGTH_BYTES || length[LENGTH_BYTES] != '{')
        return mr_fail(err, MR_BAD_FORMAT, "no safetensors file, but %s", file_kind(length, n_look));
    char *text = mem_array((size_t)n, 1);
    if (text == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a header of %zu bytes", (size_t)n);
    s->data = LENGTH_BYTES + n;
    enum mr_status status = read_at(s, LENGTH_BYTES, text, (size_t)n, err);
    if (status == MR_OK)
        status = read_header(s, text, (size_t)n, err);
    free(text);
    return status;
}

static enum mr_status open_file(struct safetensors *s, const char *path, struct mr_error *err)
{
    struct stat st;
    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0)
        return mr_fail(err, errno == ENOENT ? MR_NOT_FOUND : MR_IO, "%s", strerror(errno));
    if (fstat(s->fd, &st) != 0 || !S_ISREG(st.st_mode))
        return mr_fail(err, MR_IO, "not a regular file");
    s->file_bytes = (uint64_t)st.st_size;
    return read_all(s, err);
}

static enum mr_status create(struct safetensors **out, struct mr_error *err)
{
    *out = mem_zero_array(1, sizeof **out);
    if (*out == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a file");
    (*out)->fd = -1;
    return MR_OK;
}

enum mr_status safetensors_open(struct safetensors **out, const char *path, struct mr_error *err)
{
    struct safetensors *s;
    *out = NULL;
    MR_TRY(create(&s, err));
    const enum mr_status status = open_file(s, path, err);
    if (status != MR_OK) {
        safetensors_close(s);
        return mr_fail_in(err, status, "'%s'", path);
    }
    *out = s;
    return MR_OK;
}

enum mr_status safetensors_open_memory(struct safetensors **out, const void *bytes, size_t n, struct mr_error *err)
{
    struct safetensors *s;
    *out = NULL;
    MR_TRY(create(&s, err));
    s->memory = bytes;
    s->file_bytes = n;
    const enum mr_status status = read_all(s, err);
    if (status != MR_OK)
        safetensors_close(s);
    else
        *out = s;
    return status;
}

void safetensors_close(struct safetensors *s)
{
    if (s == NULL)
        return;
    if (s->fd >= 0)
        close(s->fd);
    json_decref(s->header);
    free(s->tensor);
    free(s);
}

int safetensors_n(const struct safetensors *s) { return (int)s->n; }

const struct safetensor *safetensors_at(const struct safetensors *s, int i) { return &s->tensor[i]; }

enum mr_status safetensors_read(const struct safetensors *s, const struct safetensor *t, void *out, struct mr_error *err)
{
    const enum mr_status status = read_at(s, s->data + t->offset, out, (size_t)t->bytes, err);
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "tensor '%.*s'", NAME_SHOWN, t->name);
}
