/* weights.c: planning and packing tensors. */
#include "model/loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/family.h"

enum {
    ALIGN = 64,
    SLAB_ROWS = 64,       /* rows are packed in multiples of it */
    SLAB_BYTES = 4 << 20, /* about the bytes of a file that are in memory at a time */
    NAME_BYTES = 64
};

const struct hparams *loader_hparams(const struct loader *l) { return l->h; }

struct shape_text {
    char s[96];
};

static struct shape_text shape_text(const struct gguf_tensor *t)
{
    struct shape_text text = {""};
    size_t n = 0;
    for (int i = 0; i < t->n_dims && n < sizeof text.s; i++)
        n += (size_t)snprintf(text.s + n, sizeof text.s - n, i > 0 ? " x %lld" : "%lld", (long long)t->dims[i]);
    return text;
}

/* The shape that a tensor must have; trailing dimensions of 1 are left out. */
struct shape {
    int n_in, n_out, n_expert;
};

static struct shape_text wanted_text(struct shape s)
{
    struct shape_text text;
    int n = snprintf(text.s, sizeof text.s, "%d", s.n_in);
    if (s.n_out > 1 || s.n_expert > 1)
        n += snprintf(text.s + n, sizeof text.s - (size_t)n, " x %d", s.n_out);
    if (s.n_expert > 1)
        snprintf(text.s + n, sizeof text.s - (size_t)n, " x %d", s.n_expert);
    return text;
}

static enum mr_status claim(struct loader *l, const struct gguf_tensor **out, const char *name, struct shape s,
                            struct mr_error *err)
{
    const struct gguf_tensor *t = gguf_tensor_find(l->g, name);
    if (t == NULL)
        return mr_fail(err, MR_NOT_FOUND, "there is no tensor '%s'", name);
    if (t->dims[0] != s.n_in || t->dims[1] != s.n_out || t->dims[2] != s.n_expert || t->dims[3] != 1)
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%s' has the shape %s, not %s", name, shape_text(t).s, wanted_text(s).s);
    for (int i = 0; i < gguf_n_tensors(l->g); i++)
        if (gguf_tensor_at(l->g, i) == t)
            l->claimed[i] = true;
    *out = t;
    return MR_OK;
}

static enum mr_status add_item(struct loader *l, const struct item *item, struct mr_error *err)
{
    if (!mem_grow(&l->item, &l->item_capacity, l->n_item + 1, sizeof *l->item))
        return mr_fail(err, MR_NO_MEMORY, "no memory for the list of tensors");
    l->item[l->n_item++] = *item;
    return MR_OK;
}

/* A matrix that is kept in `form`; n_expert 0: one. */
static enum mr_status bind_matrix(struct loader *l, struct weight *out, struct device *device, enum weight_form form,
                                  const char *name, int n_expert, int n_out, int n_in, struct mr_error *err)
{
    const struct gguf_tensor *t;
    MR_TRY(claim(l, &t, name, (struct shape){n_in, n_out, n_expert > 0 ? n_expert : 1}, err));
    const struct weight_source source = {t->quant, n_out, n_in};
    const enum mr_status status = device->ops->weight_plan(device, out, &source, form, err);
    if (status != MR_OK)
        return mr_fail_in(err, status, "tensor '%s'", name);
    l->weights->has_q8 |= out->wants_q8;
    l->weights->rounds_bf16 |= out->rounds_bf16;
    out->n_expert = n_expert;
    out->expert_bytes = size_align(out->bytes, ALIGN);
    if (n_expert > 0 && !size_mul(&out->bytes, out->expert_bytes, (size_t)n_expert))
        return mr_fail(err, MR_NO_SUPPORT, "tensor '%s': %d experts are too large", name, n_expert);
    return add_item(l, &(struct item){t, out, NULL, device, out->bytes}, err);
}

enum mr_status loader_vector(struct loader *l, struct tensor *out, const char *name, int n, struct mr_error *err)
{
    const struct gguf_tensor *t;
    MR_TRY(claim(l, &t, name, (struct shape){n, 1, 1}, err));
    const size_t bytes = (size_t)n * sizeof(float);
    *out = (struct tensor){.row_bytes = bytes, .n_row = 1, .n_col = n};
    return add_item(l, &(struct item){t, NULL, out, l->options->device, bytes}, err);
}

struct name {
    char s[NAME_BYTES];
};

static struct name layer_name(int layer, const char *name)
{
    struct name full;
    snprintf(full.s, sizeof full.s, "blk.%d.%s", layer, name);
    return full;
}

