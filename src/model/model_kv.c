/* model_kv.c: key/value memory: the layers without a window are one group of the cache, those with one another. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/model_state.h"

enum kv_type model_kv_type(const struct model_options *options)
{
    if (options->kv_int8)
        return KV_INT8;
    switch (options->precision) {
    case PRECISION_FP32:
        return KV_F32;
    case PRECISION_FP16:
        return KV_F16;
    case PRECISION_BF16:
        return KV_BF16;
    default:
        return options->device->multiplies_bf16 ? KV_BF16 : KV_F16;
    }
}

static int64_t blocks_for(int64_t n_token) { return (n_token + KV_BLOCK - 1) / KV_BLOCK; }

static int64_t lower(int64_t a, int64_t b) { return a < b ? a : b; }

void model_kv_plan(struct kv_config *out, const struct hparams *h, enum kv_type type, int max_row, int n_seq, int max_token,
                   int64_t n_token)
{
    const size_t layer_block = (size_t)h->n_head_kv * kv_head_block_bytes(type, h->head_dim);
    int n_layer[2] = {0, 0};
    for (int i = 0; i < h->n_layer; i++)
        n_layer[hparams_layer_has_window(h, i)]++;
    *out = (struct kv_config){.n_seq = n_seq, .max_token = max_token};
    const int64_t whole = lower(blocks_for(n_token) + n_seq - 1, n_seq * blocks_for(max_token));
    for (int windowed = 0; windowed < 2; windowed++) {
        if (n_layer[windowed] == 0)
            continue;
        /* a call's rows are all in the cache before the first block leaves the window */
        const int64_t kept = n_seq * (blocks_for((int64_t)h->window + max_row) + 1),
                      n_block = windowed ? lower(whole, kept) : whole;
        out->group[out->n_group++] = (struct kv_group){
            .n_layer = n_layer[windowed],
            .bytes_per_token = (size_t)n_layer[windowed] * layer_block / KV_BLOCK,
            .window = windowed ? h->window : 0,
            .n_block = n_block < INT32_MAX ? (int)n_block : INT32_MAX,
        };
    }
}

static void copy_block(void *context, int group, uint32_t to, uint32_t from)
{
    const struct model_kv *kv = context;
    struct device *d = kv->model->options.device;
    const size_t stride = kv->stride[group];
    d->ops->move(d, kv->buffer[group], to * stride, from * stride, stride);
}

static enum mr_status make_buffers(struct model_kv *kv, struct mr_error *err)
{
    struct device *d = kv->model->options.device;
    for (int i = 0; i < kv->config.n_group; i++) {
        size_t bytes;
        kv->stride[i] = kv->config.group[i].bytes_per_token * KV_BLOCK;
        if (!size_mul(&bytes, kv->stride[i], (size_t)kv->config.group[i].n_block))
            return mr_fail(err, MR_NO_MEMORY, "key/value memory of %d blocks is too large", kv->config.group[i].n_block);
        MR_TRY(d->ops->buffer_create(d, &kv->buffer[i], bytes, err));
    }
    return MR_OK;
}

/* Each layer's place in the blocks of its group. */
static void make_views(struct model_kv *kv)
{
    const struct hparams *h = &kv->model->h;
    const size_t layer_block = (size_t)h->n_head_kv * kv_head_block_bytes(kv->model->kv_type, h->head_dim);
    int n_placed[KV_MAX_GROUPS] = {0};
    for (int i = 0; i < h->n_layer; i++) {
        const int group = kv->group_of_window[hparams_layer_has_window(h, i)];
        kv->view[i] = (struct kv_view){.buffer = kv->buffer[group],
                                       .offset = (size_t)n_placed[group]++ * layer_block,
                                       .stride = kv->stride[group],
                                       .type = kv->model->kv_type};
    }
}

static enum mr_status build(struct model_kv *kv, struct mr_error *err)
{
    const struct hparams *h = &kv->model->h;
    kv->group_of_window[0] = kv->group_of_window[1] = -1;
    for (int i = kv->config.n_group - 1; i >= 0; i--)
        kv->group_of_window[kv->config.group[i].window > 0] = i;
    kv->config.copy = copy_block;
    kv->config.context = kv;
    MR_TRY(kv_cache_create(&kv->cache, &kv->config, err));
    kv->view = mem_zero_array((size_t)h->n_layer, sizeof *kv->view);
    kv->run_length = mem_zero_array((size_t)kv->config.n_seq, sizeof *kv->run_length);
    if (kv->view == NULL || kv->run_length == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the cache");
    MR_TRY(make_buffers(kv, err));
    make_views(kv);
    return MR_OK;
}

enum mr_status model_kv_create(struct model_kv **out, struct model *m, int n_seq, int max_token, int64_t n_token,
                               struct mr_error *err)
{
    *out = NULL;
    if (n_seq < 1 || n_seq > UINT16_MAX || max_token < 1 || n_token < 1)
        return mr_fail(err, MR_BAD_INPUT, "cache: %d sequences of %d tokens, %lld in all", n_seq, max_token,
                       (long long)n_token);
    if (m->h.n_position > 0 && max_token > m->h.n_position)
        return mr_fail(err, MR_BAD_INPUT, "cache: sequences of %d tokens, but the model knows %d positions", max_token,
                       m->h.n_position);
    struct model_kv *kv = calloc(1, sizeof *kv);
    if (kv == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the cache");
    kv->model = m;
    model_kv_plan(&kv->config, &m->h, m->kv_type, m->options.max_row, n_seq, max_token, n_token);
    const enum mr_status status = build(kv, err);
    if (status != MR_OK) {
        model_kv_free(kv);
        return status;
    }
    *out = kv;
    return MR_OK;
}

void model_kv_free(struct model_kv *kv)
{
    if (kv == NULL)
        return;
    for (int i = 0; i < KV_MAX_GROUPS; i++)
        if (kv->buffer[i] != NULL)
            kv->buffer[i]->device->ops->buffer_free(kv->buffer[i]);
    kv_cache_free(kv->cache);
    free(kv->view);
    free(kv->run_length);
    free(kv);
}

struct kv_cache *model_kv_cache(const struct model_kv *kv) { return kv->cache; }

void model_kv_export(const struct model_kv *kv, int group, uint32_t block, void *out)
{
    struct device *d = kv->model->options.device;
    d->ops->read(d, out, kv->buffer[group], block * kv->stride[group], kv->stride[group]);
}

void model_kv_import(struct model_kv *kv, int group, uint32_t block, const void *contents)
{
    struct device *d = kv->model->options.device;
    d->ops->write(d, kv->buffer[group], block * kv->stride[group], contents, kv->stride[group]);
}
