/* gpt2.c: GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"): learned positions, layer norms
 * and products with biases, q, k and v in one matrix, a feed-forward block without a gate. */
#include "model/family.h"
#include "model/pass.h"

static enum mr_status configure(struct hparams *h, const struct gguf *g, struct mr_error *err)
{
    (void)g;
    if (h->n_head_kv != h->n_head || h->n_head * h->head_dim != h->n_embd)
        return mr_fail(err, MR_NO_SUPPORT, "key '%s': %d heads of %d, %d of them with keys, are not the width %d",
                       hparams_key(h, "attention.head_count").s, h->n_head, h->head_dim, h->n_head_kv, h->n_embd);
    h->n_position = h->n_ctx_train;
    return MR_OK;
}

static enum mr_status bind_model(struct loader *l, struct weights *w, struct mr_error *err)
{
    const struct hparams *h = loader_hparams(l);
    MR_TRY(loader_matrix(l, &w->position, "position_embd.weight", h->n_position, h->n_embd, err));
    return loader_vector(l, &w->output_norm_bias, "output_norm.bias", h->n_embd, err);
}

static enum mr_status bind_layer(struct loader *l, struct layer_weights *w, int layer, struct mr_error *err)
{
    const int n = loader_hparams(l)->n_embd, n_ff = loader_hparams(l)->n_ff;
    const struct {
        struct tensor *to;
        const char *name;
        int n;
    } vectors[] = {
        {&w->attn_norm, "attn_norm.weight", n}, {&w->attn_norm_bias, "attn_norm.bias", n},
        {&w->qkv_bias, "attn_qkv.bias", 3 * n}, {&w->o_bias, "attn_output.bias", n},
        {&w->ffn_norm, "ffn_norm.weight", n},   {&w->ffn_norm_bias, "ffn_norm.bias", n},
        {&w->up_bias, "ffn_up.bias", n_ff},     {&w->down_bias, "ffn_down.bias", n},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        MR_TRY(loader_layer_vector(l, vectors[i].to, layer, vectors[i].name, vectors[i].n, err));
    MR_TRY(loader_layer_matrix(l, &w->qkv, layer, "attn_qkv.weight", 3 * n, n, err));
    MR_TRY(loader_layer_matrix(l, &w->o, layer, "attn_output.weight", n, n, err));
    MR_TRY(loader_layer_matrix(l, &w->up, layer, "ffn_up.weight", n_ff, n, err));
    return loader_layer_matrix(l, &w->down, layer, "ffn_down.weight", n, n_ff, err);
}

static void embed(struct pass *p)
{
    pass_embed(p);
    pass_embed_positions(p);
}

static void layer(struct pass *p, int i)
{
    const struct layer_weights *w = &p->w->layer[i];
    pass_layer_norm(p, &w->attn_norm, &w->attn_norm_bias);
    pass_attention(p, i, &p->h->rope[0], &p->angles[0]);
    pass_layer_norm(p, &w->ffn_norm, &w->ffn_norm_bias);
    pass_plain_feed_forward(p, i);
}

static const char *const keys[] = {NULL};

const struct family family_gpt2 = {
    .arch = "gpt2",
    .keys = keys,
    .norm_key = NORM_KEY_LAYER,
    .configure = configure,
    .bind_model = bind_model,
    .bind_layer = bind_layer,
    .embed = embed,
    .layer = layer,
    .head = pass_head,
};
