/* mix.c: the table of mixes, and how a tensor's name finds its place in it. */
#include "compress/mix.h"

#include <string.h>

/* Which layers get the other type. The first and the last ones change the residual stream by most; between them every third
 * spreads the bits that are left. */
enum where {
    NOWHERE,
    EVERYWHERE,
    FIRST_TWO,
    FIRST_FOUR,
    FIRST_SIXTEENTH,
    FIRST_EIGHTH,
    OUTER_AND_THIRDS /* the first and last eighth, and every third layer between */
};

struct raise {
    enum where where;
    enum quant_type type;
};

enum {
    N_RAISES = 2 /* the first that holds counts */
};

struct mix {
    const char *name;
    uint32_t file_type; /* ids of the GGUF specification */
    enum quant_type base;
    enum quant_type head; /* of output.weight, or of a tied embedding */
    struct raise v[N_RAISES], down[N_RAISES], out[N_RAISES], qkv[N_RAISES];
};

#define PLAIN(text, id, type, head_type)                                                                                       \
    {                                                                                                                          \
        .name = text, .file_type = id, .base = type, .head = head_type                                                         \
    }
#define ALL(type)                                                                                                              \
    {                                                                                                                          \
        {                                                                                                                      \
            EVERYWHERE, type                                                                                                   \
        }                                                                                                                      \
    }

static const struct mix table[] = {
    PLAIN("f32", 0, QUANT_F32, QUANT_F32),
    PLAIN("f16", 1, QUANT_F16, QUANT_F16),
    PLAIN("bf16", 32, QUANT_BF16, QUANT_BF16),
    PLAIN("q8_0", 7, QUANT_Q8_0, QUANT_Q8_0),
    PLAIN("q4_0", 2, QUANT_Q4_0, QUANT_Q6_K),
    PLAIN("q4_1", 3, QUANT_Q4_1, QUANT_Q6_K),
    PLAIN("q5_0", 8, QUANT_Q5_0, QUANT_Q6_K),
    PLAIN("q5_1", 9, QUANT_Q5_1, QUANT_Q6_K),
    PLAIN("iq4_nl", 25, QUANT_IQ4_NL, QUANT_Q6_K),
    PLAIN("q6_k", 18, QUANT_Q6_K, QUANT_Q6_K),
    {.name = "q2_k",
     .file_type = 10,
     .base = QUANT_Q2_K,
     .head = QUANT_Q6_K,
     .v = ALL(QUANT_Q4_K),
     .down = ALL(QUANT_Q3_K),
     .out = ALL(QUANT_Q3_K)},
    PLAIN("q3_k", 11, QUANT_Q3_K, QUANT_Q6_K),
    PLAIN("q3_k_s", 11, QUANT_Q3_K, QUANT_Q6_K),
    {.name = "q3_k_m",
     .file_type = 12,
     .base = QUANT_Q3_K,
     .head = QUANT_Q6_K,
     .v = {{FIRST_TWO, QUANT_Q5_K}, {EVERYWHERE, QUANT_Q4_K}},
     .down = {{FIRST_SIXTEENTH, QUANT_Q5_K}, {OUTER_AND_THIRDS, QUANT_Q4_K}},
     .out = ALL(QUANT_Q4_K),
     .qkv = ALL(QUANT_Q4_K)},
    {.name = "q3_k_l",
     .file_type = 13,
     .base = QUANT_Q3_K,
     .head = QUANT_Q6_K,
     .v = ALL(QUANT_Q5_K),
     .down = ALL(QUANT_Q5_K),
     .out = ALL(QUANT_Q5_K),
     .qkv = ALL(QUANT_Q4_K)},
    PLAIN("q4_k", 14, QUANT_Q4_K, QUANT_Q6_K),
    {.name = "q4_k_s",
     .file_type = 14,
     .base = QUANT_Q4_K,
     .head = QUANT_Q6_K,
     .v = {{FIRST_FOUR, QUANT_Q5_K}},
     .down = {{FIRST_EIGHTH, QUANT_Q5_K}}},
    {.name = "q4_k_m",
     .file_type = 15,
     .base = QUANT_Q4_K,
     .head = QUANT_Q6_K,
     .v = {{OUTER_AND_THIRDS, QUANT_Q6_K}},
     .down = {{OUTER_AND_THIRDS, QUANT_Q6_K}},
     .qkv = ALL(QUANT_Q5_K)},
    PLAIN("q5_k", 16, QUANT_Q5_K, QUANT_Q6_K),
    PLAIN("q5_k_s", 16, QUANT_Q5_K, QUANT_Q6_K),
    {.name = "q5_k_m",
     .file_type = 17,
     .base = QUANT_Q5_K,
     .head = QUANT_Q6_K,
     .v = {{OUTER_AND_THIRDS, QUANT_Q6_K}},
     .down = {{OUTER_AND_THIRDS, QUANT_Q6_K}},
     .qkv = ALL(QUANT_Q6_K)},
};

