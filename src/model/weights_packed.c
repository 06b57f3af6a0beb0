/* weights_packed.c: weights in a file as they lie in memory: written once, and mapped from then on. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "format/gguf_write.h"
#include "model/loader.h"
#include "ops/ops.h"

enum {
    ALIGN = 64,
    COPY_BYTES = 1 << 20 /* written at a time */
};

static const char *product_of(const struct item *item) { return item->device->ops->weight_kernel_name(item->matrix); }

/* A vector is stored as floats, a matrix for its product. */
static enum mr_status check_item(const struct item *item, struct mr_error *err)
{
    const struct gguf_tensor *t = item->source;
    const int n = (int)t->name.n;
    if (item->matrix == NULL && (t->product.n > 0 || t->quant->type != QUANT_F32))
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s' of a packed file is no vector of floats", n, t->name.s);
    if (item->matrix != NULL && t->product.n == 0)
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s' of a packed file is not packed", n, t->name.s);
    if (item->matrix != NULL) {
        const char *product = product_of(item);
        if (t->product.n != strlen(product) || memcmp(t->product.s, product, t->product.n) != 0)
            return mr_fail(err, MR_NO_SUPPORT,
                           "tensor '%.*s' is packed for the product '%.*s', this machine and precision take '%s'; "
                           "pack the original model again",
                           n, t->name.s, t->product.n < 64 ? (int)t->product.n : 64, t->product.s, product);
    }
    if (t->bytes != item->bytes)
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s' has %zu packed bytes, not %zu", n, t->name.s, t->bytes, item->bytes);
    return MR_OK;
}

enum mr_status loader_map_packed(struct loader *l, size_t size, struct mr_error *err)
{
    struct device *d = l->options->device;
    const struct item *first = &l->item[0];
    if (l->embed_device != d || d->ops->buffer_borrow == NULL)
        return mr_fail(err, MR_NO_SUPPORT, "a packed file runs on the cpu alone");
    if ((uintptr_t)first->source->data % ALIGN != 0)
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s' of a packed file lies at no multiple of %d bytes",
                       (int)first->source->name.n, first->source->name.s, ALIGN);
    for (size_t i = 0; i < l->n_item; i++) {
        const struct item *item = &l->item[i];
        const size_t offset = item->matrix != NULL ? item->matrix->offset : item->vector->offset;
        MR_TRY(check_item(item, err));
        if (item->source->file_offset - first->source->file_offset != offset)
            return mr_fail(err, MR_BAD_FORMAT,
                           "tensor '%.*s' of a packed file is not in its place; pack the original model again",
                           (int)item->source->name.n, item->source->name.s);
    }
    MR_TRY(d->ops->buffer_borrow(d, &l->weights->buffer, first->source->data, size, err));
    loader_attach(l);
    return MR_OK;
}

/* Tensors that are read with the keys, not loaded. */
static bool is_item(const struct weights *w, const struct gguf_tensor *t)
{
    for (size_t i = 0; i < w->n_item; i++)
        if (w->item[i].source == t)
            return true;
    return false;
}

static enum mr_status put_keys(struct gguf_writer *out, const struct gguf *g, struct mr_error *err)
{
    MR_TRY(gguf_put_int(out, "general.alignment", GGUF_U32, ALIGN, err));
    for (int i = 0; i < gguf_n_values(g); i++) {
        const struct gguf_value *v = gguf_value_at(g, i);
        if (v->key.n == 17 && memcmp(v->key.s, "general.alignment", 17) == 0)
            continue;
        MR_TRY(gguf_put_value(out, v, err));
    }
    return MR_OK;
}