enum mr_status loader_layer_vector(struct loader *l, struct tensor *out, int layer, const char *name, int n,
                                   struct mr_error *err)
{
    return loader_vector(l, out, layer_name(layer, name).s, n, err);
}

enum mr_status loader_matrix(struct loader *l, struct weight *out, const char *name, int n_out, int n_in, struct mr_error *err)
{
    return bind_matrix(l, out, l->options->device, model_weight_form(l->options->precision), name, 0, n_out, n_in, err);
}

enum mr_status loader_layer_matrix(struct loader *l, struct weight *out, int layer, const char *name, int n_out, int n_in,
                                   struct mr_error *err)
{
    return loader_matrix(l, out, layer_name(layer, name).s, n_out, n_in, err);
}

enum mr_status loader_layer_router(struct loader *l, struct weight *out, int layer, const char *name, struct mr_error *err)
{
    const enum weight_form form = l->options->precision == PRECISION_FP32 ? WEIGHT_F32 : WEIGHT_AS_IT_IS;
    return bind_matrix(l, out, l->options->device, form, layer_name(layer, name).s, 0, l->h->n_expert, l->h->n_embd, err);
}

enum mr_status loader_layer_experts(struct loader *l, struct weight *out, int layer, const char *name, int n_out, int n_in,
                                    struct mr_error *err)
{
    return bind_matrix(l, out, l->options->device, model_weight_form(l->options->precision), layer_name(layer, name).s,
                       l->h->n_expert, n_out, n_in, err);
}

enum mr_status loader_attention(struct loader *l, struct layer_weights *w, int layer, struct mr_error *err)
{
    const struct hparams *h = l->h;
    const int q = h->n_head * h->head_dim, kv = h->n_head_kv * h->head_dim;
    MR_TRY(loader_layer_vector(l, &w->attn_norm, layer, "attn_norm.weight", h->n_embd, err));
    MR_TRY(loader_layer_matrix(l, &w->q, layer, "attn_q.weight", q, h->n_embd, err));
    MR_TRY(loader_layer_matrix(l, &w->k, layer, "attn_k.weight", kv, h->n_embd, err));
    MR_TRY(loader_layer_matrix(l, &w->v, layer, "attn_v.weight", kv, h->n_embd, err));
    return loader_layer_matrix(l, &w->o, layer, "attn_output.weight", h->n_embd, q, err);
}

enum mr_status loader_feed_forward(struct loader *l, struct layer_weights *w, int layer, struct mr_error *err)
{
    const struct hparams *h = l->h;
    MR_TRY(loader_layer_vector(l, &w->ffn_norm, layer, "ffn_norm.weight", h->n_embd, err));
    MR_TRY(loader_layer_matrix(l, &w->gate, layer, "ffn_gate.weight", h->n_ff, h->n_embd, err));
    MR_TRY(loader_layer_matrix(l, &w->up, layer, "ffn_up.weight", h->n_ff, h->n_embd, err));
    return loader_layer_matrix(l, &w->down, layer, "ffn_down.weight", h->n_embd, h->n_ff, err);
}

enum mr_status loader_dense_layer(struct loader *l, struct layer_weights *w, int layer, struct mr_error *err)
{
    MR_TRY(loader_attention(l, w, layer, err));
    return loader_feed_forward(l, w, layer, err);
}

/* The embedding and the output matrix, which may be one: then it is kept once, unless two devices need it. */
static enum mr_status bind_ends(struct loader *l, struct mr_error *err)
{
    const struct hparams *h = l->h;
    struct weights *w = l->weights;
    const bool tied = gguf_tensor_find(l->g, "output.weight") == NULL;
    const enum weight_form form = model_weight_form(l->options->precision);
    MR_TRY(bind_matrix(l, &w->embed, l->embed_device, form, "token_embd.weight", 0, h->n_vocab, h->n_embd, err));
    if (!tied || l->embed_device != l->options->device)
        MR_TRY(bind_matrix(l, &w->output, l->options->device, form, tied ? "token_embd.weight" : "output.weight", 0, h->n_vocab,
                           h->n_embd, err));
    return loader_vector(l, &w->output_norm, "output_norm.weight", h->n_embd, err);
}

static enum mr_status refuse_unclaimed(const struct loader *l, struct mr_error *err)
{
    for (int i = 0; i < gguf_n_tensors(l->g); i++) {
        const struct gguf_string name = gguf_tensor_at(l->g, i)->name;
        if (!l->claimed[i] && !(name.n == 17 && memcmp(name.s, "rope_freqs.weight", 17) == 0)) /* read with the keys */
            return mr_fail(err, MR_NO_SUPPORT, "tensor '%.*s': the family '%s' does not use it",
                           name.n < 256 ? (int)name.n : 256, name.s, l->h->arch);
    }
    return MR_OK;
}