enum {
    N_MIXES = sizeof table / sizeof *table
};

const struct mix *mix_at(int i) { return i >= 0 && i < N_MIXES ? &table[i] : NULL; }

const struct mix *mix_find(const char *name)
{
    for (int i = 0; i < N_MIXES; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

const char *mix_name(const struct mix *m) { return m->name; }

uint32_t mix_file_type(const struct mix *m) { return m->file_type; }

static bool is_called(const struct gguf_tensor *t, const char *name)
{
    return t->name.n == strlen(name) && memcmp(t->name.s, name, t->name.n) == 0;
}

/* The layer of "blk.LAYER.rest", and the rest with its length; -1: it belongs to none. */
static int layer_of(const struct gguf_tensor *t, struct gguf_string *rest)
{
    size_t i = 4;
    int layer = 0;
    if (t->name.n < 6 || memcmp(t->name.s, "blk.", 4) != 0)
        return -1;
    for (; i < t->name.n && t->name.s[i] >= '0' && t->name.s[i] <= '9' && layer < 1 << 20; i++)
        layer = layer * 10 + (t->name.s[i] - '0');
    if (i == 4 || i >= t->name.n || t->name.s[i] != '.')
        return -1;
    *rest = (struct gguf_string){t->name.s + i + 1, t->name.n - i - 1};
    return layer;
}

static bool ends_with(struct gguf_string s, const char *end)
{
    const size_t n = strlen(end);
    return s.n >= n && memcmp(s.s + s.n - n, end, n) == 0;
}

bool mix_is_matrix(const struct gguf_tensor *t)
{
    return t->n_dims >= 2 && t->dims[0] > 1 && ends_with(t->name, ".weight") && !ends_with(t->name, "norm.weight") &&
           !ends_with(t->name, "ffn_gate_inp.weight") && !is_called(t, "position_embd.weight");
}

static bool holds(enum where where, int layer, int n)
{
    switch (where) {
    case NOWHERE:
        return false;
    case EVERYWHERE:
        return true;
    case FIRST_TWO:
        return layer < 2;
    case FIRST_FOUR:
        return layer < 4;
    case FIRST_SIXTEENTH:
        return layer < n / 16;
    case FIRST_EIGHTH:
        return layer < n / 8;
    case OUTER_AND_THIRDS:
        return layer < n / 8 || layer >= n - n / 8 || (layer - n / 8) % 3 == 2;
    }
    return false;
}

static enum quant_type raised(const struct mix *m, const struct raise *raise, int layer, int n_layer)
{
    for (int i = 0; i < N_RAISES; i++)
        if (holds(raise[i].where, layer, n_layer))
            return raise[i].type;
    return m->base;
}

const struct quant *mix_type(const struct mix *m, const struct mix_model *model, const struct gguf_tensor *t)
{
    struct gguf_string rest = {"", 0};
    const int layer = layer_of(t, &rest);
    enum quant_type type = m->base;
    if (model->is_pure)
        return quant_find(type);
    if (layer < 0 && (is_called(t, "output.weight") || (model->is_tied && is_called(t, "token_embd.weight"))))
        type = m->head;
    else if (ends_with(rest, "attn_v.weight"))
        type = raised(m, m->v, layer, model->n_layer);
    else if (ends_with(rest, "ffn_down.weight") || ends_with(rest, "ffn_down_exps.weight"))
        type = raised(m, m->down, layer, model->n_layer);
    else if (ends_with(rest, "attn_output.weight"))
        type = raised(m, m->out, layer, model->n_layer);
    else if (ends_with(rest, "attn_qkv.weight"))
        type = raised(m, m->qkv, layer, model->n_layer);
    return quant_find(type);
}

const struct quant *mix_fitting(const struct quant *q, int64_t n)
{
    static const enum quant_type of_32[QUANT_TYPE_END] = {[QUANT_Q2_K] = QUANT_IQ4_NL,
                                                          [QUANT_Q3_K] = QUANT_IQ4_NL,
                                                          [QUANT_Q4_K] = QUANT_Q5_0,
                                                          [QUANT_Q5_K] = QUANT_Q5_1,
                                                          [QUANT_Q6_K] = QUANT_Q8_0};
    if (n % q->block != 0 && of_32[q->type] != QUANT_F32)
        q = quant_find(of_32[q->type]);
    return n % q->block == 0 ? q : quant_find(QUANT_F16);
}