static enum mr_status declare(struct gguf_writer *out, const struct weights *w, const struct gguf *g, struct mr_error *err)
{
    for (size_t i = 0; i < w->n_item; i++) {
        const struct item *item = &w->item[i];
        const int64_t n = item->matrix == NULL ? item->vector->n_col : 0;
        if (item->matrix != NULL)
            MR_TRY(gguf_declare_packed(out, item->source, product_of(item), item->bytes, err));
        else
            MR_TRY(gguf_declare_tensor(out, item->source->name, quant_find(QUANT_F32), 1, &n, err));
    }
    for (int i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        if (!is_item(w, t))
            MR_TRY(gguf_declare_tensor(out, t->name, t->quant, t->n_dims, t->dims, err));
    }
    return MR_OK;
}

/* A file being written. */
struct output {
    struct gguf_writer *writer;
    const struct progress *progress;
    size_t done, total;
    float *copy; /* [COPY_BYTES / 4] */
};

static enum mr_status write_copy(struct output *out, size_t n, struct mr_error *err)
{
    MR_TRY(gguf_write_data(out->writer, out->copy, n, err));
    out->done += n;
    if (out->progress->f != NULL && !out->progress->f(out->progress->context, out->done, out->total))
        return mr_fail(err, MR_CANCELLED, "interrupted");
    return MR_OK;
}

/* The bytes of an item, passed on as if they were floats. */
static enum mr_status write_item(struct output *out, const struct item *item, struct mr_error *err)
{
    struct tensor part = {.n_row = 1};
    part.buffer = item->matrix != NULL ? item->matrix->buffer : item->vector->buffer;
    part.offset = item->matrix != NULL ? item->matrix->offset : item->vector->offset;
    for (size_t done = 0; done < item->bytes; done += part.row_bytes, part.offset += part.row_bytes) {
        part.row_bytes = item->bytes - done < COPY_BYTES ? item->bytes - done : COPY_BYTES;
        part.n_col = (int)(part.row_bytes / sizeof(float));
        item->device->ops->download(item->device, out->copy, &part);
        MR_TRY(write_copy(out, part.row_bytes, err));
    }
    return MR_OK;
}

static enum mr_status write_as_it_is(struct output *out, const struct gguf *g, const struct gguf_tensor *t,
                                     struct mr_error *err)
{
    for (size_t done = 0, n; done < t->bytes; done += n) {
        n = t->bytes - done < COPY_BYTES ? t->bytes - done : COPY_BYTES;
        MR_TRY(gguf_read(g, t, done, out->copy, n, err));
        MR_TRY(write_copy(out, n, err));
    }
    return MR_OK;
}

static enum mr_status write_all(struct output *out, const struct weights *w, const struct gguf *g, struct mr_error *err)
{
    MR_TRY(put_keys(out->writer, g, err));
    MR_TRY(declare(out->writer, w, g, err));
    MR_TRY(gguf_begin_data(out->writer, err));
    for (size_t i = 0; i < w->n_item; i++)
        MR_TRY(write_item(out, &w->item[i], err));
    for (int i = 0; i < gguf_n_tensors(g); i++)
        if (!is_item(w, gguf_tensor_at(g, i)))
            MR_TRY(write_as_it_is(out, g, gguf_tensor_at(g, i), err));
    return gguf_writer_finish(out->writer, err);
}

enum mr_status weights_write_packed(const struct weights *w, const struct gguf *g, const char *path,
                                    const struct progress *progress, struct mr_error *err)
{
    struct output out = {.progress = progress, .total = w->bytes};
    if (gguf_is_packed(g))
        return mr_fail(err, MR_BAD_INPUT, "the model is packed already");
    if (w->embed_buffer != NULL)
        return mr_fail(err, MR_NO_SUPPORT, "a model on two devices cannot be packed");
    MR_TRY(gguf_writer_create(&out.writer, path, err));
    out.copy = mem_array(COPY_BYTES, 1);
    const enum mr_status status =
        out.copy != NULL ? write_all(&out, w, g, err) : mr_fail(err, MR_NO_MEMORY, "no memory to write a model");
    free(out.copy);
    gguf_writer_free(out.writer);
    return status;
}