static enum mr_status bind_all(struct loader *l, struct mr_error *err)
{
    MR_TRY(bind_ends(l, err));
    if (l->h->family->bind_model != NULL)
        MR_TRY(l->h->family->bind_model(l, l->weights, err));
    for (int i = 0; i < l->h->n_layer; i++)
        MR_TRY(l->h->family->bind_layer(l, &l->weights->layer[i], i, err));
    return refuse_unclaimed(l, err);
}

/* Where each item lies in its device's buffer; the sizes of both buffers. */
static enum mr_status place(struct loader *l, size_t size[2], struct mr_error *err)
{
    size[0] = size[1] = 0;
    for (size_t i = 0; i < l->n_item; i++) {
        struct item *item = &l->item[i];
        size_t *n = &size[item->device != l->options->device];
        *(item->matrix != NULL ? &item->matrix->offset : &item->vector->offset) = *n;
        if (item->bytes > SIZE_MAX / 4 - *n)
            return mr_fail(err, MR_NO_SUPPORT, "the tensors are too large");
        *n = size_align(*n + item->bytes, ALIGN);
    }
    l->weights->bytes = size[0] + size[1];
    return MR_OK;
}

void loader_attach(const struct loader *l)
{
    const struct weights *w = l->weights;
    for (size_t i = 0; i < l->n_item; i++) {
        const struct item *item = &l->item[i];
        *(item->matrix != NULL ? &item->matrix->buffer : &item->vector->buffer) =
            item->device == l->options->device ? w->buffer : w->embed_buffer;
    }
}

static enum mr_status make_buffers(struct loader *l, const size_t size[2], struct mr_error *err)
{
    struct weights *w = l->weights;
    struct device *d = l->options->device, *e = l->embed_device;
    MR_TRY(d->ops->buffer_create(d, &w->buffer, size[0], err));
    if (e != d)
        MR_TRY(e->ops->buffer_create(e, &w->embed_buffer, size[1], err));
    loader_attach(l);
    return MR_OK;
}

/* n more bytes are done. */
static enum mr_status advance(struct loader *l, size_t n, struct mr_error *err)
{
    const struct model_options *o = l->options;
    l->done += n;
    return o->progress == NULL || o->progress(o->progress_context, l->done, l->total)
               ? MR_OK
               : mr_fail(err, MR_CANCELLED, "stopped while it was loaded");
}

static enum mr_status load_vector(struct loader *l, const struct item *item, void *slab, struct mr_error *err)
{
    const size_t n = (size_t)item->vector->n_col;
    float *values = mem_array(n, sizeof *values);
    if (values == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a vector of %zu", n);
    enum mr_status status = gguf_read(l->g, item->source, 0, slab, item->source->bytes, err);
    if (status == MR_OK) {
        item->source->quant->decode(values, slab, n);
        item->device->ops->upload(item->device, item->vector, values);
        if (!quant_is_finite(item->source->quant, slab, n))
            status = mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s' has a NaN or an infinity", (int)item->source->name.n,
                             item->source->name.s);
    }
    free(values);
    return status == MR_OK ? advance(l, item->source->bytes, err) : status;
}

static size_t row_bytes(const struct item *item) { return quant_row_bytes(item->source->quant, (size_t)item->matrix->n_in); }

static int slab_rows(const struct item *item)
{
    const size_t n = SLAB_BYTES / row_bytes(item) / SLAB_ROWS * SLAB_ROWS;
    return n < SLAB_ROWS ? SLAB_ROWS : n < INT32_MAX / 2 ? (int)n : INT32_MAX / 2 / SLAB_ROWS * SLAB_ROWS;
}

static size_t slab_bytes(const struct item *item)
{
    if (item->matrix == NULL)
        return item->source->bytes;
    const size_t bytes = row_bytes(item) * (size_t)slab_rows(item);
    return bytes < item->source->bytes ? bytes : item->source->bytes;
}

