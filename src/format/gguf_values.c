/* gguf_values.c: typed access to metadata. */
#include <math.h>

#include "format/gguf_internal.h"

static const struct {
    const char *name;
    size_t bytes; /* 0: not of fixed size */
} types[] = {
    [GGUF_U8] = {"u8", 1},       [GGUF_I8] = {"i8", 1},   [GGUF_U16] = {"u16", 2}, [GGUF_I16] = {"i16", 2},
    [GGUF_U32] = {"u32", 4},     [GGUF_I32] = {"i32", 4}, [GGUF_F32] = {"f32", 4}, [GGUF_BOOL] = {"bool", 1},
    [GGUF_U64] = {"u64", 8},     [GGUF_I64] = {"i64", 8}, [GGUF_F64] = {"f64", 8}, [GGUF_STRING] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0},
};

enum {
    N_TYPES = sizeof types / sizeof *types
};

size_t gguf_type_bytes(uint32_t type) { return type < N_TYPES ? types[type].bytes : 0; }

const char *gguf_type_name(enum gguf_type type) { return (uint32_t)type < N_TYPES ? types[type].name : "unknown"; }

bool gguf_is_integer(const struct gguf_value *v)
{
    return v->type != GGUF_F32 && v->type != GGUF_F64 && v->type != GGUF_BOOL && gguf_type_bytes(v->type) != 0;
}

bool gguf_is_number(const struct gguf_value *v) { return gguf_is_integer(v) || v->type == GGUF_F32 || v->type == GGUF_F64; }

static const unsigned char *element(const struct gguf_value *v, size_t i)
{
    return ((const struct gguf_entry *)v)->bytes + i * gguf_type_bytes(v->type);
}

/* The element's bytes, low ones first, zeros above. */
static uint64_t raw_bits(const struct gguf_value *v, size_t i)
{
    uint64_t bits = 0;
    if (gguf_type_bytes(v->type) > 0)
        memcpy(&bits, element(v, i), gguf_type_bytes(v->type));
    return bits;
}

int64_t gguf_as_i64(const struct gguf_value *v, size_t i)
{
    const uint64_t bits = raw_bits(v, i);
    switch (v->type) {
    case GGUF_I8:
        return (int8_t)bits;
    case GGUF_I16:
        return (int16_t)bits;
    case GGUF_I32:
        return (int32_t)bits;
    default:
        return (int64_t)bits;
    }
}

uint64_t gguf_as_u64(const struct gguf_value *v, size_t i) { return (uint64_t)gguf_as_i64(v, i); }

double gguf_as_f64(const struct gguf_value *v, size_t i)
{
    float f;
    double d;
    switch (v->type) {
    case GGUF_F32:
        memcpy(&f, element(v, i), sizeof f);
        return (double)f;
    case GGUF_F64:
        memcpy(&d, element(v, i), sizeof d);
        return d;
    case GGUF_U64:
        return (double)gguf_as_u64(v, i);
    default:
        return (double)gguf_as_i64(v, i);
    }
}

struct gguf_string gguf_as_string(const struct gguf_value *v, size_t i)
{
    if (v->type != GGUF_STRING)
        return (struct gguf_string){"", 0};
    const unsigned char *at = ((const struct gguf_entry *)v)->string[i];
    uint64_t n;
    memcpy(&n, at, sizeof n);
    return (struct gguf_string){(const char *)at + sizeof n, (size_t)n};
}

/* The value of a key that must be a scalar of the class that `is` accepts; *out NULL: no such key. */
static enum mr_status find_scalar(const struct gguf *g, const char *key, bool (*is)(const struct gguf_value *),
                                  const char *wanted, const struct gguf_value **out, struct mr_error *err)
{
    const struct gguf_value *v = gguf_value_find(g, key);
    *out = v;
    if (v == NULL || (!v->is_array && is(v)))
        return MR_OK;
    *out = NULL;
    return mr_fail(err, MR_BAD_FORMAT, "key '%s' is of type %s%s, not %s", key, v->is_array ? "array of " : "",
                   gguf_type_name(v->type), wanted);
}

