/* activations.c: the memory between the steps of a pass. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/model_state.h"

enum {
    ALIGN = 64
};

/* Memory being cut into views; buffer NULL: only to learn how much it takes. */
struct cutter {
    struct buffer *buffer;
    size_t size; /* so far */
};

static struct tensor carve(struct cutter *c, int n_row, int n_col, size_t row_bytes)
{
    const struct tensor t = {c->buffer, c->size, size_align(row_bytes, ALIGN), n_row, n_col};
    c->size += (size_t)n_row * t.row_bytes;
    return t;
}

static struct tensor carve_f32(struct cutter *c, int n_row, int n_col)
{
    return carve(c, n_row, n_col, (size_t)n_col * sizeof(float));
}

/* fine: the list of its fine rows; absent: nobody reads int8 rows. Its floats take the place of `over`, where that is given. */
static struct activation_view carve_activation(struct cutter *c, int n_row, int n_col, const struct tensor *fine,
                                               const struct tensor *over)
{
    struct activation_view v = {.f32 = over != NULL ? *over : carve_f32(c, n_row, n_col), .fine_row = *fine};
    if (fine->n_row > 0) {
        v.q8 = carve(c, n_row, n_col, q8_row_bytes(n_col));
        v.q8_rest = carve(c, n_row, n_col, q8_row_bytes(n_col));
    }
    return v;
}

static struct tensor carve_list(struct cutter *c, bool has_q8, int n)
{
    return has_q8 ? carve_f32(c, 1, n) : (struct tensor){0};
}

/* n_col columns from column `first` on. */
static struct tensor columns(const struct tensor *t, int first, int n_col)
{
    struct tensor part = *t;
    part.offset += (size_t)first * sizeof(float);
    part.n_col = n_col;
    return part;
}

static void plan_feed_forward(struct pass *p, struct cutter *c, const struct hparams *h, const struct tensor *fine, int n_row)
{
    p->gate = carve_f32(c, n_row, h->n_ff);
    p->gated = carve_activation(c, n_row, h->n_ff, fine, p->device->unfused ? NULL : &p->gate);
    if (p->w->layer[0].gate.n_out > 0)
        p->up = carve_f32(c, n_row, h->n_ff);
}

static void plan_experts(struct pass *p, struct cutter *c, const struct hparams *h, const struct tensor *fine, int n_row)
{
    const int n_slot = n_row * h->n_expert_used;
    const struct tensor fine_slot = carve_list(c, fine->n_row > 0, n_slot);
    p->gate = carve_f32(c, n_slot, h->n_ff);
    p->gated = carve_activation(c, n_slot, h->n_ff, &fine_slot, p->device->unfused ? NULL : &p->gate);
    p->up = carve_f32(c, n_slot, h->n_ff);
    p->slot_in = carve_activation(c, n_slot, h->n_embd, &fine_slot, NULL);
    p->slot_out = carve_f32(c, n_slot, h->n_embd);
    p->score = carve_f32(c, n_row, h->n_expert);
    p->routing = (struct routing){.n_expert = h->n_expert, .n_used = h->n_expert_used, .normalize = h->expert_weights_sum_to_1};
    p->routing.weight = carve_f32(c, n_row, h->n_expert_used);
    p->routing.slot = carve_f32(c, n_row, h->n_expert_used);
    p->routing.row = carve_f32(c, 1, n_slot);
    p->routing.group = carve_f32(c, 1, routing_group_ints(h->n_expert));
}

