/* pass.c: the steps that the families share. */
#include "model/pass.h"

static const struct tensor absent;

/* The first row of x that has NaN or infinity; -1: none, or nobody looks. */
static int faulty_row(const struct pass *p, const struct tensor *x)
{
    if (p->fault == NULL || p->fault->step != NULL || p->ops->is_finite(p->device, x))
        return -1;
    struct tensor row = *x;
    row.n_row = 1;
    for (int r = 0; r < x->n_row && p->ops->is_finite(p->device, &row); r++)
        row.offset += x->row_bytes;
    return (int)((row.offset - x->offset) / x->row_bytes);
}

/* A step has given x: a row for each of the batch; */
static void look(struct pass *p, const char *step, const struct tensor *x)
{
    const int row = faulty_row(p, x);
    if (row >= 0)
        *p->fault = (struct pass_fault){step, p->layer, row};
}

/* for each that asks for logits; */
static void look_at_picked(struct pass *p, const char *step, const struct tensor *x)
{
    const int i = faulty_row(p, x);
    if (i >= 0)
        *p->fault = (struct pass_fault){step, p->layer, p->logits_row[i]};
}

/* for each row at each of its experts. */
static void look_at_slots(struct pass *p, const char *step, const struct tensor *x)
{
    const int slot = faulty_row(p, x);
    int32_t row;
    if (slot < 0)
        return;
    const struct tensor *rows = &p->routing.row;
    p->ops->read(p->device, &row, rows->buffer, rows->offset + (size_t)slot * sizeof row, sizeof row);
    *p->fault = (struct pass_fault){step, p->layer, row};
}

void pass_embed(struct pass *p)
{
    struct device *e = p->embed_device;
    e->ops->embed(e, &p->embedded, &p->w->embed, p->token, p->h->embed_scale);
    if (e != p->device) {
        e->ops->download(e, p->host, &p->embedded);
        p->ops->upload(p->device, &p->x, p->host);
    }
    look(p, "the embedding", &p->x);
    for (int i = 0; i < p->h->n_rope; i++)
        p->ops->rope_angles(p->device, &p->angles[i], &p->h->rope[i], p->position);
    p->has_delta = false;
    p->delta_weight = absent;
}

void pass_embed_positions(struct pass *p)
{
    p->ops->embed(p->device, &p->delta, &p->w->position, p->position, 1);
    p->has_delta = true;
}

/* The int8 part of a view only where one of the products wants it. */
static struct activation_view for_products(const struct activation_view *view, const struct weight *const *w, int n)
{
    struct activation_view v = *view;
    bool wants_q8 = false;
    for (int i = 0; i < n; i++)
        wants_q8 |= w[i]->wants_q8;
    if (!wants_q8)
        v.q8 = v.q8_rest = absent;
    return v;
}

void pass_layer_norm(struct pass *p, const struct tensor *weight, const struct tensor *bias)
{
    const struct norm_args args = {.x = p->x,
                                   .delta = p->has_delta ? p->delta : absent,
                                   .delta_weight = p->delta_weight,
                                   .weight = *weight,
                                   .bias = *bias,
                                   .out = p->normed,
                                   .eps = p->h->norm_eps};
    p->ops->norm(p->device, &args);
    look(p, "the residual sum", &p->x);
    look(p, "the norm", &p->normed.f32);
    p->has_delta = false;
    p->delta_weight = absent;
}

void pass_norm(struct pass *p, const struct tensor *weight) { pass_layer_norm(p, weight, &absent); }

/* What the rows' adapters add to this product of the layer at hand, the place-th of its op. */
static const struct adaptation *adapt(const struct pass *p, enum adapted which, int place)
{
    return p->adapters != NULL ? adapter_work_product(p->adapters, p->layer, which, place) : NULL;
}

static void product_to_delta(struct pass *p, const struct weight *w, const struct tensor *bias, const struct activation_view *x,
                             enum adapted which, const char *step)
{
    const struct product product = {.weight = w, .bias = *bias, .out = p->delta, .adaptation = adapt(p, which, 0)};
    p->ops->matmul(p->device, &product, 1, x);
    look(p, step, &p->delta);
    p->has_delta = true;
}

