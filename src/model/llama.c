/* llama.c: Llama 2 and 3, Mistral, SmolLM2 (Touvron et al. 2023, arXiv:2302.13971; Jiang et al. 2023, arXiv:2310.06825).
 * The file holds q and k with their rows reordered, so that neighbouring values of a head turn together. */
#include "model/family.h"
#include "model/pass.h"
#include "model/rope_scaling.h"

static enum mr_status configure(struct hparams *h, const struct gguf *g, struct mr_error *err)
{
    MR_TRY(hparams_read_window(h, g, err));
    h->n_rope = 1;
    return rope_read(&h->rope[0], h, g, ROPE_PAIRS, err);
}

static void layer(struct pass *p, int i)
{
    const struct layer_weights *w = &p->w->layer[i];
    pass_norm(p, &w->attn_norm);
    pass_attention(p, i, &p->h->rope[0], &p->angles[0]);
    pass_norm(p, &w->ffn_norm);
    pass_feed_forward(p, i, GLU_SILU);
}

static const char *const keys[] = {"attention.sliding_window", "tensor_data_layout", NULL};

const struct family family_llama = {
    .arch = "llama",
    .keys = keys,
    .norm_key = NORM_KEY_RMS,
    .configure = configure,
    .bind_layer = loader_dense_layer,
    .embed = pass_embed,
    .layer = layer,
    .head = pass_head,
};
