/* op_profile.c: a table of ops that counts and times, and calls the device's own. */
#include "measure/op_profile.h"

#include <string.h>

#include "base/clock.h"

const char *op_kind_name(enum op_kind kind)
{
    static const char *const name[N_OP_KINDS] = {
        [OP_EMBED] = "embed",
        [OP_GATHER] = "gather_rows",
        [OP_NORM] = "norm",
        [OP_QUANTIZE] = "quantize",
        [OP_MATMUL] = "matmul",
        [OP_ROPE_ANGLES] = "rope_angles",
        [OP_ROPE_STORE] = "rope_store",
        [OP_ATTENTION] = "attention",
        [OP_GLU] = "glu",
        [OP_SOFT_CAP] = "soft_cap",
        [OP_ROUTE] = "route",
        [OP_GATHER_SLOTS] = "gather_slots",
        [OP_MATMUL_EXPERTS] = "matmul_experts",
        [OP_MIX_EXPERTS] = "mix_experts",
        [OP_DOWNLOAD] = "download",
    };
    return name[kind];
}

void op_work_add(struct op_work *to, const struct op_work *more)
{
    to->n_call += more->n_call;
    to->seconds += more->seconds;
    for (int i = 0; i < N_PEAK_TYPES; i++)
        to->ops[i] += more->ops[i];
    to->attention_ops += more->attention_ops;
    to->weight_bytes += more->weight_bytes;
    to->kv_bytes += more->kv_bytes;
    to->activation_bytes += more->activation_bytes;
}

double op_work_ops(const struct op_work *w)
{
    double ops = w->attention_ops;
    for (int i = 0; i < N_PEAK_TYPES; i++)
        ops += w->ops[i];
    return ops;
}

double op_work_bytes(const struct op_work *w) { return w->weight_bytes + w->kv_bytes + w->activation_bytes; }

static struct op_profile *profile_of(const struct device *d) { return (struct op_profile *)d->ops; }

static bool same_string(const char *a, const char *b) { return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0); }

static struct op_row *find_row(struct op_profile *p, const struct op_row *key)
{
    int i = 0;
    for (; i < p->n_row; i++) {
        const struct op_row *r = &p->row[i];
        if (r->kind == key->kind && r->n_in == key->n_in && r->n_out == key->n_out && same_string(r->kernel, key->kernel))
            return &p->row[i];
    }
    if (i == OP_ROWS_MAX)
        return &p->row[OP_ROWS_MAX - 1];
    p->row[i] = *key;
    p->n_row++;
    return &p->row[i];
}

/* key: a row whose work is that of one call, without its time. */
static void count(struct op_profile *p, struct op_row *key, int64_t begin_us)
{
    struct op_work work = key->work;
    work.n_call = 1;
    work.seconds = (double)(clock_us() - begin_us) * 1e-6;
    key->work = (struct op_work){0};
    op_work_add(&find_row(p, key)->work, &work);
    op_work_add(&p->layer[p->at], &work);
    op_work_add(&p->total, &work);
}

static void profile_enter_layer(struct device *d, int layer)
{
    struct op_profile *p = profile_of(d);
    p->at = layer < 0 ? 0 : layer < OP_LAYERS_MAX ? layer + 1 : OP_LAYERS_MAX;
    p->n_layer = p->at > p->n_layer ? p->at : p->n_layer;
    p->inner->enter_layer(d, layer);
}

static double tensor_bytes(const struct tensor *t)
{
    return t->buffer == NULL ? 0 : (double)t->n_row * t->n_col * (double)sizeof(float);
}

static double view_bytes(const struct activation_view *v)
{
    const struct tensor *q = &v->q8;
    return tensor_bytes(&v->f32) + (q->buffer == NULL ? 0 : (double)q->n_row * (double)q->row_bytes);
}

static void profile_embed(struct device *d, const struct tensor *out, const struct weight *w, const int32_t *token, float scale)
{
    struct op_profile *p = profile_of(d);
    const int64_t begin = clock_us();
    p->inner->embed(d, out, w, token, scale);
    struct op_row row = {.kind = OP_EMBED, .n_in = out->n_col};
    row.work.activation_bytes = tensor_bytes(out) + (double)out->n_row * (double)w->bytes / w->n_out;
    count(p, &row, begin);
}

static void profile_gather_rows(struct device *d, const struct tensor *out, const struct tensor *x, const int32_t *source)
{
    struct op_profile *p = profile_of(d);
    const int64_t begin = clock_us();
    p->inner->gather_rows(d, out, x, source);
    struct op_row row = {.kind = OP_GATHER, .n_in = out->n_col};
    row.work.activation_bytes = 2 * tensor_bytes(out);
    count(p, &row, begin);
}

