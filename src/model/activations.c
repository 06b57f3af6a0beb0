/* activations.c: the memory between the steps of a pass. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/model_state.h"

enum {
    ALIGN = 64
};

/* A view of n_row rows of row_bytes each at *size, which grows. */
static struct tensor carve(size_t *size, int n_row, int n_col, size_t row_bytes)
{
    const struct tensor t = {.offset = *size, .row_bytes = row_bytes, .n_row = n_row, .n_col = n_col};
    *size += (size_t)n_row * row_bytes;
    return t;
}

static struct tensor carve_f32(size_t *size, int n_row, int n_col)
{
    return carve(size, n_row, n_col, size_align((size_t)n_col * sizeof(float), ALIGN));
}

static struct activation_view carve_activation(size_t *size, int n_row, int n_col, bool has_q8)
{
    struct activation_view v = {.f32 = carve_f32(size, n_row, n_col)};
    if (has_q8)
        v.q8 = carve(size, n_row, n_col, size_align(q8_row_bytes(n_col), ALIGN));
    return v;
}

/* n_col columns from column `first` on. */
static struct tensor columns(const struct tensor *t, int first, int n_col)
{
    struct tensor part = *t;
    part.offset += (size_t)first * sizeof(float);
    part.n_col = n_col;
    return part;
}

static void plan(struct pass *p, size_t *size, const struct hparams *h, bool has_q8, int n_row, int n_logits)
{
    const int n_q = h->n_head * h->head_dim, n_kv = h->n_head_kv * h->head_dim;
    p->x = carve_f32(size, n_row, h->n_embd);
    p->delta = carve_f32(size, n_row, h->n_embd);
    p->normed = carve_activation(size, n_row, h->n_embd, has_q8);
    const struct tensor qkv = carve_f32(size, n_row, n_q + 2 * n_kv);
    p->q = columns(&qkv, 0, n_q);
    p->k = columns(&qkv, n_q, n_kv);
    p->v = columns(&qkv, n_q + n_kv, n_kv);
    p->attended = carve_activation(size, n_row, n_q, has_q8);
    p->gated = carve_activation(size, n_row, h->n_ff, has_q8);
    p->gate = p->gated.f32;
    p->up = carve_f32(size, n_row, h->n_ff);
    for (int i = 0; i < h->n_rope; i++)
        p->angles[i] = carve_f32(size, n_row, h->rope[i].n_rot);
    p->picked_x = carve_f32(size, n_logits, h->n_embd);
    p->picked_delta = carve_f32(size, n_logits, h->n_embd);
    p->picked = carve_activation(size, n_logits, h->n_embd, has_q8);
    p->logits = carve_f32(size, n_logits, h->n_vocab);
}

static struct tensor *const *views_of(struct pass *p, struct tensor *view[], size_t *n)
{
    struct tensor *const all[] = {&p->x,
                                  &p->delta,
                                  &p->normed.f32,
                                  &p->normed.q8,
                                  &p->q,
                                  &p->k,
                                  &p->v,
                                  &p->attended.f32,
                                  &p->attended.q8,
                                  &p->gate,
                                  &p->up,
                                  &p->gated.f32,
                                  &p->gated.q8,
                                  &p->angles[0],
                                  &p->angles[1],
                                  &p->picked_x,
                                  &p->picked_delta,
                                  &p->picked.f32,
                                  &p->picked.q8,
                                  &p->logits};
    memcpy(view, all, sizeof all);
    *n = sizeof all / sizeof *all;
    return view;
}

enum {
    N_VIEWS = 20
};

static enum mr_status make(struct activations *a, const struct hparams *h, const struct model_options *options, size_t size,
                           struct mr_error *err)
{
    struct pass *p = &a->whole;
    struct tensor *view[N_VIEWS];
    size_t n;
    MR_TRY(p->device->ops->buffer_create(p->device, &a->buffer, size, err));
    views_of(p, view, &n);
    for (size_t i = 0; i < n; i++)
        if (view[i]->n_row > 0)
            view[i]->buffer = a->buffer;
    p->embedded = p->x;
    if (p->embed_device == p->device)
        return MR_OK;
    size_t embed_size = 0;
    p->embedded = carve_f32(&embed_size, options->max_row, h->n_embd);
    MR_TRY(p->embed_device->ops->buffer_create(p->embed_device, &a->embed_buffer, embed_size, err));
    p->embedded.buffer = a->embed_buffer;
    a->host = mem_array((size_t)options->max_row * (size_t)h->n_embd, sizeof *a->host);
    p->host = a->host;
    return a->host != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for %d rows", options->max_row);
}

enum mr_status activations_create(struct activations *a, const struct hparams *h, const struct weights *w,
                                  const struct model_options *options, bool plan_only, struct mr_error *err)
{
    memset(a, 0, sizeof *a);
    struct device *d = options->device;
    a->whole = (struct pass){.h = h, .w = w, .device = d, .ops = d->ops};
    a->whole.embed_device = options->embedding_device != NULL ? options->embedding_device : d;
    size_t size = 0;
    plan(&a->whole, &size, h, w->has_q8, options->max_row, options->max_logits);
    a->bytes = size;
    const enum mr_status status = plan_only ? MR_OK : make(a, h, options, size, err);
    if (status != MR_OK)
        activations_release(a);
    return status;
}

void activations_release(struct activations *a)
{
    if (a->buffer != NULL)
        a->buffer->device->ops->buffer_free(a->buffer);
    if (a->embed_buffer != NULL)
        a->embed_buffer->device->ops->buffer_free(a->embed_buffer);
    free(a->host);
    memset(a, 0, sizeof *a);
}

struct pass activations_pass(const struct activations *a, int n_row, int n_logits)
{
    struct pass p = a->whole;
    struct tensor *view[N_VIEWS];
    size_t n;
    views_of(&p, view, &n);
    for (size_t i = 0; i < n; i++)
        view[i]->n_row = n_row;
    struct tensor *const of_logits[] = {&p.picked_x, &p.picked_delta, &p.picked.f32, &p.picked.q8, &p.logits};
    for (size_t i = 0; i < sizeof of_logits / sizeof *of_logits; i++)
        of_logits[i]->n_row = n_logits;
    p.ops = p.device->ops; /* a profile may stand before them now */
    p.embedded.n_row = n_row;
    p.n_row = n_row;
    p.n_logits = n_logits;
    return p;
}
