/* qwen3.c: Qwen3, dense (Yang et al. 2025, arXiv:2505.09388): each head of q and k passes an RMS norm before it turns. */
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
    MR_TRY(loader_dense_layer(l, w, layer, err));
    MR_TRY(loader_layer_vector(l, &w->q_norm, layer, "attn_q_norm.weight", loader_hparams(l)->head_dim, err));
    return loader_layer_vector(l, &w->k_norm, layer, "attn_k_norm.weight", loader_hparams(l)->head_dim, err);
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

const struct family family_qwen3 = {
    .arch = "qwen3",
    .keys = keys,
    .norm_key = NORM_KEY_RMS,
    .configure = configure,
    .bind_layer = bind_layer,
    .embed = pass_embed,
    .layer = layer,
    .head = pass_head,
};