/* q, k, v of normed. */
static void project(struct pass *p, const struct layer_weights *w)
{
    if (w->qkv.n_out > 0) {
        const struct product whole = {
            .weight = &w->qkv, .bias = w->qkv_bias, .out = p->qkv, .adaptation = adapt(p, ADAPTED_QKV, 0)};
        p->ops->matmul(p->device, &whole, 1, &p->normed);
        return;
    }
    const struct product parts[] = {{.weight = &w->q, .bias = w->q_bias, .out = p->q, .adaptation = adapt(p, ADAPTED_Q, 0)},
                                    {.weight = &w->k, .bias = w->k_bias, .out = p->k, .adaptation = adapt(p, ADAPTED_K, 1)},
                                    {.weight = &w->v, .bias = w->v_bias, .out = p->v, .adaptation = adapt(p, ADAPTED_V, 2)}};
    p->ops->matmul(p->device, parts, 3, &p->normed);
}

void pass_attention(struct pass *p, int layer, const struct rope *rope, const struct tensor *angles)
{
    const struct hparams *h = p->h;
    const struct layer_weights *w = &p->w->layer[layer];
    const bool windowed = hparams_layer_has_window(h, layer);
    const struct weight *const output[] = {&w->o};
    const struct attention_args args = {.q = p->q,
                                        .k = p->k,
                                        .v = p->v,
                                        .q_norm = w->q_norm,
                                        .k_norm = w->k_norm,
                                        .norm_eps = h->norm_eps,
                                        .angles = *angles,
                                        .style = rope->style,
                                        .n_rot = rope->n_rot,
                                        .n_head = h->n_head,
                                        .n_head_kv = h->n_head_kv,
                                        .head_dim = h->head_dim,
                                        .kv = p->kv[layer],
                                        .position = p->position,
                                        .blocks = p->blocks[windowed],
                                        .window = windowed ? h->window : 0,
                                        .scale = h->attention_scale,
                                        .cap = h->attention_cap,
                                        .out = for_products(&p->attended, output, 1)};
    project(p, w);
    look(p, "the product of q, k and v", &p->qkv);
    p->ops->rope_store(p->device, &args);
    look(p, "the rotation of q", &p->q);
    p->ops->attention(p->device, &args);
    look(p, "attention", &p->attended.f32);
    product_to_delta(p, &w->o, &w->o_bias, &args.out, ADAPTED_O, "the output product");
}

void pass_feed_forward(struct pass *p, int layer, enum glu_kind kind)
{
    const struct layer_weights *w = &p->w->layer[layer];
    const struct product products[] = {{.weight = &w->gate, .out = p->gate, .adaptation = adapt(p, ADAPTED_GATE, 0)},
                                       {.weight = &w->up, .out = p->up, .adaptation = adapt(p, ADAPTED_UP, 1)}};
    const struct weight *const down[] = {&w->down};
    const struct activation_view gated = for_products(&p->gated, down, 1);
    p->ops->matmul(p->device, products, 2, &p->normed);
    look(p, "the gate product", &p->gate);
    look(p, "the up product", &p->up);
    p->ops->glu(p->device, &gated, &p->gate, &p->up, kind);
    look(p, "the gated product", &p->gated.f32);
    product_to_delta(p, &w->down, &absent, &gated, ADAPTED_DOWN, "the down product");
}

void pass_plain_feed_forward(struct pass *p, int layer)
{
    const struct layer_weights *w = &p->w->layer[layer];
    const struct product up = {
        .weight = &w->up, .bias = w->up_bias, .out = p->gated.f32, .gelu = true, .adaptation = adapt(p, ADAPTED_UP, 0)};
    const struct weight *const down[] = {&w->down};
    const struct activation_view gated = for_products(&p->gated, down, 1);
    p->ops->matmul(p->device, &up, 1, &p->normed);
    look(p, "the up product", &p->gated.f32);
    p->ops->quantize(p->device, &gated);
    product_to_delta(p, &w->down, &w->down_bias, &gated, ADAPTED_DOWN, "the down product");
}

