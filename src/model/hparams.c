/* hparams.c: reading and checking hyper-parameters. */
#include "model/hparams.h"

#include <stdio.h>
#include <string.h>

#include "model/family.h"

struct hparams_key hparams_key(const struct hparams *h, const char *name)
{
    struct hparams_key key;
    snprintf(key.s, sizeof key.s, "%s.%s", h->arch, name);
    return key;
}

enum mr_status hparams_int(const struct hparams *h, const struct gguf *g, const char *name, int64_t low, int64_t high, int *out,
                           struct mr_error *err)
{
    int64_t value;
    MR_TRY(gguf_get_int(g, hparams_key(h, name).s, low, high, &value, err));
    *out = (int)value;
    return MR_OK;
}

enum mr_status hparams_int_or(const struct hparams *h, const struct gguf *g, const char *name, int64_t low, int64_t high,
                              int fallback, int *out, struct mr_error *err)
{
    int64_t value;
    MR_TRY(gguf_get_int_or(g, hparams_key(h, name).s, low, high, fallback, &value, err));
    *out = (int)value;
    return MR_OK;
}

enum mr_status hparams_positive(const struct hparams *h, const struct gguf *g, const char *name, float *out,
                                struct mr_error *err)
{
    const struct hparams_key key = hparams_key(h, name);
    MR_TRY(gguf_get_f32(g, key.s, out, err));
    return *out > 0 ? MR_OK : mr_fail(err, MR_BAD_FORMAT, "key '%s': %g is not above 0", key.s, (double)*out);
}

enum mr_status hparams_positive_or(const struct hparams *h, const struct gguf *g, const char *name, float fallback, float *out,
                                   struct mr_error *err)
{
    *out = fallback;
    return gguf_value_find(g, hparams_key(h, name).s) == NULL ? MR_OK : hparams_positive(h, g, name, out, err);
}

enum mr_status hparams_read_window(struct hparams *h, const struct gguf *g, struct mr_error *err)
{
    return hparams_int_or(h, g, "attention.sliding_window", 1, INT32_MAX, 0, &h->window, err);
}

bool hparams_layer_has_window(const struct hparams *h, int layer)
{
    return h->window > 0 && (h->window_period == 0 || (layer + 1) % h->window_period != 0);
}

/* Keys that every family understands, below "ARCH.". */
static const char *const common_keys[] = {
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "pooling_type",
    NULL,
};

static bool is_in(struct gguf_string s, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strlen(*list) == s.n && memcmp(*list, s.s, s.n) == 0)
            return true;
    return false;
}

/* Keys whose only value that changes nothing is stated beside them. */
static bool is_harmless(struct gguf_string name, const struct gguf_value *v)
{
    static const struct {
        const char *name;
        int64_t value;
    } harmless[] = {{"expert_count", 0}, {"expert_used_count", 0}, {"attention.causal", 1}};
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strlen(harmless[i].name) == name.n && memcmp(harmless[i].name, name.s, name.n) == 0)
            return !v->is_array && (gguf_is_integer(v) || v->type == GGUF_BOOL) && gguf_as_i64(v, 0) == harmless[i].value;
    return false;
}

/* A key of the architecture that the family does not know changes the model in a way that this build would miss. */
static enum mr_status refuse_unknown_keys(const struct hparams *h, const struct gguf *g, struct mr_error *err)
{
    const size_t n = strlen(h->arch);
    for (int i = 0; i < gguf_n_values(g); i++) {
        const struct gguf_value *v = gguf_value_at(g, i);
        if (v->key.n <= n || memcmp(v->key.s, h->arch, n) != 0 || v->key.s[n] != '.')
            continue;
        const struct gguf_string name = {v->key.s + n + 1, v->key.n - n - 1};
        const char *const norm[] = {h->family->norm_key, NULL};
        if (!is_in(name, common_keys) && !is_in(name, norm) && !is_in(name, h->family->keys) && !is_harmless(name, v))
            return mr_fail(err, MR_NO_SUPPORT, "key '%.*s': the family '%s' does not use it", (int)v->key.n, v->key.s, h->arch);
    }
    return MR_OK;
}

