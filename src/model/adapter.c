/* adapter.c: loading an adapter: each tensor is matched with the product that it adapts and its shape compared, then all are
 * packed into one buffer. */
#include "model/adapter.h"

#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/memory_free.h"
#include "format/head_rows.h"
#include "model/family.h"
#include "model/model_state.h"

enum {
    ALIGN = 64,
    NAME_SHOWN = 200
};

/* A product by the name of its matrix below "blk.LAYER.". */
static const struct {
    const char *name;
    size_t offset; /* of struct weight in struct layer_weights */
} products[N_ADAPTED] = {
    [ADAPTED_Q] = {"attn_q", offsetof(struct layer_weights, q)},
    [ADAPTED_K] = {"attn_k", offsetof(struct layer_weights, k)},
    [ADAPTED_V] = {"attn_v", offsetof(struct layer_weights, v)},
    [ADAPTED_QKV] = {"attn_qkv", offsetof(struct layer_weights, qkv)},
    [ADAPTED_O] = {"attn_output", offsetof(struct layer_weights, o)},
    [ADAPTED_GATE] = {"ffn_gate", offsetof(struct layer_weights, gate)},
    [ADAPTED_UP] = {"ffn_up", offsetof(struct layer_weights, up)},
    [ADAPTED_DOWN] = {"ffn_down", offsetof(struct layer_weights, down)},
};

struct loading {
    struct adapter *adapter;
    struct model *model;
    const struct gguf *g;
    bool hub_rows; /* b of q and k has its rows in the order of the hub's files */
    size_t size;
    struct sha256_ctx digest;
};

/* Where a tensor belongs. */
struct place {
    int layer;
    enum adapted which;
    bool is_b;
};

static int shown(const struct gguf_tensor *t) { return t->name.n < NAME_SHOWN ? (int)t->name.n : NAME_SHOWN; }

static bool is_key(struct gguf_string s, const char *text) { return s.n == strlen(text) && memcmp(s.s, text, s.n) == 0; }

static bool find_product(enum adapted *out, struct gguf_string name, const char **rest)
{
    for (int i = 0; i < N_ADAPTED; i++) {
        const size_t n = strlen(products[i].name);
        if (name.n > n && memcmp(name.s, products[i].name, n) == 0 && name.s[n] == '.') {
            *out = (enum adapted)i;
            *rest = name.s + n;
            return true;
        }
    }
    return false;
}

/* "blk.LAYER.PRODUCT.weight.lora_a"; false: it is something else. */
static bool parse_name(struct place *out, struct gguf_string name)
{
    static const char prefix[] = "blk.";
    const char *p = name.s + sizeof prefix - 1, *const end = name.s + name.n;
    if (name.n < sizeof prefix || memcmp(name.s, prefix, sizeof prefix - 1) != 0 || *p < '0' || *p > '9')
        return false;
    for (out->layer = 0; p < end && *p >= '0' && *p <= '9' && out->layer < MAX_LAYERS; p++)
        out->layer = 10 * out->layer + (*p - '0');
    if (p == end || *p++ != '.' || !find_product(&out->which, (struct gguf_string){p, (size_t)(end - p)}, &p))
        return false;
    const struct gguf_string rest = {p, (size_t)(end - p)};
    out->is_b = is_key(rest, ".weight.lora_b");
    return out->is_b || is_key(rest, ".weight.lora_a");
}

/* The matrix of the model; NULL: the message says why there is none. */
static const struct weight *base_weight(const struct loading *l, const struct place *p, const struct gguf_tensor *t,
                                        struct mr_error *err)
{
    const struct hparams *h = &l->model->h;
    if (p->layer >= h->n_layer) {
        mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s': the model has %d layers", shown(t), t->name.s, h->n_layer);
        return NULL;
    }
    const struct weight *w = (const void *)((const char *)&l->model->w.layer[p->layer] + products[p->which].offset);
    if (w->n_out > 0 && w->n_expert == 0)
        return w;
    mr_fail(err, MR_NO_SUPPORT, "tensor '%.*s': the family '%s' has no such product that an adapter could add to", shown(t),
            t->name.s, h->arch);
    return NULL;
}