static void profile_norm(struct device *d, const struct norm_args *args)
{
    struct op_profile *p = profile_of(d);
    const int64_t begin = clock_us();
    p->inner->norm(d, args);
    struct op_row row = {.kind = OP_NORM, .n_in = args->x.n_col};
    const double written = args->delta.buffer != NULL ? tensor_bytes(&args->x) : 0;
    row.work.activation_bytes = tensor_bytes(&args->x) + tensor_bytes(&args->delta) + written + view_bytes(&args->out);
    count(p, &row, begin);
}

static void profile_quantize(struct device *d, const struct activation_view *x)
{
    struct op_profile *p = profile_of(d);
    const int64_t begin = clock_us();
    p->inner->quantize(d, x);
    struct op_row row = {.kind = OP_QUANTIZE, .n_in = x->f32.n_col};
    row.work.activation_bytes = view_bytes(x);
    count(p, &row, begin);
}

/* Products over one activation that read `share` of their weights. */
static struct op_row product_row(const struct op_profile *p, enum op_kind kind, const struct product *product, int n_product,
                                 const struct activation_view *x, double share)
{
    const bool is_q8 = product[0].weight->wants_q8;
    struct op_row row = {.kind = kind, .n_in = product[0].weight->n_in};
    row.kernel = p->inner->weight_kernel_name(product[0].weight);
    row.work.activation_bytes = is_q8 ? (double)x->q8.n_row * (double)x->q8.row_bytes : tensor_bytes(&x->f32);
    for (int i = 0; i < n_product; i++) {
        const struct weight *w = product[i].weight;
        row.n_out += w->n_out;
        row.work.ops[is_q8            ? PEAK_INT8
                     : w->rounds_bf16 ? PEAK_BF16
                                      : PEAK_F32] += 2.0 * w->n_out * w->n_in * product[i].out.n_row;
        row.work.weight_bytes += share * (double)w->bytes;
        row.work.activation_bytes += tensor_bytes(&product[i].out);
    }
    return row;
}

static void profile_matmul(struct device *d, const struct product *product, int n_product, const struct activation_view *x)
{
    struct op_profile *p = profile_of(d);
    const int64_t begin = clock_us();
    p->inner->matmul(d, product, n_product, x);
    struct op_row row = product_row(p, OP_MATMUL, product, n_product, x, 1);
    count(p, &row, begin);
}

/* Experts that have rows: the first of the integers that stand in the place of floats. */
static int n_experts_at_work(struct op_profile *p, struct device *d, const struct routing *routing)
{
    struct tensor first = routing->group;
    int32_t n;
    float bits;
    first.n_col = 1;
    p->inner->download(d, &bits, &first);
    memcpy(&n, &bits, sizeof n);
    return n;
}

static void profile_matmul_experts(struct device *d, const struct product *product, int n_product,
                                   const struct activation_view *x, const struct routing *routing)
{
    struct op_profile *p = profile_of(d);
    const double share = (double)n_experts_at_work(p, d, routing) / routing->n_expert;
    const int64_t begin = clock_us();
    p->inner->matmul_experts(d, product, n_product, x, routing);
    struct op_row row = product_row(p, OP_MATMUL_EXPERTS, product, n_product, x, share);
    count(p, &row, begin);
}

static void profile_route(struct device *d, const struct routing *out, const struct tensor *score)
{
    struct op_profile *p = profile_of(d);
    const int64_t begin = clock_us();
    p->inner->route(d, out, score);
    struct op_row row = {.kind = OP_ROUTE, .n_in = score->n_col};
    row.work.activation_bytes = tensor_bytes(score) + tensor_bytes(&out->weight) + 2 * tensor_bytes(&out->slot);
    count(p, &row, begin);
}

static void profile_gather_slots(struct device *d, const struct activation_view *out, const struct activation_view *x,
                                 const struct routing *routing)
{
    struct op_profile *p = profile_of(d);
    const int64_t begin = clock_us();
    p->inner->gather_slots(d, out, x, routing);
    struct op_row row = {.kind = OP_GATHER_SLOTS, .n_in = x->f32.n_col};
    row.work.activation_bytes = 2 * view_bytes(out);
    count(p, &row, begin);
}

static void profile_mix_experts(struct device *d, const struct tensor *out, const struct tensor *x,
                                const struct routing *routing)
{
    struct op_profile *p = profile_of(d);
    const int64_t begin = clock_us();
    p->inner->mix_experts(d, out, x, routing);
    struct op_row row = {.kind = OP_MIX_EXPERTS, .n_in = out->n_col};
    row.work.activation_bytes = tensor_bytes(x) + tensor_bytes(out);
    count(p, &row, begin);
}