static enum mr_status read_heads(struct hparams *h, const struct gguf *g, struct mr_error *err)
{
    MR_TRY(hparams_int_or(h, g, "pooling_type", 0, INT32_MAX, 0, &h->pooling, err));
    MR_TRY(hparams_int(h, g, "attention.head_count", 1, MAX_WIDTH, &h->n_head, err));
    MR_TRY(hparams_int_or(h, g, "attention.head_count_kv", 1, MAX_WIDTH, h->n_head, &h->n_head_kv, err));
    if (h->n_head % h->n_head_kv != 0)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s': %d does not divide the %d heads",
                       hparams_key(h, "attention.head_count_kv").s, h->n_head_kv, h->n_head);
    if (gguf_value_find(g, hparams_key(h, "attention.key_length").s) == NULL && h->n_embd % h->n_head != 0)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s': %d heads do not divide the width %d",
                       hparams_key(h, "attention.head_count").s, h->n_head, h->n_embd);
    const int fallback = h->n_embd / h->n_head;
    int value_dim;
    MR_TRY(hparams_int_or(h, g, "attention.key_length", 1, MAX_WIDTH, fallback, &h->head_dim, err));
    MR_TRY(hparams_int_or(h, g, "attention.value_length", 1, MAX_WIDTH, h->head_dim, &value_dim, err));
    if (value_dim != h->head_dim)
        return mr_fail(err, MR_NO_SUPPORT, "key '%s': %d differs from the %d of the keys",
                       hparams_key(h, "attention.value_length").s, value_dim, h->head_dim);
    if (h->head_dim % 2 != 0 || h->head_dim < 2 || h->head_dim > ATTENTION_MAX_HEAD_DIM)
        return mr_fail(err, MR_NO_SUPPORT, "key '%s': heads of %d, not an even number from 2 to %d",
                       hparams_key(h, "attention.key_length").s, h->head_dim, ATTENTION_MAX_HEAD_DIM);
    if ((int64_t)h->n_head * h->head_dim > MAX_WIDTH)
        return mr_fail(err, MR_BAD_FORMAT, "key '%s': %d heads of %d are too many", hparams_key(h, "attention.head_count").s,
                       h->n_head, h->head_dim);
    return MR_OK;
}

/* The vocabulary is as large as the embedding has rows, and what else states its size agrees. */
static enum mr_status read_vocabulary(struct hparams *h, const struct gguf *g, struct mr_error *err)
{
    const struct gguf_tensor *t = gguf_tensor_find(g, "token_embd.weight");
    if (t == NULL)
        return mr_fail(err, MR_NOT_FOUND, "there is no tensor 'token_embd.weight'");
    if (t->dims[1] > INT32_MAX)
        return mr_fail(err, MR_BAD_FORMAT, "tensor 'token_embd.weight' has %lld rows", (long long)t->dims[1]);
    h->n_vocab = (int)t->dims[1];
    int stated;
    MR_TRY(hparams_int_or(h, g, "vocab_size", 1, INT32_MAX, h->n_vocab, &stated, err));
    if (stated != h->n_vocab)
        return mr_fail(err, MR_BAD_FORMAT, "tensor 'token_embd.weight' has %d rows, key '%s' states %d", h->n_vocab,
                       hparams_key(h, "vocab_size").s, stated);
    const struct gguf_value *tokens = gguf_value_find(g, "tokenizer.ggml.tokens");
    if (tokens != NULL && tokens->n != (size_t)h->n_vocab)
        return mr_fail(err, MR_BAD_FORMAT, "tensor 'token_embd.weight' has %d rows, key 'tokenizer.ggml.tokens' %zu entries",
                       h->n_vocab, tokens->n);
    return MR_OK;
}

enum mr_status hparams_read(struct hparams *out, const struct gguf *g, struct mr_error *err)
{
    struct hparams *h = out;
    memset(h, 0, sizeof *h);
    struct gguf_string arch;
    MR_TRY(gguf_get_string(g, "general.architecture", &arch, err));
    h->family = family_find(arch);
    if (h->family == NULL)
        return mr_fail(err, MR_NO_SUPPORT, "key 'general.architecture': '%.*s' is not a family that this build knows",
                       arch.n < 64 ? (int)arch.n : 64, arch.s);
    h->arch = h->family->arch;
    MR_TRY(refuse_unknown_keys(h, g, err));
    MR_TRY(hparams_int(h, g, "block_count", 1, MAX_LAYERS, &h->n_layer, err));
    MR_TRY(hparams_int(h, g, "context_length", 1, INT32_MAX - ATTENTION_BLOCK, &h->n_ctx_train, err));
    MR_TRY(hparams_int(h, g, "embedding_length", 1, MAX_WIDTH, &h->n_embd, err));
    MR_TRY(hparams_int(h, g, "feed_forward_length", 1, MAX_WIDTH, &h->n_ff, err));
    MR_TRY(hparams_positive(h, g, h->family->norm_key, &h->norm_eps, err));
    MR_TRY(read_heads(h, g, err));
    MR_TRY(read_vocabulary(h, g, err));
    h->embed_scale = 1;
    h->attention_scale = (float)(1.0 / __builtin_sqrt((double)h->head_dim));
    return h->family->configure(h, g, err);
}