void pass_experts(struct pass *p, int layer, enum glu_kind kind)
{
    const struct layer_weights *w = &p->w->layer[layer];
    const struct product score = {.weight = &w->router, .out = p->score};
    const struct product products[] = {{.weight = &w->gate, .out = p->gate}, {.weight = &w->up, .out = p->up}};
    const struct product down = {.weight = &w->down, .out = p->slot_out};
    const struct weight *const first[] = {&w->gate, &w->up}, *const second[] = {&w->down};
    const struct activation_view in = for_products(&p->slot_in, first, 2), gated = for_products(&p->gated, second, 1);
    p->ops->matmul(p->device, &score, 1, &p->normed);
    p->ops->route(p->device, &p->routing, &p->score);
    look(p, "the router", &p->score);
    p->ops->gather_slots(p->device, &in, &p->normed, &p->routing);
    p->ops->matmul_experts(p->device, products, 2, &in, &p->routing);
    look_at_slots(p, "the experts' gate product", &p->gate);
    look_at_slots(p, "the experts' up product", &p->up);
    p->ops->glu(p->device, &gated, &p->gate, &p->up, kind);
    look_at_slots(p, "the experts' gated product", &p->gated.f32);
    p->ops->matmul_experts(p->device, &down, 1, &gated, &p->routing);
    look_at_slots(p, "the experts' down product", &p->slot_out);
    p->ops->mix_experts(p->device, &p->delta, &p->slot_out, &p->routing);
    look(p, "the sum of experts", &p->delta);
    p->has_delta = true;
}

/* As many rows at a time as there is room for beside those of logits. */
void pass_hidden(struct pass *p)
{
    for (int done = 0, n; done < p->n_hidden; done += n) {
        n = p->n_hidden - done < p->picked_room ? p->n_hidden - done : p->picked_room;
        struct norm_args args = {.x = p->picked_x,
                                 .delta_weight = p->delta_weight,
                                 .weight = p->w->output_norm,
                                 .bias = p->w->output_norm_bias,
                                 .out = {.f32 = p->picked.f32},
                                 .eps = p->h->norm_eps};
        args.x.n_row = args.out.f32.n_row = n;
        p->ops->gather_rows(p->device, &args.x, &p->x, p->hidden_row + done);
        if (p->has_delta) {
            args.delta = p->picked_delta;
            args.delta.n_row = n;
            p->ops->gather_rows(p->device, &args.delta, &p->delta, p->hidden_row + done);
        }
        p->ops->norm(p->device, &args);
        p->ops->download(p->device, p->hidden + (size_t)done * (size_t)p->h->n_embd, &args.out.f32);
    }
}

void pass_head(struct pass *p)
{
    if (p->n_logits == 0)
        return;
    const struct weight *const output[] = {&p->w->output};
    const struct norm_args args = {.x = p->picked_x,
                                   .delta = p->has_delta ? p->picked_delta : absent,
                                   .delta_weight = p->delta_weight,
                                   .weight = p->w->output_norm,
                                   .bias = p->w->output_norm_bias,
                                   .out = for_products(&p->picked, output, 1),
                                   .eps = p->h->norm_eps};
    const struct product product = {.weight = &p->w->output, .out = p->logits};
    p->ops->gather_rows(p->device, &p->picked_x, &p->x, p->logits_row);
    if (p->has_delta)
        p->ops->gather_rows(p->device, &p->picked_delta, &p->delta, p->logits_row);
    p->ops->norm(p->device, &args);
    look_at_picked(p, "the last norm", &args.out.f32);
    p->ops->matmul(p->device, &product, 1, &args.out);
    look_at_picked(p, "the product of the logits", &p->logits);
    if (p->h->final_cap > 0)
        p->ops->soft_cap(p->device, &p->logits, p->h->final_cap);
}
