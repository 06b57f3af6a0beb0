/* qwen2.c: Qwen2 and Qwen2.5 (Yang et al. 2024, arXiv:2407.10671): q, k and v have biases. */
#include "model/family.h"
#include "model/pass.h"
#include "model/rope_scaling.h"

static enum mr_status configure(struct hparams *h, const struct gguf *g, struct mr_error *err)
{
    h->n_rope = 1;
    return rope_read(&h->rope[0], h, g, ROPE_HALVES, err);
}

static enum mr_status bind_layer(struct loader *l, struct layer_weights *w, int layer, struct mr_error *err)
{
    const struct hparams *h = loader_hparams(l);
    MR_TRY(loader_dense_layer(l, w, layer, err));
    MR_TRY(loader_layer_vector(l, &w->q_bias, layer, "attn_q.bias", h->n_head * h->head_dim, err));
    MR_TRY(loader_layer_vector(l, &w->k_bias, layer, "attn_k.bias", h->n_head_kv * h->head_dim, err));
    return loader_layer_vector(l, &w->v_bias, layer, "attn_v.bias", h->n_head_kv * h->head_dim, err);
}

static void layer(struct pass *p, int i)
{
    const struct layer_weights *w = &p->w->layer[i];
    pass_norm(p, &w->attn_norm);
    pass_attention(p, i, &p->h->rope[0], &p->angles[0]);
    pass_norm(p, &w->ffn_norm);
    pass_feed_forward(p, i, GLU_SILU);
}

static const char *const keys[] = {NULL};

const struct family family_qwen2 = {
    .arch = "qwen2",
    .keys = keys,
    .norm_key = NORM_KEY_RMS,
    .configure = configure,
    .bind_layer = bind_layer,
    .embed = pass_embed,
    .layer = layer,
    .head = pass_head,
};