static enum mr_status fail_missing(const char *key, struct mr_error *err)
{
    return mr_fail(err, MR_NOT_FOUND, "key '%s' is missing", key);
}

static enum mr_status check_int(const struct gguf_value *v, const char *key, int64_t low, int64_t high, int64_t *out,
                                struct mr_error *err)
{
    if (v->type == GGUF_U64 && gguf_as_u64(v, 0) > INT64_MAX)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s' is %llu, not in %lld..%lld", key, (unsigned long long)gguf_as_u64(v, 0),
                       (long long)low, (long long)high);
    const int64_t value = gguf_as_i64(v, 0);
    if (value < low || value > high)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s' is %lld, not in %lld..%lld", key, (long long)value, (long long)low,
                       (long long)high);
    *out = value;
    return MR_OK;
}

enum mr_status gguf_get_int(const struct gguf *g, const char *key, int64_t low, int64_t high, int64_t *out,
                            struct mr_error *err)
{
    const struct gguf_value *v;
    *out = 0;
    MR_TRY(find_scalar(g, key, gguf_is_integer, "an integer", &v, err));
    return v != NULL ? check_int(v, key, low, high, out, err) : fail_missing(key, err);
}

enum mr_status gguf_get_int_or(const struct gguf *g, const char *key, int64_t low, int64_t high, int64_t fallback, int64_t *out,
                               struct mr_error *err)
{
    const struct gguf_value *v;
    *out = fallback;
    MR_TRY(find_scalar(g, key, gguf_is_integer, "an integer", &v, err));
    return v != NULL ? check_int(v, key, low, high, out, err) : MR_OK;
}

static enum mr_status check_f32(const struct gguf_value *v, const char *key, float *out, struct mr_error *err)
{
    const float value = (float)gguf_as_f64(v, 0);
    if (!isfinite(value))
        return mr_fail(err, MR_BAD_FORMAT, "key '%s' is %g, not a finite number", key, gguf_as_f64(v, 0));
    *out = value;
    return MR_OK;
}

enum mr_status gguf_get_f32(const struct gguf *g, const char *key, float *out, struct mr_error *err)
{
    const struct gguf_value *v;
    *out = 0;
    MR_TRY(find_scalar(g, key, gguf_is_number, "a number", &v, err));
    return v != NULL ? check_f32(v, key, out, err) : fail_missing(key, err);
}

enum mr_status gguf_get_f32_or(const struct gguf *g, const char *key, float fallback, float *out, struct mr_error *err)
{
    const struct gguf_value *v;
    *out = fallback;
    MR_TRY(find_scalar(g, key, gguf_is_number, "a number", &v, err));
    return v != NULL ? check_f32(v, key, out, err) : MR_OK;
}

static bool is_bool(const struct gguf_value *v) { return v->type == GGUF_BOOL; }

enum mr_status gguf_get_bool_or(const struct gguf *g, const char *key, bool fallback, bool *out, struct mr_error *err)
{
    const struct gguf_value *v;
    *out = fallback;
    MR_TRY(find_scalar(g, key, is_bool, "a bool", &v, err));
    if (v != NULL)
        *out = gguf_as_u64(v, 0) != 0;
    return MR_OK;
}

static bool is_string(const struct gguf_value *v) { return v->type == GGUF_STRING; }

enum mr_status gguf_get_string(const struct gguf *g, const char *key, struct gguf_string *out, struct mr_error *err)
{
    const struct gguf_value *v;
    *out = (struct gguf_string){"", 0};
    MR_TRY(find_scalar(g, key, is_string, "a string", &v, err));
    if (v == NULL)
        return fail_missing(key, err);
    *out = gguf_as_string(v, 0);
    return MR_OK;
}

enum mr_status gguf_get_array(const struct gguf *g, const char *key, const struct gguf_value **out, struct mr_error *err)
{
    *out = gguf_value_find(g, key);
    if (*out == NULL)
        return fail_missing(key, err);
    if ((*out)->is_array)
        return MR_OK;
    const enum gguf_type type = (*out)->type;
    *out = NULL;
    return mr_fail(err, MR_BAD_FORMAT, "key '%s' is of type %s, not an array", key, gguf_type_name(type));
}