static void profile_rope_angles(struct device *d, const struct tensor *out, const struct rope *rope, const int32_t *position)
{
    struct op_profile *p = profile_of(d);
    const int64_t begin = clock_us();
    p->inner->rope_angles(d, out, rope, position);
    struct op_row row = {.kind = OP_ROPE_ANGLES, .n_in = out->n_col};
    row.work.activation_bytes = tensor_bytes(out);
    count(p, &row, begin);
}

static double kv_token_bytes(const struct attention_args *args)
{
    return 2.0 * args->n_head_kv * (double)kv_vector_bytes(args->kv.type, args->head_dim);
}

static void profile_rope_store(struct device *d, const struct attention_args *args)
{
    struct op_profile *p = profile_of(d);
    const int64_t begin = clock_us();
    p->inner->rope_store(d, args);
    struct op_row row = {.kind = OP_ROPE_STORE, .n_in = args->q.n_col};
    row.work.activation_bytes =
        2 * (tensor_bytes(&args->q) + tensor_bytes(&args->k)) + tensor_bytes(&args->v) + args->q.n_row * kv_token_bytes(args);
    count(p, &row, begin);
}

static int first_visible(const struct attention_args *args, int row)
{
    const int first = args->window > 0 ? args->position[row] - args->window + 1 : 0;
    return first > 0 ? first : 0;
}

static void profile_attention(struct device *d, const struct attention_args *args)
{
    struct op_profile *p = profile_of(d);
    const int64_t begin = clock_us();
    p->inner->attention(d, args);
    struct op_row row = {.kind = OP_ATTENTION, .n_in = args->q.n_col};
    for (int r = 0; r < args->q.n_row; r++) {
        const int n_visible = args->position[r] + 1 - first_visible(args, r);
        const bool is_first = r == 0 || args->blocks[r] != args->blocks[r - 1];
        /* rows of one sequence are consecutive: each but the first adds one position to what they read together */
        row.work.kv_bytes += (is_first ? n_visible : 1) * kv_token_bytes(args);
        row.work.attention_ops += 4.0 * n_visible * args->n_head * args->head_dim; /* q k and its product with v */
    }
    row.work.activation_bytes = tensor_bytes(&args->q) + view_bytes(&args->out);
    count(p, &row, begin);
}

static void profile_glu(struct device *d, const struct activation_view *out, const struct tensor *gate, const struct tensor *up,
                        enum glu_kind kind)
{
    struct op_profile *p = profile_of(d);
    const int64_t begin = clock_us();
    p->inner->glu(d, out, gate, up, kind);
    struct op_row row = {.kind = OP_GLU, .n_in = gate->n_col};
    row.work.activation_bytes = tensor_bytes(gate) + tensor_bytes(up) + view_bytes(out);
    count(p, &row, begin);
}

static void profile_soft_cap(struct device *d, const struct tensor *x, float cap)
{
    struct op_profile *p = profile_of(d);
    const int64_t begin = clock_us();
    p->inner->soft_cap(d, x, cap);
    struct op_row row = {.kind = OP_SOFT_CAP, .n_in = x->n_col};
    row.work.activation_bytes = 2 * tensor_bytes(x);
    count(p, &row, begin);
}

static void profile_download(struct device *d, float *to, const struct tensor *from)
{
    struct op_profile *p = profile_of(d);
    const int64_t begin = clock_us();
    p->inner->download(d, to, from);
    struct op_row row = {.kind = OP_DOWNLOAD, .n_in = from->n_col};
    row.work.activation_bytes = 2 * tensor_bytes(from);
    count(p, &row, begin);
}

void op_profile_install(struct op_profile *p, struct device *device)
{
    memset(p, 0, sizeof *p);
    p->inner = device->ops;
    p->device = device;
    p->ops = *device->ops; /* what is not counted goes straight to the device */
    p->ops.enter_layer = profile_enter_layer;
    p->ops.embed = profile_embed;
    p->ops.gather_rows = profile_gather_rows;
    p->ops.norm = profile_norm;
    p->ops.quantize = profile_quantize;
    p->ops.matmul = profile_matmul;
    p->ops.rope_angles = profile_rope_angles;
    p->ops.rope_store = profile_rope_store;
    p->ops.attention = profile_attention;
    p->ops.glu = profile_glu;
    p->ops.soft_cap = profile_soft_cap;
    p->ops.route = profile_route;
    p->ops.gather_slots = profile_gather_slots;
    p->ops.matmul_experts = profile_matmul_experts;
    p->ops.mix_experts = profile_mix_experts;
    p->ops.download = profile_download;
    device->ops = &p->ops;
}

void op_profile_remove(struct op_profile *p) { p->device->ops = p->inner; }
