/* gguf_tensors.c: parses and checks the tensor descriptions of one file. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "format/gguf_cursor.h"

/* Types that exist but that this build does not decode. */
static const char *foreign_type(uint32_t type)
{
    static const char *const name[] = {
        [4] = "q4_2",     [5] = "q4_3",   [9] = "q8_1",   [15] = "q8_k",  [16] = "iq2_xxs", [17] = "iq2_xs",
        [18] = "iq3_xxs", [19] = "iq1_s", [21] = "iq3_s", [22] = "iq2_s", [23] = "iq4_xs",  [24] = "i8",
        [25] = "i16",     [26] = "i32",   [27] = "i64",   [28] = "f64",   [29] = "iq1_m",   [34] = "tq1_0",
        [35] = "tq2_0",   [39] = "mxfp4", [40] = "nvfp4", [41] = "q1_0",
    };
    return type < sizeof name / sizeof *name ? name[type] : NULL;
}

static enum mr_status parse_dims(struct gguf_cursor *c, struct gguf_tensor *t)
{
    uint32_t n_dims;
    if (!gguf_take_u32(c, &n_dims))
        return gguf_cursor_fail_end(c);
    if (n_dims < 1 || n_dims > GGUF_MAX_DIMS)
        return gguf_cursor_fail(c, MR_BAD_FORMAT, "%lu dimensions, not 1 to %d", (unsigned long)n_dims, GGUF_MAX_DIMS);
    t->n_dims = (int)n_dims;
    for (int i = 0; i < GGUF_MAX_DIMS; i++) {
        uint64_t dim = 1;
        if (i < t->n_dims && !gguf_take_u64(c, &dim))
            return gguf_cursor_fail_end(c);
        if (dim < 1 || dim > INT64_MAX)
            return gguf_cursor_fail(c, MR_BAD_FORMAT, "dimension %d is %llu", i, (unsigned long long)dim);
        t->dims[i] = (int64_t)dim;
    }
    return MR_OK;
}

/* "[576, 49152]" */
static const char *shape(const struct gguf_tensor *t, char text[128])
{
    int n = 0;
    for (int i = 0; i < t->n_dims; i++)
        n += snprintf(text + n, 128 - (size_t)n, "%s%lld", i == 0 ? "[" : ", ", (long long)t->dims[i]);
    snprintf(text + n, 128 - (size_t)n, "]");
    return text;
}

static enum mr_status parse_type(struct gguf_cursor *c, struct gguf_tensor *t)
{
    char text[128];
    uint32_t type;
    if (!gguf_take_u32(c, &type))
        return gguf_cursor_fail_end(c);
    t->quant = quant_find(type);
    if (t->quant == NULL && foreign_type(type) != NULL)
        return gguf_cursor_fail(c, MR_NO_SUPPORT, "type %s is not supported", foreign_type(type));
    if (t->quant == NULL)
        return gguf_cursor_fail(c, MR_BAD_FORMAT, "unknown type %lu", (unsigned long)type);
    size_t n = (size_t)t->dims[0];
    if (n % (size_t)t->quant->block != 0)
        return gguf_cursor_fail(c, MR_BAD_FORMAT, "shape %s: rows of %s must be a multiple of %d", shape(t, text),
                                t->quant->name, t->quant->block);
    bool fits = size_mul(&t->bytes, n / (size_t)t->quant->block, t->quant->bytes);
    for (int i = 1; i < GGUF_MAX_DIMS; i++)
        fits = fits && size_mul(&n, n, (size_t)t->dims[i]) && size_mul(&t->bytes, t->bytes, (size_t)t->dims[i]);
    if (!fits || n > INT64_MAX)
        return gguf_cursor_fail(c, MR_BAD_FORMAT, "shape %s of type %s is too large for any file", shape(t, text),
                                t->quant->name);
    return MR_OK;
}

