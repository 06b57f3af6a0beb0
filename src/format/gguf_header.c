/* gguf_header.c: parses and checks the header of one file. */
#include <limits.h>
#include <stdlib.h>

#include "base/memory.h"
#include "format/gguf_cursor.h"

/* Walks the strings first, so that the table of them is allocated only for strings that are there. */
static enum mr_status parse_strings(struct gguf_cursor *c, struct gguf_entry *e)
{
    const struct gguf_cursor start = *c;
    struct gguf_string s;
    for (size_t i = 0; i < e->value.n; i++)
        MR_TRY(gguf_take_string(c, "string", UINT64_MAX, &s));
    e->string = mem_array(e->value.n, sizeof *e->string);
    if (e->string == NULL)
        return gguf_cursor_fail(c, MR_NO_MEMORY, "no memory for a table of %zu strings", e->value.n);
    *c = start;
    for (size_t i = 0; i < e->value.n; i++) {
        e->string[i] = c->bytes + c->at;
        MR_TRY(gguf_take_string(c, "string", UINT64_MAX, &s));
    }
    return MR_OK;
}

static enum mr_status parse_elements(struct gguf_cursor *c, struct gguf_entry *e)
{
    if (e->value.type == GGUF_STRING)
        return parse_strings(c, e);
    e->bytes = gguf_take(c, e->value.n * gguf_type_bytes(e->value.type));
    if (e->bytes == NULL)
        return gguf_cursor_fail_end(c);
    for (size_t i = 0; e->value.type == GGUF_BOOL && i < e->value.n; i++)
        if (e->bytes[i] > 1)
            return gguf_cursor_fail(c, MR_BAD_FORMAT, "a bool is %d", e->bytes[i]);
    return MR_OK;
}

/* Type, then for arrays element type and length. */
static enum mr_status parse_value(struct gguf_cursor *c, struct gguf_entry *e)
{
    uint32_t type;
    uint64_t n = 1;
    if (!gguf_take_u32(c, &type))
        return gguf_cursor_fail_end(c);
    e->value.is_array = type == GGUF_ARRAY;
    if (e->value.is_array) {
        if (!gguf_take_u32(c, &type) || !gguf_take_u64(c, &n))
            return gguf_cursor_fail_end(c);
        if (type == GGUF_ARRAY)
            return gguf_cursor_fail(c, MR_NO_SUPPORT, "an array of arrays");
    }
    const size_t bytes = type == GGUF_STRING ? sizeof(uint64_t) : gguf_type_bytes(type); /* the least that one takes */
    if (bytes == 0)
        return gguf_cursor_fail(c, MR_BAD_FORMAT, "unknown value type %lu", (unsigned long)type);
    e->value.type = (enum gguf_type)type;
    if (n > gguf_left(c) / bytes)
        return gguf_cursor_fail(c, MR_BAD_FORMAT, "%llu values of type %s, but only %zu bytes are left", (unsigned long long)n,
                                gguf_type_name(e->value.type), gguf_left(c));
    e->value.n = (size_t)n;
    return parse_elements(c, e);
}

static enum mr_status parse_entries(struct gguf_cursor *c, struct gguf_header *h, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        c->kind = NULL;
        if (!mem_grow(&h->entry, &h->entry_capacity, h->n_entry + 1, sizeof *h->entry))
            return gguf_cursor_fail(c, MR_NO_MEMORY, "no memory for %llu keys", (unsigned long long)n);
        struct gguf_entry *e = &h->entry[h->n_entry++];
        memset(e, 0, sizeof *e);
        MR_TRY(gguf_take_string(c, "key", GGUF_MAX_KEY, &e->value.key));
        if (e->value.key.n == 0)
            return gguf_cursor_fail(c, MR_BAD_FORMAT, "an empty key");
        c->kind = "key";
        c->name = e->value.key;
        MR_TRY(parse_value(c, e));
    }
    return MR_OK;
}