/* Shapes: a [rank][n_in], b [n_out][rank]. */
static enum mr_status check_shape(const struct gguf_tensor *t, const struct place *p, const struct weight *w,
                                  struct mr_error *err)
{
    const int64_t outer = p->is_b ? t->dims[1] : t->dims[0], rank = p->is_b ? t->dims[0] : t->dims[1];
    const int want = p->is_b ? w->n_out : w->n_in;
    if (t->dims[2] != 1 || t->dims[3] != 1 || outer != want)
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s' has the shape %lld x %lld, the model's matrix needs %s%d%s", shown(t),
                       t->name.s, (long long)t->dims[0], (long long)t->dims[1], p->is_b ? "RANK x " : "", want,
                       p->is_b ? "" : " x RANK");
    if (rank > ADAPTER_RANK_MAX)
        return mr_fail(err, MR_NO_SUPPORT, "tensor '%.*s' has the rank %lld, at most %d is possible", shown(t), t->name.s,
                       (long long)rank, ADAPTER_RANK_MAX);
    return MR_OK;
}

static struct low_rank *low_rank_of(const struct loading *l, const struct place *p)
{
    return &l->adapter->layer[p->layer][p->which];
}

static enum mr_status plan_tensor(struct loading *l, const struct gguf_tensor *t, struct mr_error *err)
{
    struct device *d = l->model->options.device;
    struct place p;
    if (!parse_name(&p, t->name))
        return mr_fail(err, MR_NO_SUPPORT, "tensor '%.*s': not of a product that an adapter can add to", shown(t), t->name.s);
    const struct weight *base = base_weight(l, &p, t, err);
    if (base == NULL)
        return MR_NO_SUPPORT;
    MR_TRY(check_shape(t, &p, base, err));
    struct weight *w = p.is_b ? &low_rank_of(l, &p)->b : &low_rank_of(l, &p)->a;
    if (w->n_out > 0)
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s': there is another one for the same product", shown(t), t->name.s);
    const struct weight_source source = {t->quant, (int)t->dims[1], (int)t->dims[0]};
    const bool as_is = t->quant->type == QUANT_F16 || t->quant->type == QUANT_BF16;
    const enum mr_status status = d->ops->weight_plan(d, w, &source, as_is ? WEIGHT_AS_IT_IS : WEIGHT_F32, err);
    if (status != MR_OK)
        return mr_fail_in(err, status, "tensor '%.*s'", shown(t), t->name.s);
    w->offset = l->size;
    l->size = size_align(l->size + w->bytes, ALIGN);
    return MR_OK;
}

/* Both parts of each product, of one rank. */
static enum mr_status check_pairs(struct loading *l, float alpha, struct mr_error *err)
{
    struct adapter_info *info = &l->adapter->info;
    for (int i = 0; i < l->model->h.n_layer * N_ADAPTED; i++) {
        struct low_rank *r = &l->adapter->layer[i / N_ADAPTED][i % N_ADAPTED];
        const char *name = products[i % N_ADAPTED].name;
        if ((r->a.n_out > 0) != (r->b.n_out > 0))
            return mr_fail(err, MR_NOT_FOUND, "there is no tensor 'blk.%d.%s.weight.lora_%s'", i / N_ADAPTED, name,
                           r->a.n_out > 0 ? "b" : "a");
        if (r->a.n_out != r->b.n_in)
            return mr_fail(err, MR_BAD_FORMAT, "tensor 'blk.%d.%s.weight.lora_a' has the rank %d, its lora_b %d", i / N_ADAPTED,
                           name, r->a.n_out, r->b.n_in);
        if (r->a.n_out == 0)
            continue;
        r->scale = alpha / (float)r->a.n_out;
        info->n_product++;
        info->rank = r->a.n_out > info->rank ? r->a.n_out : info->rank;
    }
    return info->n_product > 0 ? MR_OK : mr_fail(err, MR_BAD_FORMAT, "the adapter has no tensors");
}

