/* olmoe.c: OLMoE (Muennighoff et al. 2024, arXiv:2409.02060): a mixture of experts without a limit on the rows of one; q and k
 * pass an RMS norm over all heads together before they turn. */
#include "model/family.h"
#include "model/pass.h"
#include "model/rope_scaling.h"

static enum mr_status configure(struct hparams *h, const struct gguf *g, struct mr_error *err)
{
    MR_TRY(hparams_int(h, g, "expert_count", 1, MAX_EXPERTS, &h->n_expert, err));
    MR_TRY(hparams_int(h, g, "expert_used_count", 1, h->n_expert, &h->n_expert_used, err));
    MR_TRY(hparams_int_or(h, g, "expert_feed_forward_length", 1, MAX_WIDTH, h->n_ff, &h->n_ff, err));
    MR_TRY(gguf_get_bool_or(g, hparams_key(h, "expert_weights_norm").s, false, &h->expert_weights_sum_to_1, err));
    h->n_rope = 1;
    return rope_read(&h->rope[0], h, g, ROPE_HALVES, err);
}

static enum mr_status bind_layer(struct loader *l, struct layer_weights *w, int layer, struct mr_error *err)
{
    const struct hparams *h = loader_hparams(l);
    MR_TRY(loader_attention(l, w, layer, err));
    MR_TRY(loader_layer_vector(l, &w->q_norm, layer, "attn_q_norm.weight", h->n_head * h->head_dim, err));
    MR_TRY(loader_layer_vector(l, &w->k_norm, layer, "attn_k_norm.weight", h->n_head_kv * h->head_dim, err));
    MR_TRY(loader_layer_vector(l, &w->ffn_norm, layer, "ffn_norm.weight", h->n_embd, err));
    MR_TRY(loader_layer_router(l, &w->router, layer, "ffn_gate_inp.weight", err));
    MR_TRY(loader_layer_experts(l, &w->gate, layer, "ffn_gate_exps.weight", h->n_ff, h->n_embd, err));
    MR_TRY(loader_layer_experts(l, &w->up, layer, "ffn_up_exps.weight", h->n_ff, h->n_embd, err));
    return loader_layer_experts(l, &w->down, layer, "ffn_down_exps.weight", h->n_embd, h->n_ff, err);
}

static void layer(struct pass *p, int i)
{
    const struct layer_weights *w = &p->w->layer[i];
    pass_norm(p, &w->attn_norm);
    pass_attention(p, i, &p->h->rope[0], &p->angles[0]);
    pass_norm(p, &w->ffn_norm);
    pass_experts(p, i, GLU_SILU);
}

static const char *const keys[] = {"expert_count", "expert_used_count", "expert_feed_forward_length", "expert_weights_norm",
                                   NULL};

const struct family family_olmoe = {
    .arch = "olmoe",
    .keys = keys,
    .norm_key = NORM_KEY_RMS,
    .configure = configure,
    .bind_layer = bind_layer,
    .embed = pass_embed,
    .layer = layer,
    .head = pass_head,
};
