/* train_model.c: the shape of a model as places in one array. */
#include "train/train_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_math.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/trigonometry.h"

static const char *const names[N_PARAMS] = {
    [PARAM_EMBED] = "token_embd",
    [PARAM_OUTPUT] = "output",
    [PARAM_OUTPUT_NORM] = "output_norm",
    [PARAM_ATTN_NORM] = "attn_norm",
    [PARAM_Q] = "attn_q",
    [PARAM_K] = "attn_k",
    [PARAM_V] = "attn_v",
    [PARAM_O] = "attn_output",
    [PARAM_Q_NORM] = "attn_q_norm",
    [PARAM_K_NORM] = "attn_k_norm",
    [PARAM_POST_ATTN_NORM] = "post_attention_norm",
    [PARAM_FFN_NORM] = "ffn_norm",
    [PARAM_GATE] = "ffn_gate",
    [PARAM_UP] = "ffn_up",
    [PARAM_DOWN] = "ffn_down",
    [PARAM_POST_FFN_NORM] = "post_ffw_norm",
};

struct param_name train_param_name(int layer, enum param which)
{
    struct param_name name;
    if (which < N_GLOBAL_PARAMS)
        snprintf(name.s, sizeof name.s, "%s.weight", names[which]);
    else
        snprintf(name.s, sizeof name.s, "blk.%d.%s.weight", layer, names[which]);
    return name;
}

/* n_out and n_in alone. */
static struct param_place shape_of(const struct train_model *m, enum param which)
{
    const struct hparams *h = &m->h;
    const int q = h->n_head * h->head_dim, kv = h->n_head_kv * h->head_dim;
    if (m->is_block && which < N_GLOBAL_PARAMS)
        return (struct param_place){0};
    switch (which) {
    case PARAM_EMBED:
        return (struct param_place){.n_out = h->n_vocab, .n_in = h->n_embd};
    case PARAM_OUTPUT:
        return (struct param_place){.n_out = m->is_tied ? 0 : h->n_vocab, .n_in = h->n_embd};
    case PARAM_Q:
        return (struct param_place){.n_out = q, .n_in = h->n_embd};
    case PARAM_K:
    case PARAM_V:
        return (struct param_place){.n_out = kv, .n_in = h->n_embd};
    case PARAM_O:
        return (struct param_place){.n_out = h->n_embd, .n_in = q};
    case PARAM_GATE:
    case PARAM_UP:
        return (struct param_place){.n_out = h->n_ff, .n_in = h->n_embd};
    case PARAM_DOWN:
        return (struct param_place){.n_out = h->n_embd, .n_in = h->n_ff};
    case PARAM_Q_NORM:
    case PARAM_K_NORM:
        return (struct param_place){.n_out = m->has_qk_norm ? h->head_dim : 0};
    case PARAM_POST_ATTN_NORM:
    case PARAM_POST_FFN_NORM:
        return (struct param_place){.n_out = m->has_post_norm ? h->n_embd : 0};
    default:
        return (struct param_place){.n_out = h->n_embd};
    }
}

size_t param_floats(struct param_place p) { return (size_t)p.n_out * (size_t)(p.n_in > 0 ? p.n_in : 1); }

static size_t floats_before(const struct train_model *m, enum param first, enum param end)
{
    size_t n = 0;
    for (enum param p = first; p < end; p++)
        n += param_floats(shape_of(m, p));
    return n;
}

struct param_place train_param(const struct train_model *m, int layer, enum param which)
{
    struct param_place p = shape_of(m, which);
    if (which < N_GLOBAL_PARAMS)
        p.at = floats_before(m, PARAM_EMBED, which);
    else
        p.at = floats_before(m, PARAM_EMBED, N_GLOBAL_PARAMS) + (size_t)layer * floats_before(m, N_GLOBAL_PARAMS, N_PARAMS) +
               floats_before(m, N_GLOBAL_PARAMS, which);
    return p;
}