static enum mr_status pack(struct loading *l, const struct gguf_tensor *t, const struct place *p, char *rows,
                           struct mr_error *err)
{
    struct device *d = l->model->options.device;
    const struct hparams *h = &l->model->h;
    const struct weight *w = p->is_b ? &low_rank_of(l, p)->b : &low_rank_of(l, p)->a;
    const bool turns = p->which == ADAPTED_Q || p->which == ADAPTED_K;
    MR_TRY(gguf_read(l->g, t, 0, rows, t->bytes, err));
    sha256_update(&l->digest, t->name.n, (const uint8_t *)t->name.s);
    sha256_update(&l->digest, sizeof t->dims, (const uint8_t *)t->dims);
    sha256_update(&l->digest, sizeof t->quant->type, (const uint8_t *)&t->quant->type);
    sha256_update(&l->digest, t->bytes, (const uint8_t *)rows);
    if (l->hub_rows && p->is_b && turns && h->n_rope > 0 && h->rope[0].style == ROPE_PAIRS &&
        !head_rows_to_pairs(rows, quant_row_bytes(t->quant, (size_t)w->n_in), w->n_out, h->head_dim))
        return mr_fail(err, MR_NO_MEMORY, "no memory for an adapter");
    const struct weight_source source = {t->quant, w->n_out, w->n_in};
    const enum mr_status status = d->ops->weight_pack(d, w, &source, rows, 0, w->n_out, err);
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "tensor '%.*s'", shown(t), t->name.s);
}

