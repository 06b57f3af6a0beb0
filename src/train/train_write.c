/* train_write.c: a trained model to a file. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "format/gguf_write.h"
#include "train/train_model.h"

/* Keys below "ARCH." that state the shape. */
static const char *const shape_keys[] = {"embedding_length",     "block_count",           "feed_forward_length",
                                         "vocab_size",           "attention.head_count",  "attention.head_count_kv",
                                         "attention.key_length", "attention.value_length"};

static bool equals(struct gguf_string s, const char *word) { return strlen(word) == s.n && memcmp(word, s.s, s.n) == 0; }
static bool begins(struct gguf_string s, const char *with)
{
    return s.n >= strlen(with) && memcmp(with, s.s, strlen(with)) == 0;
}

static bool is_replaced(const struct train_model *m, struct gguf_string key, bool is_new)
{
    if (equals(key, "general.architecture") || equals(key, "general.file_type") || equals(key, "general.size_label") ||
        equals(key, "general.quantization_version"))
        return true;
    if (is_new)
        return !begins(key, "tokenizer.");
    for (size_t i = 0; i < sizeof shape_keys / sizeof *shape_keys; i++)
        if (equals(key, hparams_key(&m->h, shape_keys[i]).s))
            return true;
    return false;
}

static enum mr_status put_u32(struct gguf_writer *w, const struct train_model *m, const char *name, int value,
                              struct mr_error *err)
{
    return gguf_put_int(w, hparams_key(&m->h, name).s, GGUF_U32, value, err);
}

static enum mr_status put_shape(struct gguf_writer *w, const struct train_model *m, struct mr_error *err)
{
    const struct hparams *h = &m->h;
    MR_TRY(put_u32(w, m, "embedding_length", h->n_embd, err));
    MR_TRY(put_u32(w, m, "block_count", h->n_layer, err));
    MR_TRY(put_u32(w, m, "feed_forward_length", h->n_ff, err));
    MR_TRY(put_u32(w, m, "vocab_size", h->n_vocab, err));
    MR_TRY(put_u32(w, m, "attention.head_count", h->n_head, err));
    MR_TRY(put_u32(w, m, "attention.head_count_kv", h->n_head_kv, err));
    MR_TRY(put_u32(w, m, "attention.key_length", h->head_dim, err));
    return put_u32(w, m, "attention.value_length", h->head_dim, err);
}

static enum mr_status put_new(struct gguf_writer *w, const struct train_model *m, struct mr_error *err)
{
    MR_TRY(put_u32(w, m, "context_length", m->h.n_ctx_train, err));
    MR_TRY(put_u32(w, m, "rope.dimension_count", m->h.head_dim, err));
    MR_TRY(gguf_put_f32(w, hparams_key(&m->h, "rope.freq_base").s, m->rope_base, err));
    return gguf_put_f32(w, hparams_key(&m->h, "attention.layer_norm_rms_epsilon").s, m->h.norm_eps, err);
}

static enum mr_status put_keys(struct gguf_writer *w, const struct train_model *m, const struct gguf *g, bool is_new,
                               enum quant_type type, struct mr_error *err)
{
    const int file_type = type == QUANT_F32 ? 0 : type == QUANT_F16 ? 1 : 32; /* the specification's general.file_type */
    MR_TRY(gguf_put_string(w, "general.architecture", (struct gguf_string){m->h.arch, strlen(m->h.arch)}, err));
    MR_TRY(gguf_put_int(w, "general.file_type", GGUF_U32, file_type, err));
    for (int i = 0; i < gguf_n_values(g); i++)
        if (!is_replaced(m, gguf_value_at(g, i)->key, is_new))
            MR_TRY(gguf_put_value(w, gguf_value_at(g, i), err));
    if (is_new)
        MR_TRY(put_new(w, m, err));
    return put_shape(w, m, err);
}

struct writing {
    struct gguf_writer *w;
    const struct train_model *m;
    const struct param_source *from;
};

typedef enum mr_status param_fn(const struct writing *t, int layer, enum param which, const struct quant *quant,
                                struct mr_error *err);