/* general.alignment: a power of two and a multiple of 8. */
static enum mr_status find_alignment(struct gguf_cursor *c, const struct gguf_header *h, uint32_t *alignment)
{
    static const struct gguf_string key = {"general.alignment", sizeof "general.alignment" - 1};
    *alignment = GGUF_DEFAULT_ALIGNMENT;
    for (size_t i = 0; i < h->n_entry; i++) {
        const struct gguf_entry *e = &h->entry[i];
        if (gguf_string_compare(e->value.key, key) != 0)
            continue;
        c->kind = "key";
        c->name = key;
        if (e->value.type != GGUF_U32 || e->value.is_array)
            return gguf_cursor_fail(c, MR_BAD_FORMAT, "not a u32");
        memcpy(alignment, e->bytes, sizeof *alignment);
        if (*alignment < 8 || (*alignment & (*alignment - 1)) != 0)
            return gguf_cursor_fail(c, MR_BAD_FORMAT, "%lu is not a power of two of at least 8", (unsigned long)*alignment);
    }
    return MR_OK;
}

static enum mr_status parse_version(struct gguf_cursor *c, struct gguf_header *h)
{
    const unsigned char *magic = gguf_take(c, 4);
    if (magic == NULL || memcmp(magic, "GGUF", 4) != 0)
        return gguf_cursor_fail(c, MR_BAD_FORMAT, "no GGUF magic");
    if (!gguf_take_u32(c, &h->version))
        return gguf_cursor_fail_end(c);
    if (h->version != 0 && (h->version & 0xffff) == 0)
        return gguf_cursor_fail(c, MR_NO_SUPPORT, "the file is big endian (version %#lx)", (unsigned long)h->version);
    if (h->version < 2 || h->version > 3)
        return gguf_cursor_fail(c, MR_NO_SUPPORT, "GGUF version %lu; versions 2 and 3 are supported",
                                (unsigned long)h->version);
    return MR_OK;
}

static enum mr_status parse(struct gguf_cursor *c, struct gguf_header *h)
{
    enum {
        LEAST_ENTRY = 8 + 1 + 4 + 1, /* bytes: a key of one letter and a bool */
        LEAST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8
    };
    uint64_t n_tensor, n_entry;
    uint32_t alignment;
    MR_TRY(parse_version(c, h));
    if (!gguf_take_u64(c, &n_tensor) || !gguf_take_u64(c, &n_entry))
        return gguf_cursor_fail_end(c);
    if (n_tensor > gguf_left(c) / LEAST_TENSOR || n_tensor > INT_MAX)
        return gguf_cursor_fail(c, MR_BAD_FORMAT, "%llu tensors, but only %zu bytes are left", (unsigned long long)n_tensor,
                                gguf_left(c));
    if (n_entry > gguf_left(c) / LEAST_ENTRY || n_entry > INT_MAX)
        return gguf_cursor_fail(c, MR_BAD_FORMAT, "%llu keys, but only %zu bytes are left", (unsigned long long)n_entry,
                                gguf_left(c));
    MR_TRY(parse_entries(c, h, n_entry));
    MR_TRY(find_alignment(c, h, &alignment));
    return gguf_take_tensors(c, h, n_tensor, alignment);
}

enum mr_status gguf_header_parse(struct gguf_header *h, const unsigned char *bytes, size_t n, size_t file_bytes,
                                 struct mr_error *err)
{
    struct gguf_cursor c = {.bytes = bytes, .n = n, .file_bytes = file_bytes, .err = err};
    memset(h, 0, sizeof *h);
    const enum mr_status status = parse(&c, h);
    if (status != MR_OK)
        gguf_header_release(h);
    return status;
}

void gguf_header_release(struct gguf_header *h)
{
    for (size_t i = 0; i < h->n_entry; i++)
        free(h->entry[i].string);
    free(h->entry);
    free(h->tensor);
    memset(h, 0, sizeof *h);
}