static bool is_family(const struct hparams *h, const char *arch) { return strcmp(h->arch, arch) == 0; }

static void count_weights(struct train_model *m)
{
    m->n_weight =
        floats_before(m, PARAM_EMBED, N_GLOBAL_PARAMS) + (size_t)m->h.n_layer * floats_before(m, N_GLOBAL_PARAMS, N_PARAMS);
}

enum mr_status train_model_plan(struct train_model *out, const struct hparams *h, bool is_tied, float rope_base,
                                struct mr_error *err)
{
    const bool gemma = is_family(h, "gemma3");
    size_t bytes, rows;
    *out = (struct train_model){.h = *h,
                                .is_tied = is_tied,
                                .has_qk_norm = gemma || is_family(h, "qwen3"),
                                .has_post_norm = gemma,
                                .glu = gemma ? GLU_GELU : GLU_SILU,
                                .rope_base = rope_base};
    if (!gemma && !is_family(h, "llama") && !is_family(h, "qwen3"))
        return mr_fail(err, MR_NO_SUPPORT, "models of the family '%s' are not trained, only llama, qwen3 and gemma3", h->arch);
    if (h->attention_cap > 0 || h->final_cap > 0)
        return mr_fail(err, MR_NO_SUPPORT, "models with capped logits or scores are not trained");
    rows =
        (size_t)h->n_vocab * 2 + (size_t)h->n_layer * ((size_t)h->n_head * (size_t)h->head_dim * 4 + (size_t)h->n_ff * 3 + 8);
    if (!size_mul(&bytes, rows, (size_t)h->n_embd * sizeof(float)))
        return mr_fail(err, MR_NO_MEMORY, "no memory for weights of this shape");
    count_weights(out);
    return MR_OK;
}

static enum mr_status allocate(struct train_model *m, struct mr_error *err)
{
    m->w = mem_aligned(64, m->n_weight * sizeof(float) + 64);
    return m->w != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for %zu weights", m->n_weight);
}

enum mr_status train_model_create_block(struct train_model *out, const struct train_model *m, struct mr_error *err)
{
    *out = *m;
    out->is_block = true;
    out->h.n_layer = 1;
    count_weights(out);
    return allocate(out, err);
}

enum mr_status train_model_create(struct train_model *out, const struct hparams *h, bool is_tied, float rope_base,
                                  struct mr_error *err)
{
    MR_TRY(train_model_plan(out, h, is_tied, rope_base, err));
    return allocate(out, err);
}

void train_model_release(struct train_model *m)
{
    free(m->w);
    m->w = NULL;
}

enum {
    PIECE = 1 << 14 /* weights decoded at a time: whole blocks of every type */
};

enum mr_status train_param_read(float *out, const struct train_model *m, const struct gguf *g, int layer, enum param which,
                                struct mr_error *err)
{
    const struct param_place p = train_param(m, layer, which);
    const struct param_name name = train_param_name(layer, which);
    const struct gguf_tensor *t = gguf_tensor_find(g, name.s);
    const int64_t row = p.n_in > 0 ? p.n_in : p.n_out, n_row = p.n_in > 0 ? p.n_out : 1;
    char bytes[PIECE * sizeof(float)];
    if (t == NULL)
        return mr_fail(err, MR_NOT_FOUND, "there is no tensor '%s'", name.s);
    if (t->dims[0] != row || t->dims[1] != n_row || t->dims[2] != 1 || t->dims[3] != 1)
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%s' is %lld x %lld, not %lld x %lld", name.s, (long long)t->dims[1],
                       (long long)t->dims[0], (long long)n_row, (long long)row);
    for (size_t done = 0, n; done < param_floats(p); done += n) {
        n = param_floats(p) - done < PIECE ? param_floats(p) - done : PIECE;
        MR_TRY(gguf_read(g, t, quant_row_bytes(t->quant, done), bytes, quant_row_bytes(t->quant, n), err));
        if (!quant_is_finite(t->quant, bytes, n))
            return mr_fail(err, MR_BAD_FORMAT, "tensor '%s' holds NaN or infinity", name.s);
        t->quant->decode(out + done, bytes, n);
    }
    return MR_OK;
}

