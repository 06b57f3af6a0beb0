/* inspect_text.c: a model file for people. */
#include "cli/inspect.h"

#include "quant/sparse.h"

enum {
    MAX_ELEMENTS = 6, /* of an array that are shown */
    MAX_TEXT = 120    /* bytes of a string that are shown */
};

static void add_size(struct string_buffer *out, uint64_t bytes)
{
    static const char *const unit[] = {"bytes", "kB", "MB", "GB", "TB"};
    double size = (double)bytes;
    int u = 0;
    while (size >= 999.5 && u < 4) {
        size /= 1000;
        u++;
    }
    string_buffer_printf(out, u == 0 || size >= 99.5 ? "%.0f %s" : "%.1f %s", size, unit[u]);
}

/* In quotes; a long one is cut, and says how much is missing. */
static void add_string(struct string_buffer *out, struct gguf_string s)
{
    const size_t n = s.n < MAX_TEXT ? s.n : MAX_TEXT;
    string_buffer_puts(out, "\"");
    inspect_clean(out, (struct gguf_string){s.s, n}, true);
    string_buffer_puts(out, "\"");
    if (n < s.n)
        string_buffer_printf(out, " and %zu bytes more", s.n - n);
}

static void add_element(struct string_buffer *out, const struct gguf_value *v, size_t i)
{
    if (v->type == GGUF_STRING)
        add_string(out, gguf_as_string(v, i));
    else if (v->type == GGUF_BOOL)
        string_buffer_puts(out, gguf_as_u64(v, i) != 0 ? "true" : "false");
    else if (v->type == GGUF_U64)
        string_buffer_printf(out, "%llu", (unsigned long long)gguf_as_u64(v, i));
    else if (gguf_is_integer(v))
        string_buffer_printf(out, "%lld", (long long)gguf_as_i64(v, i));
    else
        string_buffer_printf(out, "%.7g", gguf_as_f64(v, i));
}

static void add_value(struct string_buffer *out, const struct gguf_value *v)
{
    if (v->is_array)
        string_buffer_printf(out, "%zu of %s: ", v->n, gguf_type_name(v->type));
    for (size_t i = 0; i < v->n && i < MAX_ELEMENTS; i++) {
        string_buffer_puts(out, i > 0 ? ", " : "");
        add_element(out, v, i);
    }
    string_buffer_puts(out, v->n > MAX_ELEMENTS ? ", ...\n" : "\n");
}

static void add_metadata(struct string_buffer *out, const struct gguf *g)
{
    string_buffer_puts(out, "\nMetadata\n");
    for (int i = 0; i < gguf_n_values(g); i++) {
        const struct gguf_value *v = gguf_value_at(g, i);
        const size_t start = out->n;
        string_buffer_puts(out, "  ");
        inspect_clean(out, v->key, true);
        string_buffer_printf(out, "%*s ", out->n - start < 44 ? (int)(44 - (out->n - start)) : 0, "");
        add_value(out, v);
    }
}

static void add_tensor(struct string_buffer *out, const struct gguf_tensor *t, const char *kernel)
{
    size_t start = out->n;
    string_buffer_puts(out, "  ");
    inspect_clean(out, t->name, true);
    string_buffer_printf(out, "%*s %-6s ", out->n - start < 34 ? (int)(34 - (out->n - start)) : 0, "", t->quant->name);
    start = out->n;
    for (int i = 0; i < t->n_dims; i++)
        string_buffer_printf(out, "%s%lld", i > 0 ? " x " : "", (long long)t->dims[i]);
    string_buffer_printf(out, "%*s ", out->n - start < 20 ? (int)(20 - (out->n - start)) : 0, "");
    start = out->n;
    add_size(out, t->bytes);
    if (kernel[0] != '\0')
        string_buffer_printf(out, "%*s %s", out->n - start < 10 ? (int)(10 - (out->n - start)) : 0, "", kernel);
    string_buffer_puts(out, "\n");
}

static void add_types(struct string_buffer *out, const struct gguf *g)
{
    int n_dense = 0;
    while (quant_at(n_dense) != NULL)
        n_dense++;
    const struct quant *q;
    string_buffer_puts(out, "\nTypes\n");
    for (int k = 0; (q = k < n_dense ? quant_at(k) : quant_sparse_at(k - n_dense)) != NULL; k++) {
        int64_t n = 0, n_weight = 0;
        uint64_t bytes = 0;
        for (int i = 0; i < gguf_n_tensors(g); i++) {
            const struct gguf_tensor *t = gguf_tensor_at(g, i);
            if (t->quant != q)
                continue;
            n++;
            n_weight += inspect_n_weights(t);
            bytes += t->bytes;
        }
        if (n == 0)
            continue;
        string_buffer_printf(out, "  %-6s %5lld tensors %13lld weights, ", q->name, (long long)n, (long long)n_weight);
        add_size(out, bytes);
        string_buffer_puts(out, "\n");
    }
}

static void add_need(struct string_buffer *out, const char *what, size_t bytes)
{
    string_buffer_printf(out, "  %-42s ", what);
    add_size(out, bytes);
    string_buffer_puts(out, "\n");
}

static void add_needs(struct string_buffer *out, const struct inspect_needs *n)
{
    const struct model_memory *m = &n->memory;
    if (!n->is_model) {
        string_buffer_printf(out, "\nNo model that this build runs: %s\n", n->reason.message);
        return;
    }
    string_buffer_printf(out, "\nMemory for one sequence of %d tokens (%s)\n", n->n_ctx, n->isa);
    add_need(out, "weights, packed for these kernels", m->weight_bytes);
    if (m->weight_bytes_used < m->weight_bytes)
        add_need(out, "  of which each token reads", m->weight_bytes_used);
    add_need(out, "keys and values", m->kv_bytes);
    add_need(out, "  of which each token takes", m->kv_bytes_per_token);
    add_need(out, "activations", m->activation_bytes);
    add_need(out, "in all", m->weight_bytes + m->kv_bytes + m->activation_bytes);
}

void inspect_text(const struct inspection *in, struct string_buffer *out)
{
    string_buffer_printf(out, "%s: GGUF version %lu, ", in->path, (unsigned long)gguf_version(in->g));
    add_size(out, gguf_file_bytes(in->g));
    if (gguf_n_splits(in->g) > 1)
        string_buffer_printf(out, " in %d files", gguf_n_splits(in->g));
    string_buffer_printf(out, ", %d keys, %d tensors\n", gguf_n_values(in->g), gguf_n_tensors(in->g));
    add_metadata(out, in->g);
    if (gguf_n_tensors(in->g) == 0)
        return;
    string_buffer_puts(out, "\nTensors (type, shape with the row length first, size, kernel that multiplies)\n");
    for (int i = 0; i < gguf_n_tensors(in->g); i++)
        add_tensor(out, gguf_tensor_at(in->g, i), in->needs.kernel[i]);
    add_types(out, in->g);
    add_needs(out, &in->needs);
}
