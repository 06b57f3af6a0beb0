/* gemma3.c: Gemma 3, text (Gemma Team 2025, arXiv:2503.19786): norms before and after each block, scaled embeddings, heads of
 * q and k normed; of six layers five see a window and turn by a short base, the sixth sees everything.
 * The file's norm weights are what multiplies (1 + w of the paper's code). */
#include "model/family.h"
#include "model/pass.h"
#include "model/rope_scaling.h"

enum {
    PERIOD = 6,
    HEAD_DIM_27B = 128 /* the one size whose queries are scaled by width / heads instead of the head's own size */
};

static enum mr_status configure(struct hparams *h, const struct gguf *g, struct mr_error *err)
{
    float local_base;
    MR_TRY(hparams_int(h, g, "attention.sliding_window", 1, INT32_MAX, &h->window, err));
    MR_TRY(hparams_int_or(h, g, "attention.sliding_window_pattern", 1, MAX_LAYERS, PERIOD, &h->window_period, err));
    MR_TRY(hparams_positive_or(h, g, "rope.freq_base_swa", 10000, &local_base, err));
    if (local_base <= 1)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s': %g is not above 1", hparams_key(h, "rope.freq_base_swa").s,
                       (double)local_base);
    MR_TRY(hparams_positive_or(h, g, "attn_logit_softcapping", 0, &h->attention_cap, err));
    MR_TRY(hparams_positive_or(h, g, "final_logit_softcapping", 0, &h->final_cap, err));
    const double per_head = h->head_dim == HEAD_DIM_27B ? (double)h->n_embd / h->n_head : h->head_dim;
    MR_TRY(hparams_positive_or(h, g, "attention.scale", (float)(1 / __builtin_sqrt(per_head)), &h->attention_scale, err));
    h->embed_scale = (float)__builtin_sqrt((double)h->n_embd);
    h->n_rope = 2;
    MR_TRY(rope_read(&h->rope[0], h, g, ROPE_HALVES, err));
    rope_plain(&h->rope[1], ROPE_HALVES, h->rope[0].n_rot, (double)local_base);
    return MR_OK;
}

static enum mr_status bind_layer(struct loader *l, struct layer_weights *w, int layer, struct mr_error *err)
{
    const struct hparams *h = loader_hparams(l);
    MR_TRY(loader_dense_layer(l, w, layer, err));
    MR_TRY(loader_layer_vector(l, &w->q_norm, layer, "attn_q_norm.weight", h->head_dim, err));
    MR_TRY(loader_layer_vector(l, &w->k_norm, layer, "attn_k_norm.weight", h->head_dim, err));
    MR_TRY(loader_layer_vector(l, &w->post_attn_norm, layer, "post_attention_norm.weight", h->n_embd, err));
    return loader_layer_vector(l, &w->post_ffn_norm, layer, "post_ffw_norm.weight", h->n_embd, err);
}

static void layer(struct pass *p, int i)
{
    const struct layer_weights *w = &p->w->layer[i];
    const int local = hparams_layer_has_window(p->h, i);
    pass_norm(p, &w->attn_norm);
    pass_attention(p, i, &p->h->rope[local], &p->angles[local]);
    p->delta_weight = w->post_attn_norm;
    pass_norm(p, &w->ffn_norm);
    pass_feed_forward(p, i, GLU_GELU);
    p->delta_weight = w->post_ffn_norm;
}

static const char *const keys[] = {
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.scale",
    "rope.freq_base_swa",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    NULL,
};

const struct family family_gemma3 = {
    .arch = "gemma3",
    .keys = keys,
    .norm_key = NORM_KEY_RMS,
    .configure = configure,
    .bind_layer = bind_layer,
    .embed = pass_embed,
    .layer = layer,
    .head = pass_head,
};