/* One matrix, or that of one expert, whose rows begin `from` bytes into the tensor. */
static enum mr_status load_matrix(struct loader *l, const struct item *item, const struct weight *w, size_t from, void *slab,
                                  struct mr_error *err)
{
    const struct weight_source source = {item->source->quant, w->n_out, w->n_in};
    const size_t row = row_bytes(item);
    const int step = slab_rows(item);
    for (int first = 0; first < w->n_out; first += step) {
        const int n = w->n_out - first < step ? w->n_out - first : step;
        MR_TRY(gguf_read(l->g, item->source, from + (size_t)first * row, slab, (size_t)n * row, err));
        const enum mr_status status = item->device->ops->weight_pack(item->device, w, &source, slab, first, n, err);
        if (status != MR_OK)
            return mr_fail_in(err, status, "tensor '%.*s'", (int)item->source->name.n, item->source->name.s);
        MR_TRY(advance(l, (size_t)n * row, err));
    }
    return MR_OK;
}

static enum mr_status load_matrices(struct loader *l, const struct item *item, void *slab, struct mr_error *err)
{
    struct weight one = *item->matrix;
    const int n = one.n_expert > 0 ? one.n_expert : 1;
    for (int e = 0; e < n; e++, one.offset += one.expert_bytes)
        MR_TRY(load_matrix(l, item, &one, (size_t)e * row_bytes(item) * (size_t)one.n_out, slab, err));
    return MR_OK;
}

static enum mr_status load_items(struct loader *l, struct mr_error *err)
{
    size_t most = 0;
    for (size_t i = 0; i < l->n_item; i++) {
        const size_t bytes = slab_bytes(&l->item[i]);
        most = bytes > most ? bytes : most;
        l->total += l->item[i].source->bytes;
    }
    MR_TRY(advance(l, 0, err));
    void *slab = mem_aligned(ALIGN, most);
    if (slab == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory to load tensors");
    enum mr_status status = MR_OK;
    for (size_t i = 0; i < l->n_item && status == MR_OK; i++)
        status = (l->item[i].matrix != NULL ? load_matrices : load_vector)(l, &l->item[i], slab, err);
    free(slab);
    return status;
}

static void count_parameters(struct loader *l)
{
    struct weights *w = l->weights;
    for (int i = 0; i < gguf_n_tensors(l->g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(l->g, i);
        w->n_parameter += t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
    }
    w->n_parameter_used = w->n_parameter;
    w->bytes_used = w->bytes;
    for (size_t i = 0; i < l->n_item; i++) {
        const struct weight *m = l->item[i].matrix;
        const int n_idle = m != NULL && m->n_expert > 0 ? m->n_expert - l->h->n_expert_used : 0;
        if (n_idle > 0) {
            w->n_parameter_used -= (int64_t)n_idle * m->n_out * m->n_in;
            w->bytes_used -= (size_t)n_idle * m->expert_bytes;
        }
    }
}

static enum mr_status load(struct loader *l, bool plan_only, struct mr_error *err)
{
    size_t size[2];
    MR_TRY(bind_all(l, err));
    MR_TRY(place(l, size, err));
    count_parameters(l);
    if (!plan_only && gguf_is_packed(l->g)) {
        MR_TRY(loader_map_packed(l, size[0], err));
    } else if (!plan_only) {
        MR_TRY(make_buffers(l, size, err));
        MR_TRY(load_items(l, err));
    }
    if (l->weights->output.n_out == 0)
        l->weights->output = l->weights->embed;
    return MR_OK;
}

enum mr_status weights_load(struct weights *w, const struct hparams *h, const struct gguf *g,
                            const struct model_options *options, bool plan_only, struct mr_error *err)
{
    memset(w, 0, sizeof *w);
    struct loader l = {.weights = w, .h = h, .g = g, .options = options};
    l.embed_device = options->embedding_device != NULL ? options->embedding_device : options->device;
    l.claimed = mem_zero_array((size_t)gguf_n_tensors(g), sizeof *l.claimed);
    w->layer = mem_zero_array((size_t)h->n_layer, sizeof *w->layer);
    enum mr_status status = MR_NO_MEMORY;
    if (l.claimed != NULL && w->layer != NULL)
        status = load(&l, plan_only, err);
    else
        mr_fail(err, status, "no memory for %d layers", h->n_layer);
    free(l.claimed);
    w->item = l.item;
    w->n_item = l.n_item;
    if (status != MR_OK)
        weights_release(w);
    return status;
}

void weights_release(struct weights *w)
{
    if (w->buffer != NULL)
        w->buffer->device->ops->buffer_free(w->buffer);
    if (w->embed_buffer != NULL)
        w->embed_buffer->device->ops->buffer_free(w->embed_buffer);
    free(w->layer);
    free(w->item);
    memset(w, 0, sizeof *w);
}