static void plan(struct pass *p, struct cutter *c, const struct hparams *h, bool has_q8, int n_row, int n_logits)
{
    const int n_q = h->n_head * h->head_dim, n_kv = h->n_head_kv * h->head_dim;
    const struct tensor fine = carve_list(c, has_q8, n_row), fine_logits = carve_list(c, has_q8, n_logits);
    p->x = carve_f32(c, n_row, h->n_embd);
    p->delta = carve_f32(c, n_row, h->n_embd);
    p->normed = carve_activation(c, n_row, h->n_embd, &fine, p->device->unfused ? NULL : &p->delta);
    p->qkv = carve_f32(c, n_row, n_q + 2 * n_kv);
    p->q = columns(&p->qkv, 0, n_q);
    p->k = columns(&p->qkv, n_q, n_kv);
    p->v = columns(&p->qkv, n_q + n_kv, n_kv);
    p->attended = carve_activation(c, n_row, n_q, &fine, NULL);
    (h->n_expert > 0 ? plan_experts : plan_feed_forward)(p, c, h, &fine, n_row);
    for (int i = 0; i < h->n_rope; i++)
        p->angles[i] = carve_f32(c, n_row, h->rope[i].n_rot);
    p->picked_x = carve_f32(c, n_logits, h->n_embd);
    p->picked_delta = carve_f32(c, n_logits, h->n_embd);
    p->picked = carve_activation(c, n_logits, h->n_embd, &fine_logits, p->device->unfused ? NULL : &p->picked_delta);
    p->logits = carve_f32(c, n_logits, h->n_vocab);
}

static enum mr_status make(struct activations *a, const struct hparams *h, const struct model_options *options, bool has_q8,
                           struct mr_error *err)
{
    struct pass *p = &a->whole;
    MR_TRY(p->device->ops->buffer_create(p->device, &a->buffer, a->bytes, err));
    plan(p, &(struct cutter){a->buffer, 0}, h, has_q8, options->max_row, options->max_logits);
    p->embedded = p->x;
    if (p->embed_device == p->device)
        return MR_OK;
    struct cutter embed = {NULL, 0};
    p->embedded = carve_f32(&embed, options->max_row, h->n_embd);
    MR_TRY(p->embed_device->ops->buffer_create(p->embed_device, &a->embed_buffer, embed.size, err));
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
    struct cutter cutter = {NULL, 0};
    plan(&a->whole, &cutter, h, w->has_q8, options->max_row, options->max_logits);
    a->bytes = cutter.size;
    const enum mr_status status = plan_only ? MR_OK : make(a, h, options, w->has_q8, err);
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

static void cut_activation(struct activation_view *v, int n_row, int n_fine)
{
    v->f32.n_row = v->q8.n_row = n_row;
    if (v->q8_rest.buffer != NULL)
        v->q8_rest.n_row = n_fine;
}

/* The list of a view's fine rows, to the device. */
static void write_list(const struct pass *p, const struct activation_view *v, const struct fine_rows *fine)
{
    if (v->q8_rest.buffer != NULL && fine->n > 0)
        p->ops->write(p->device, v->fine_row.buffer, v->fine_row.offset, fine->row, (size_t)fine->n * sizeof *fine->row);
}

struct pass activations_pass(const struct activations *a, int n_row, const struct fine_rows *fine, int n_logits,
                             const struct fine_rows *fine_logits)
{
    struct pass p = a->whole;
    const int per_row = p.h->n_expert > 0 ? p.h->n_expert_used : 1, n_slot = n_row * per_row;
    struct tensor *const of_rows[] = {&p.x,     &p.delta,          &p.q,           &p.k,
                                      &p.v,     &p.embedded,       &p.angles[0],   &p.angles[1],
                                      &p.score, &p.routing.weight, &p.routing.slot};
    struct tensor *const of_slots[] = {&p.gate, &p.up, &p.slot_out};
    struct tensor *const of_logits[] = {&p.picked_x, &p.picked_delta, &p.logits};
    for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows; i++)
        of_rows[i]->n_row = n_row;
    for (size_t i = 0; i < sizeof of_slots / sizeof *of_slots; i++)
        of_slots[i]->n_row = n_slot;
    for (size_t i = 0; i < sizeof of_logits / sizeof *of_logits; i++)
        of_logits[i]->n_row = n_logits;
    p.routing.row.n_col = n_slot;
    p.ops = p.device->ops; /* a profile may stand before them now */
    cut_activation(&p.normed, n_row, fine->n);
    cut_activation(&p.attended, n_row, fine->n);
    cut_activation(&p.gated, n_slot, per_row * fine->n);
    cut_activation(&p.slot_in, n_slot, per_row * fine->n);
    cut_activation(&p.picked, n_logits, fine_logits->n);
    write_list(&p, &p.normed, fine);
    write_list(&p, &p.picked, fine_logits);
    p.n_row = n_row;
    p.n_logits = n_logits;
    p.picked_room = a->whole.picked_x.n_row;
    return p;
}
