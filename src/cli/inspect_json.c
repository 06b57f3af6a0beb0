/* inspect_json.c: a model file as JSON. */
#include <math.h>

#include "cli/inspect.h"

static json_t *clean_string(struct gguf_string s)
{
    struct string_buffer b;
    string_buffer_init(&b);
    inspect_clean(&b, s, false);
    json_t *string = b.failed ? NULL : json_stringn(b.s != NULL ? b.s : "", b.n);
    string_buffer_release(&b);
    return string;
}

/* What JSON has no number for becomes a string: integers of 2^63 and more, and floats that are not finite. */
static json_t *element(const struct gguf_value *v, size_t i)
{
    if (v->type == GGUF_STRING)
        return clean_string(gguf_as_string(v, i));
    if (v->type == GGUF_BOOL)
        return json_boolean(gguf_as_u64(v, i) != 0);
    if (v->type == GGUF_U64 && gguf_as_u64(v, i) > INT64_MAX)
        return json_sprintf("%llu", (unsigned long long)gguf_as_u64(v, i));
    if (gguf_is_integer(v))
        return json_integer(gguf_as_i64(v, i));
    const double x = gguf_as_f64(v, i);
    return isfinite(x) ? json_real(x) : json_sprintf("%g", x);
}

static json_t *value(const struct gguf_value *v)
{
    if (!v->is_array)
        return element(v, 0);
    json_t *array = json_array();
    for (size_t i = 0; i < v->n; i++)
        if (json_array_append_new(array, element(v, i)) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

static json_t *metadata(const struct gguf *g)
{
    json_t *object = json_object();
    bool failed = object == NULL;
    for (int i = 0; i < gguf_n_values(g) && !failed; i++) {
        const struct gguf_value *v = gguf_value_at(g, i);
        struct string_buffer key;
        string_buffer_init(&key);
        inspect_clean(&key, v->key, false);
        failed = key.failed || json_object_setn_new(object, key.s, key.n, value(v)) != 0;
        string_buffer_release(&key);
    }
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *tensor(const struct gguf_tensor *t, const char *kernel)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->n_dims; i++)
        json_array_append_new(shape, json_integer(t->dims[i]));
    return json_pack("{s:o, s:s, s:o, s:I, s:I, s:i, s:s?}", "name", clean_string(t->name), "type", t->quant->name, "shape",
                     shape, "bytes", (json_int_t)t->bytes, "offset", (json_int_t)t->file_offset, "split", t->split, "kernel",
                     kernel[0] != '\0' ? kernel : NULL);
}

static json_t *tensors(const struct inspection *in)
{
    json_t *array = json_array();
    for (int i = 0; i < gguf_n_tensors(in->g); i++)
        if (json_array_append_new(array, tensor(gguf_tensor_at(in->g, i), in->needs.kernel[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

/* Bytes that it takes to run one sequence of n_ctx tokens; or why there is no telling. */
static json_t *needs(const struct inspect_needs *n)
{
    const struct model_memory *m = &n->memory;
    if (!n->is_model)
        return json_pack("{s:s, s:s}", "isa", n->isa, "error", n->reason.message);
    return json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I}", "isa", n->isa, "n_ctx", n->n_ctx, "weight_bytes",
                     (json_int_t)m->weight_bytes, "weight_bytes_used", (json_int_t)m->weight_bytes_used, "kv_bytes_per_token",
                     (json_int_t)m->kv_bytes_per_token, "kv_bytes", (json_int_t)m->kv_bytes, "activation_bytes",
                     (json_int_t)m->activation_bytes, "total_bytes",
                     (json_int_t)(m->weight_bytes + m->kv_bytes + m->activation_bytes));
}

json_t *inspect_json(const struct inspection *in)
{
    json_int_t n_weight = 0, bytes = 0;
    for (int i = 0; i < gguf_n_tensors(in->g); i++) {
        n_weight += inspect_n_weights(gguf_tensor_at(in->g, i));
        bytes += (json_int_t)gguf_tensor_at(in->g, i)->bytes;
    }
    return json_pack("{s:s, s:i, s:I, s:i, s:I, s:I, s:o, s:o, s:o}", "format", "gguf", "version", (int)gguf_version(in->g),
                     "file_bytes", (json_int_t)gguf_file_bytes(in->g), "files", gguf_n_splits(in->g), "tensor_bytes", bytes,
                     "n_parameters", n_weight, "metadata", metadata(in->g), "tensors", tensors(in), "needs", needs(&in->needs));
}
