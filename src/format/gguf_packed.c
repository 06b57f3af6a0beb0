/* gguf_packed.c: files whose tensors are packed for products (gguf_internal.h tells their keys). */
#include "format/gguf_internal.h"

bool gguf_is_packed(const struct gguf *g) { return gguf_value_find(g, GGUF_PACK_VERSION_KEY) != NULL; }

/* An array of n elements; integers, or strings where `strings`. */
static enum mr_status find_array(const struct gguf *g, const struct gguf_value **out, const char *key, bool strings, size_t n,
                                 struct mr_error *err)
{
    MR_TRY(gguf_get_array(g, key, out, err));
    if (strings ? (*out)->type != GGUF_STRING : !gguf_is_integer(*out))
        return mr_fail(err, MR_BAD_FORMAT, "key '%s' is an array of %s", key, gguf_type_name((*out)->type));
    if ((*out)->n != n)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s' has %zu elements, not %zu", key, (*out)->n, n);
    return MR_OK;
}

/* dim[4] from element 4 * i on; the number of weights must stay far from overflowing. */
static enum mr_status read_shape(struct gguf_tensor *t, const struct gguf_value *shapes, size_t i, struct mr_error *err)
{
    int64_t left = INT64_MAX / 16;
    t->n_dims = 1;
    for (int d = 0; d < GGUF_MAX_DIMS; d++) {
        t->dims[d] = gguf_as_i64(shapes, GGUF_MAX_DIMS * i + (size_t)d);
        if (t->dims[d] < 1 || t->dims[d] > left)
            return mr_fail(err, MR_BAD_FORMAT, "key '%s': dimension %d of tensor '%.*s' is %lld", GGUF_PACK_SHAPES_KEY, d,
                           (int)t->name.n, t->name.s, (long long)t->dims[d]);
        left /= t->dims[d];
        if (t->dims[d] > 1)
            t->n_dims = d + 1;
    }
    if (t->dims[0] % t->quant->block != 0)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s': rows of %lld in tensor '%.*s' are no blocks of %s", GGUF_PACK_SHAPES_KEY,
                       (long long)t->dims[0], (int)t->name.n, t->name.s, t->quant->name);
    return MR_OK;
}

enum mr_status gguf_read_packing(struct gguf *g, struct mr_error *err)
{
    const struct gguf_value *products, *types, *shapes;
    const size_t n = g->header.n_tensor;
    int64_t version;
    if (!gguf_is_packed(g))
        return MR_OK;
    MR_TRY(gguf_get_int(g, GGUF_PACK_VERSION_KEY, 0, INT32_MAX, &version, err));
    if (version != GGUF_PACK_VERSION)
        return mr_fail(err, MR_NO_SUPPORT, "key '%s': packed in layout %lld, this build reads %d; pack the model again",
                       GGUF_PACK_VERSION_KEY, (long long)version, GGUF_PACK_VERSION);
    if (g->n_part > 1)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s': a packed file is never split", GGUF_PACK_VERSION_KEY);
    MR_TRY(find_array(g, &products, GGUF_PACK_PRODUCTS_KEY, true, n, err));
    MR_TRY(find_array(g, &types, GGUF_PACK_TYPES_KEY, false, n, err));
    MR_TRY(find_array(g, &shapes, GGUF_PACK_SHAPES_KEY, false, n * GGUF_MAX_DIMS, err));
    for (size_t i = 0; i < n; i++) {
        struct gguf_tensor *t = &g->header.tensor[i];
        t->product = gguf_as_string(products, i);
        if (t->product.n == 0)
            continue;
        const uint64_t type = gguf_as_u64(types, i);
        t->quant = type < QUANT_TYPE_END ? quant_find((uint32_t)type) : NULL;
        if (t->quant == NULL)
            return mr_fail(err, MR_BAD_FORMAT, "key '%s': tensor '%.*s' has the unknown type %llu", GGUF_PACK_TYPES_KEY,
                           (int)t->name.n, t->name.s, (unsigned long long)type);
        MR_TRY(read_shape(t, shapes, i, err));
    }
    return MR_OK;
}
