/* new_model.c: numbers to hyper-parameters. */
#include "compress/new_model.h"

#include <string.h>

#include "model/family.h"
#include "model/rope_scaling.h"
#include "text/tokenizer.h"

static enum mr_status shape(struct hparams *h, const struct new_model *n, int n_vocab, struct mr_error *err)
{
    const int head_dim = n->head_dim > 0 ? n->head_dim : n->n_head > 0 ? n->n_embd / n->n_head : 0;
    if (n->n_layer < 1 || n->n_layer > MAX_LAYERS || n->n_embd < 1 || n->n_embd > MAX_WIDTH || n->n_ff < 1 ||
        n->n_ff > MAX_WIDTH || n->n_ctx < 1)
        return mr_fail(err, MR_BAD_INPUT, "%d layers of width %d and %d channels for %d tokens are no model", n->n_layer,
                       n->n_embd, n->n_ff, n->n_ctx);
    if (n->n_head < 1 || n->n_head_kv < 1 || n->n_head % n->n_head_kv != 0)
        return mr_fail(err, MR_BAD_INPUT, "%d key/value heads do not divide %d heads", n->n_head_kv, n->n_head);
    if (n->head_dim == 0 && n->n_embd % n->n_head != 0)
        return mr_fail(err, MR_BAD_INPUT, "%d heads do not divide the width %d", n->n_head, n->n_embd);
    if (head_dim < 2 || head_dim % 2 != 0 || head_dim > ATTENTION_MAX_HEAD_DIM || n->n_head > MAX_WIDTH / head_dim)
        return mr_fail(err, MR_BAD_INPUT, "%d heads of %d: an even number from 2 to %d is needed", n->n_head, head_dim,
                       ATTENTION_MAX_HEAD_DIM);
    if (!(n->rope_base > 1) || !(n->norm_eps > 0))
        return mr_fail(err, MR_BAD_INPUT, "a rotary base of %g or an epsilon of %g", (double)n->rope_base, (double)n->norm_eps);
    *h = (struct hparams){.n_vocab = n_vocab,
                          .n_ctx_train = n->n_ctx,
                          .n_layer = n->n_layer,
                          .n_embd = n->n_embd,
                          .n_ff = n->n_ff,
                          .n_head = n->n_head,
                          .n_head_kv = n->n_head_kv,
                          .head_dim = head_dim,
                          .norm_eps = n->norm_eps,
                          .n_rope = 1,
                          .embed_scale = 1,
                          .attention_scale = (float)(1 / __builtin_sqrt((double)head_dim))};
    h->family = family_find((struct gguf_string){"llama", 5});
    h->arch = h->family->arch;
    rope_plain(&h->rope[0], ROPE_PAIRS, head_dim, (double)n->rope_base);
    return MR_OK;
}

static enum mr_status write_model(const struct new_model *n, const struct gguf *g, size_t *n_weight, struct mr_error *err)
{
    struct tokenizer *t;
    struct hparams h;
    struct train_model m;
    MR_TRY(tokenizer_create(&t, g, err));
    const int n_vocab = tokenizer_n_vocab(t);
    tokenizer_free(t);
    MR_TRY(shape(&h, n, n_vocab, err));
    MR_TRY(train_model_create(&m, &h, !n->is_untied, n->rope_base, err));
    train_model_randomize(&m, n->seed);
    *n_weight = m.n_weight;
    const enum mr_status status = train_model_write(&m, g, true, n->type, n->out, err);
    train_model_release(&m);
    return status;
}

enum mr_status new_model_write(const struct new_model *n, size_t *n_weight, struct mr_error *err)
{
    struct gguf *g;
    *n_weight = 0;
    MR_TRY(gguf_open(&g, n->tokenizer, err));
    const enum mr_status status = write_model(n, g, n_weight, err);
    gguf_close(g);
    return status;
}