static enum mr_status parse_tensor(struct gguf_cursor *c, struct gguf_tensor *t, uint32_t alignment)
{
    c->kind = NULL;
    memset(t, 0, sizeof *t);
    MR_TRY(gguf_take_string(c, "tensor name", GGUF_MAX_NAME, &t->name));
    if (t->name.n == 0)
        return gguf_cursor_fail(c, MR_BAD_FORMAT, "a tensor without a name");
    c->kind = "tensor";
    c->name = t->name;
    MR_TRY(parse_dims(c, t));
    MR_TRY(parse_type(c, t));
    if (!gguf_take_u64(c, &t->file_offset))
        return gguf_cursor_fail_end(c);
    if (t->file_offset % alignment != 0)
        return gguf_cursor_fail(c, MR_BAD_FORMAT, "offset %llu is not a multiple of the alignment %lu",
                                (unsigned long long)t->file_offset, (unsigned long)alignment);
    return MR_OK;
}

static enum mr_status parse_tensors(struct gguf_cursor *c, struct gguf_header *h, uint64_t n, uint32_t alignment)
{
    for (uint64_t i = 0; i < n; i++) {
        if (!mem_grow(&h->tensor, &h->tensor_capacity, h->n_tensor + 1, sizeof *h->tensor))
            return gguf_cursor_fail(c, MR_NO_MEMORY, "no memory for %llu tensors", (unsigned long long)n);
        MR_TRY(parse_tensor(c, &h->tensor[h->n_tensor++], alignment));
    }
    h->bytes = c->at;
    return MR_OK;
}

/* From offsets in the data section to offsets in the file; each tensor's bytes must be there. */
static enum mr_status place_tensors(struct gguf_cursor *c, struct gguf_header *h, uint32_t alignment)
{
    char text[128];
    const size_t start = size_align(h->bytes, alignment);
    for (size_t i = 0; i < h->n_tensor; i++) {
        struct gguf_tensor *t = &h->tensor[i];
        const size_t present = start <= c->file_bytes ? c->file_bytes - start : 0;
        c->name = t->name;
        if (t->file_offset > present || t->bytes > present - t->file_offset)
            return gguf_cursor_fail(
                c, MR_BAD_FORMAT,
                "shape %s of type %s needs %zu bytes from byte %llu of the data, but the file has %zu bytes of data",
                shape(t, text), t->quant->name, t->bytes, (unsigned long long)t->file_offset, present);
        t->file_offset += start;
    }
    return MR_OK;
}

static int by_offset(const void *a, const void *b)
{
    const uint64_t x = (*(const struct gguf_tensor *const *)a)->file_offset;
    const uint64_t y = (*(const struct gguf_tensor *const *)b)->file_offset;
    return (x > y) - (x < y);
}

static enum mr_status check_overlap(struct gguf_cursor *c, const struct gguf_header *h)
{
    const struct gguf_tensor **order = mem_array(h->n_tensor, sizeof *order);
    if (order == NULL)
        return gguf_cursor_fail(c, MR_NO_MEMORY, "no memory for %zu tensors", h->n_tensor);
    for (size_t i = 0; i < h->n_tensor; i++)
        order[i] = &h->tensor[i];
    qsort(order, h->n_tensor, sizeof *order, by_offset);
    enum mr_status status = MR_OK;
    for (size_t i = 1; i < h->n_tensor && status == MR_OK; i++) {
        const struct gguf_tensor *a = order[i - 1], *b = order[i];
        c->name = b->name;
        if (a->bytes > b->file_offset - a->file_offset)
            status = gguf_cursor_fail(c, MR_BAD_FORMAT, "overlaps tensor '%.*s'", (int)a->name.n, a->name.s);
    }
    free(order);
    return status;
}

enum mr_status gguf_take_tensors(struct gguf_cursor *c, struct gguf_header *h, uint64_t n, uint32_t alignment)
{
    MR_TRY(parse_tensors(c, h, n, alignment));
    MR_TRY(place_tensors(c, h, alignment));
    return check_overlap(c, h);
}