static enum mr_status load_tensor(struct loading *l, const struct gguf_tensor *t, struct mr_error *err)
{
    struct place p;
    parse_name(&p, t->name); /* as it was planned */
    struct weight *w = p.is_b ? &low_rank_of(l, &p)->b : &low_rank_of(l, &p)->a;
    char *rows = mem_aligned(ALIGN, t->bytes);
    if (rows == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a tensor of %zu bytes", t->bytes);
    w->buffer = l->adapter->buffer;
    const enum mr_status status = pack(l, t, &p, rows, err);
    free(rows);
    return status;
}

/* Within what the model may take, or what is free. */
static enum mr_status check_memory(const struct loading *l, struct mr_error *err)
{
    const struct model_info *info = &l->model->info;
    const size_t used = info->weight_bytes + info->activation_bytes + info->adapter_bytes;
    size_t have = memory_free_bytes();
    if (l->model->options.memory_bytes > 0)
        have = l->model->options.memory_bytes > used ? l->model->options.memory_bytes - used : 0;
    return l->size <= have ? MR_OK
                           : mr_fail(err, MR_NO_MEMORY, "the adapter takes %.3f GB, but %.3f GB of memory are free",
                                     (double)l->size * 1e-9, (double)have * 1e-9);
}

static enum mr_status expect_string(const struct gguf *g, const char *key, const char *want, struct mr_error *err)
{
    struct gguf_string s;
    MR_TRY(gguf_get_string(g, key, &s, err));
    return is_key(s, want)
               ? MR_OK
               : mr_fail(err, MR_NO_SUPPORT, "key '%s' is '%.*s', must be '%s'", key, s.n < 64 ? (int)s.n : 64, s.s, want);
}

/* A key of an adapter that nobody understands may change what it means. */
static enum mr_status refuse_unknown_keys(const struct gguf *g, struct mr_error *err)
{
    static const char *const known[] = {"adapter.type", "adapter.lora.alpha", "adapter.lora.rows", "adapter.lora.task_name",
                                        "adapter.lora.prompt_prefix"};
    for (int i = 0; i < gguf_n_values(g); i++) {
        const struct gguf_string key = gguf_value_at(g, i)->key;
        bool is_known = key.n < 8 || memcmp(key.s, "adapter.", 8) != 0;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            is_known |= is_key(key, known[k]);
        if (!is_known)
            return mr_fail(err, MR_NO_SUPPORT, "key '%.*s': not understood", key.n < 128 ? (int)key.n : 128, key.s);
    }
    return MR_OK;
}

static enum mr_status read_keys(struct loading *l, float *alpha, struct mr_error *err)
{
    const char *arch = l->model->h.arch;
    MR_TRY(expect_string(l->g, "general.type", "adapter", err));
    MR_TRY(expect_string(l->g, "adapter.type", "lora", err));
    l->hub_rows = gguf_value_find(l->g, "adapter.lora.rows") != NULL;
    if (l->hub_rows)
        MR_TRY(expect_string(l->g, "adapter.lora.rows", "hub", err));
    else
        MR_TRY(expect_string(l->g, "general.architecture", arch, err));
    MR_TRY(refuse_unknown_keys(l->g, err));
    MR_TRY(gguf_get_f32(l->g, "adapter.lora.alpha", alpha, err));
    return *alpha > 0 ? MR_OK : mr_fail(err, MR_BAD_FORMAT, "key 'adapter.lora.alpha' is %g, must be above 0", (double)*alpha);
}

static enum mr_status load(struct loading *l, struct mr_error *err)
{
    struct adapter *a = l->adapter;
    struct device *d = l->model->options.device;
    float alpha;
    MR_TRY(read_keys(l, &alpha, err));
    for (int i = 0; i < gguf_n_tensors(l->g); i++)
        MR_TRY(plan_tensor(l, gguf_tensor_at(l->g, i), err));
    MR_TRY(check_pairs(l, alpha, err));
    MR_TRY(check_memory(l, err));
    MR_TRY(d->ops->buffer_create(d, &a->buffer, l->size, err));
    sha256_init(&l->digest);
    sha256_update(&l->digest, sizeof alpha, (const uint8_t *)&alpha);
    sha256_update(&l->digest, 1, (const uint8_t *)(l->hub_rows ? "h" : "f"));
    for (int i = 0; i < gguf_n_tensors(l->g); i++)
        MR_TRY(load_tensor(l, gguf_tensor_at(l->g, i), err));
    sha256_digest(&l->digest, sizeof a->info.digest, a->info.digest);
    a->info.alpha = alpha;
    a->info.bytes = l->size;
    return MR_OK;
}

static void count_bytes(struct model *m, size_t before, size_t after)
{
    m->info.adapter_bytes = m->info.adapter_bytes - before + after;
}

enum mr_status adapter_load(struct adapter **out, struct model *m, const struct gguf *g, struct mr_error *err)
{
    *out = NULL;
    struct adapter *a = mem_zero_array(1, sizeof *a);
    if (a == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for an adapter");
    struct loading l = {.adapter = a, .model = m, .g = g};
    a->model = m;
    a->layer = mem_zero_array((size_t)m->h.n_layer, sizeof *a->layer);
    enum mr_status status = MR_NO_MEMORY;
    if (a->layer == NULL)
        mr_fail(err, status, "no memory for an adapter of %d layers", m->h.n_layer);
    else
        status = load(&l, err);
    const size_t work = adapter_work_bytes(m->adapter_work);
    if (status == MR_OK)
        status = adapter_work_reserve(&m->adapter_work, m->options.device, m->options.max_row, a->info.rank, err);
    count_bytes(m, work, adapter_work_bytes(m->adapter_work));
    if (status != MR_OK) {
        a->info.bytes = 0;
        adapter_free(a);
        return status;
    }
    count_bytes(m, 0, a->info.bytes);
    *out = a;
    return MR_OK;
}

void adapter_free(struct adapter *a)
{
    if (a == NULL)
        return;
    count_bytes(a->model, a->info.bytes, 0);
    if (a->buffer != NULL)
        a->buffer->device->ops->buffer_free(a->buffer);
    free(a->layer);
    free(a);
}

const struct adapter_info *adapter_info(const struct adapter *a) { return &a->info; }