static enum mr_status read_all(struct train_model *m, const struct gguf *g, struct mr_error *err)
{
    for (enum param p = 0; p < N_GLOBAL_PARAMS; p++)
        if (shape_of(m, p).n_out > 0)
            MR_TRY(train_param_read(m->w + train_param(m, 0, p).at, m, g, 0, p, err));
    for (int layer = 0; layer < m->h.n_layer; layer++)
        for (enum param p = N_GLOBAL_PARAMS; p < N_PARAMS; p++)
            if (shape_of(m, p).n_out > 0)
                MR_TRY(train_param_read(m->w + train_param(m, layer, p).at, m, g, layer, p, err));
    return MR_OK;
}

/* What the file holds beyond what is trained would be lost. */
static enum mr_status refuse_others(const struct train_model *m, const struct gguf *g, struct mr_error *err)
{
    int n = gguf_tensor_find(g, "rope_freqs.weight") != NULL;
    for (enum param p = 0; p < N_PARAMS; p++)
        n += shape_of(m, p).n_out == 0 ? 0 : p < N_GLOBAL_PARAMS ? 1 : m->h.n_layer;
    return n == gguf_n_tensors(g)
               ? MR_OK
               : mr_fail(err, MR_NO_SUPPORT, "the file has %d tensors, a trained model of its family %d", gguf_n_tensors(g), n);
}

enum mr_status train_model_plan_file(struct train_model *out, const struct gguf *g, struct mr_error *err)
{
    struct hparams h;
    float base;
    *out = (struct train_model){0};
    if (gguf_is_packed(g))
        return mr_fail(err, MR_BAD_INPUT, "the file is packed for a machine; take the one that it was packed from");
    MR_TRY(hparams_read(&h, g, err));
    MR_TRY(hparams_positive_or(&h, g, "rope.freq_base", 10000, &base, err));
    MR_TRY(train_model_plan(out, &h, gguf_tensor_find(g, "output.weight") == NULL, base, err));
    return refuse_others(out, g, err);
}

enum mr_status train_model_load(struct train_model *out, const struct gguf *g, struct mr_error *err)
{
    MR_TRY(train_model_plan_file(out, g, err));
    MR_TRY(allocate(out, err));
    const enum mr_status status = read_all(out, g, err);
    if (status != MR_OK)
        train_model_release(out);
    return status;
}

/* The i-th of a stream of normal numbers (Box and Muller 1958). */
static float normal(uint64_t seed, uint64_t i)
{
    const uint32_t counter[4] = {(uint32_t)i, (uint32_t)(i >> 32), 0, 0}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t word[4];
    double sine, cosine;
    philox4x32(word, counter, key);
    const double u = ((double)word[0] + 1) / 4294967297.0, angle = (double)word[1] / 4294967296.0 * 6.283185307179586;
    math_sincos(&sine, &cosine, angle);
    return (float)(sqrt(-2 * math_log(u)) * cosine);
}

static void randomize(struct train_model *m, struct param_place p, float deviation, uint64_t seed)
{
    for (size_t i = 0; i < param_floats(p); i++)
        m->w[p.at + i] = p.n_in == 0 ? 1 : deviation * normal(seed, p.at + i);
}

void train_model_randomize(struct train_model *m, uint64_t seed)
{
    const float deviation = 0.02f, deep = (float)(0.02 / sqrt(2.0 * m->h.n_layer));
    for (enum param p = 0; p < N_GLOBAL_PARAMS; p++)
        randomize(m, train_param(m, 0, p), deviation, seed);
    for (int layer = 0; layer < m->h.n_layer; layer++)
        for (enum param p = N_GLOBAL_PARAMS; p < N_PARAMS; p++)
            randomize(m, train_param(m, layer, p), p == PARAM_O || p == PARAM_DOWN ? deep : deviation, seed);
}