static enum mr_status each_param(const struct writing *t, enum quant_type type, param_fn *f, struct mr_error *err)
{
    const struct quant *matrix = quant_find(type), *vector = quant_find(QUANT_F32);
    for (int layer = -1; layer < t->m->h.n_layer; layer++)
        for (enum param p = layer < 0 ? 0 : N_GLOBAL_PARAMS; p < (layer < 0 ? N_GLOBAL_PARAMS : N_PARAMS); p++) {
            const struct param_place at = train_param(t->m, layer, p);
            if (at.n_out > 0)
                MR_TRY(f(t, layer, p, at.n_in > 0 ? matrix : vector, err));
        }
    return MR_OK;
}

static enum mr_status declare(const struct writing *t, int layer, enum param which, const struct quant *quant,
                              struct mr_error *err)
{
    const struct param_place p = train_param(t->m, layer, which);
    const struct param_name name = train_param_name(layer, which);
    const int64_t dims[2] = {p.n_in > 0 ? p.n_in : p.n_out, p.n_out};
    return gguf_declare_tensor(t->w, (struct gguf_string){name.s, strlen(name.s)}, quant, p.n_in > 0 ? 2 : 1, dims, err);
}

enum {
    PIECE = 1 << 14 /* weights encoded at a time */
};

static enum mr_status write_param(const struct writing *t, int layer, enum param which, const struct quant *quant,
                                  struct mr_error *err)
{
    const size_t all = param_floats(train_param(t->m, layer, which));
    const float *from;
    char bytes[PIECE * sizeof(float)];
    MR_TRY(t->from->read(t->from->context, layer, which, &from, err));
    for (size_t done = 0, n; done < all; done += n) {
        n = all - done < PIECE ? all - done : PIECE;
        quant->encode(bytes, from + done, n);
        if (!quant_is_finite(quant, bytes, n))
            return mr_fail(err, MR_BAD_INPUT, "tensor '%s' has weights that are not finite as %s",
                           train_param_name(layer, which).s, quant->name);
        MR_TRY(gguf_write_data(t->w, bytes, n * quant->bytes, err));
    }
    return MR_OK;
}

static enum mr_status write_all(const struct writing *t, const struct gguf *g, bool is_new, enum quant_type type,
                                struct mr_error *err)
{
    struct gguf_writer *w = t->w;
    const struct gguf_tensor *freqs = is_new ? NULL : gguf_tensor_find(g, "rope_freqs.weight");
    MR_TRY(put_keys(w, t->m, g, is_new, type, err));
    MR_TRY(each_param(t, type, declare, err));
    if (freqs != NULL)
        MR_TRY(gguf_declare_tensor(w, freqs->name, freqs->quant, freqs->n_dims, freqs->dims, err));
    MR_TRY(gguf_begin_data(w, err));
    MR_TRY(each_param(t, type, write_param, err));
    if (freqs != NULL) {
        float factor[ATTENTION_MAX_HEAD_DIM / 2];
        MR_TRY(gguf_read(g, freqs, 0, factor, freqs->bytes, err));
        MR_TRY(gguf_write_data(w, factor, freqs->bytes, err));
    }
    return gguf_writer_finish(w, err);
}

enum mr_status train_model_write_from(const struct train_model *m, const struct param_source *from, const struct gguf *g,
                                      bool is_new, enum quant_type type, const char *path, struct mr_error *err)
{
    struct writing t = {.m = m, .from = from};
    if (type != QUANT_F32 && type != QUANT_F16 && type != QUANT_BF16)
        return mr_fail(err, MR_BAD_INPUT, "a trained model is written as f32, f16 or bf16");
    MR_TRY(gguf_writer_create(&t.w, path, err));
    const enum mr_status status = write_all(&t, g, is_new, type, err);
    gguf_writer_free(t.w);
    return status;
}

static enum mr_status own_weights(void *context, int layer, enum param which, const float **out, struct mr_error *err)
{
    const struct train_model *m = context;
    (void)err;
    *out = m->w + train_param(m, layer, which).at;
    return MR_OK;
}

enum mr_status train_model_write(const struct train_model *m, const struct gguf *g, bool is_new, enum quant_type type,
                                 const char *path, struct mr_error *err)
{
    struct train_model own = *m;
    const struct param_source from = {own_weights, &own};
    return train_model_write_from(m, &from, g, is_new, type, path, err);
}
