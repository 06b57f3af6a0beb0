/* gguf_write_values.c: keys and values of a header under construction. */
#include "base/memory.h"
#include "format/gguf_internal.h"
#include "format/gguf_writer.h"

enum mr_status gguf_begin_value(struct gguf_writer *w, struct gguf_string key, enum gguf_type type, bool is_array, size_t n,
                                struct mr_error *err)
{
    if (w->in_data)
        return mr_fail(err, MR_BAD_INPUT, "key '%.*s' comes after the header was written", (int)(key.n < 128 ? key.n : 128),
                       key.s);
    gguf_add_string(&w->values, key);
    if (is_array)
        gguf_add_u32(&w->values, GGUF_ARRAY);
    gguf_add_u32(&w->values, (uint32_t)type);
    if (is_array)
        gguf_add_u64(&w->values, n);
    w->n_value++;
    return MR_OK;
}

static enum mr_status put_bytes(struct gguf_writer *w, const char *key, enum gguf_type type, const void *bytes,
                                struct mr_error *err)
{
    MR_TRY(gguf_begin_value(w, gguf_c_string(key), type, false, 1, err));
    string_buffer_add(&w->values, bytes, gguf_type_bytes(type));
    return gguf_check_buffer(&w->values, err);
}

/* Whether the value survives being stored in the low bytes of an integer type. */
static bool fits(enum gguf_type type, int64_t value)
{
    static const struct {
        enum gguf_type type;
        int64_t low, high;
    } limit[] = {
        {GGUF_U8, 0, UINT8_MAX},          {GGUF_I8, INT8_MIN, INT8_MAX},    {GGUF_U16, 0, UINT16_MAX},
        {GGUF_I16, INT16_MIN, INT16_MAX}, {GGUF_U32, 0, UINT32_MAX},        {GGUF_I32, INT32_MIN, INT32_MAX},
        {GGUF_U64, 0, INT64_MAX},         {GGUF_I64, INT64_MIN, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof limit / sizeof *limit; i++)
        if (limit[i].type == type)
            return value >= limit[i].low && value <= limit[i].high;
    return false;
}

enum mr_status gguf_put_int(struct gguf_writer *w, const char *key, enum gguf_type type, int64_t value, struct mr_error *err)
{
    if (!fits(type, value))
        return mr_fail(err, MR_BAD_INPUT, "key '%s': %lld is no %s", key, (long long)value, gguf_type_name(type));
    if (strcmp(key, "general.alignment") == 0 && type == GGUF_U32) {
        if (w->n_tensor > 0)
            return mr_fail(err, MR_BAD_INPUT, "key '%s' comes after a tensor", key);
        if (value < 8 || (value & (value - 1)) != 0)
            return mr_fail(err, MR_BAD_INPUT, "key '%s': %lld is not a power of two of at least 8", key, (long long)value);
        w->alignment = (uint32_t)value;
    }
    return put_bytes(w, key, type, &value, err);
}

enum mr_status gguf_put_f32(struct gguf_writer *w, const char *key, float value, struct mr_error *err)
{
    return put_bytes(w, key, GGUF_F32, &value, err);
}

enum mr_status gguf_put_bool(struct gguf_writer *w, const char *key, bool value, struct mr_error *err)
{
    const unsigned char byte = value;
    return put_bytes(w, key, GGUF_BOOL, &byte, err);
}

enum mr_status gguf_put_string(struct gguf_writer *w, const char *key, struct gguf_string s, struct mr_error *err)
{
    MR_TRY(gguf_begin_value(w, gguf_c_string(key), GGUF_STRING, false, 1, err));
    gguf_add_string(&w->values, s);
    return gguf_check_buffer(&w->values, err);
}

enum mr_status gguf_put_array(struct gguf_writer *w, const char *key, enum gguf_type type, const void *elements, size_t n,
                              struct mr_error *err)
{
    size_t bytes;
    if (gguf_type_bytes(type) == 0 || !size_mul(&bytes, n, gguf_type_bytes(type)))
        return mr_fail(err, MR_BAD_INPUT, "key '%s': no array of %zu %s", key, n, gguf_type_name(type));
    MR_TRY(gguf_begin_value(w, gguf_c_string(key), type, true, n, err));
    string_buffer_add(&w->values, elements, bytes);
    return gguf_check_buffer(&w->values, err);
}

enum mr_status gguf_put_strings(struct gguf_writer *w, const char *key, const struct gguf_string *s, size_t n,
                                struct mr_error *err)
{
    MR_TRY(gguf_begin_value(w, gguf_c_string(key), GGUF_STRING, true, n, err));
    for (size_t i = 0; i < n; i++)
        gguf_add_string(&w->values, s[i]);
    return gguf_check_buffer(&w->values, err);
}

enum mr_status gguf_put_value(struct gguf_writer *w, const struct gguf_value *v, struct mr_error *err)
{
    static const char *const split[] = {"split.no", "split.count", "split.tensors.count"};
    const struct gguf_string alignment = gguf_c_string("general.alignment");
    for (size_t i = 0; i < sizeof split / sizeof *split; i++)
        if (gguf_string_compare(v->key, gguf_c_string(split[i])) == 0)
            return MR_OK;
    if (gguf_string_compare(v->key, alignment) == 0)
        return gguf_put_int(w, alignment.s, v->type, gguf_as_i64(v, 0), err);
    MR_TRY(gguf_begin_value(w, v->key, v->type, v->is_array, v->n, err));
    for (size_t i = 0; v->type == GGUF_STRING && i < v->n; i++)
        gguf_add_string(&w->values, gguf_as_string(v, i));
    if (v->type != GGUF_STRING)
        string_buffer_add(&w->values, (const char *)((const struct gguf_entry *)v)->bytes, v->n * gguf_type_bytes(v->type));
    return gguf_check_buffer(&w->values, err);
}
