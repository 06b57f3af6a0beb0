/* peft.c: names, shapes and rows of a PEFT adapter as GGUF has them. */
#include "format/peft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "format/gguf_write.h"
#include "format/head_rows.h"
#include "format/peft_config.h"
#include "format/safetensors.h"

enum {
    PATH_BYTES = 4096,
    LAYER_MAX = 1 << 16,
    NAME_SHOWN = 200
};

/* In front of the number of a layer. */
static const char *const prefixes[] = {
    "base_model.model.model.layers.",
    "base_model.model.model.language_model.layers.",
    "base_model.model.language_model.model.layers.",
    "base_model.model.transformer.h.",
    "base_model.model.layers.",
    "base_model.model.h.",
};

/* A module and the matrix of a GGUF file below "blk.LAYER.". */
static const struct module {
    const char *name, *matrix;
} modules[] = {
    {"self_attn.q_proj", "attn_q"}, {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"}, {"self_attn.o_proj", "attn_output"},
    {"mlp.gate_proj", "ffn_gate"},  {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},  {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"}, {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
};

static const struct part {
    const char *name;
    bool is_b;
} parts[] = {
    {".lora_A.weight", false}, {".lora_B.weight", true}, {".lora_A.default.weight", false}, {".lora_B.default.weight", true}};

/* Families whose files have the rows of q and k in pairs. */
static const char *const paired[] = {"llama"};

/* One tensor of the output. */
struct piece {
    const struct safetensor *source;
    const struct quant *quant;
    int layer;
    const struct module *module;
    bool is_b;
    int head_dim; /* its rows are to be paired within heads of so many; 0: they stay */
};

struct conversion {
    struct safetensors *in;
    struct gguf *base; /* NULL: unknown */
    char arch[64];
    struct piece *piece; /* [safetensors_n] */
    double alpha;
};

static bool starts_with(const char *s, const char *prefix) { return strncmp(s, prefix, strlen(prefix)) == 0; }

static bool parse_rest(struct piece *p, const char *rest)
{
    for (size_t m = 0; m < sizeof modules / sizeof *modules; m++) {
        if (!starts_with(rest, modules[m].name))
            continue;
        p->module = &modules[m];
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            if (strcmp(rest + strlen(modules[m].name), parts[i].name) == 0) {
                p->is_b = parts[i].is_b;
                return true;
            }
    }
    return false;
}

/* "base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight" */
static bool parse_name(struct piece *p, const char *name)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (!starts_with(name, prefixes[i]))
            continue;
        char *end;
        const char *number = name + strlen(prefixes[i]);
        const long layer = *number >= '0' && *number <= '9' ? strtol(number, &end, 10) : -1;
        if (layer < 0 || layer >= LAYER_MAX || *end != '.')
            return false;
        p->layer = (int)layer;
        return parse_rest(p, end + 1);
    }
    return false;
}

static const struct quant *quant_of(const char *type)
{
    static const struct {
        const char *name;
        enum quant_type type;
    } known[] = {{"F32", QUANT_F32}, {"F16", QUANT_F16}, {"BF16", QUANT_BF16}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i].name) == 0)
            return quant_find(known[i].type);
    return NULL;
}

static enum mr_status read_base(struct conversion *c, const char *path, struct mr_error *err)
{
    struct gguf_string arch;
    if (path == NULL)
        return MR_OK;
    MR_TRY(gguf_open(&c->base, path, err));
    MR_TRY(gguf_get_string(c->base, "general.architecture", &arch, err));
    if (arch.n >= sizeof c->arch)
        return mr_fail(err, MR_BAD_FORMAT, "'%s': key 'general.architecture' has %zu bytes", path, arch.n);
    memcpy(c->arch, arch.s, arch.n);
    return MR_OK;
}

/* Heads whose rows are to be paired, of the base model's file. */
static enum mr_status find_heads(const struct conversion *c, struct piece *p, struct mr_error *err)
{
    const bool is_q = strcmp(p->module->matrix, "attn_q") == 0, is_k = strcmp(p->module->matrix, "attn_k") == 0;
    bool is_paired = false;
    char key[128];
    int64_t n_head, n_kv;
    for (size_t i = 0; i < sizeof paired / sizeof *paired; i++)
        is_paired |= strcmp(c->arch, paired[i]) == 0;
    if (!is_paired || !p->is_b || (!is_q && !is_k))
        return MR_OK;
    snprintf(key, sizeof key, "%s.attention.head_count", c->arch);
    MR_TRY(gguf_get_int(c->base, key, 1, 1 << 16, &n_head, err));
    snprintf(key, sizeof key, "%s.attention.head_count_kv", c->arch);
    MR_TRY(gguf_get_int_or(c->base, key, 1, 1 << 16, n_head, &n_kv, err));
    const int64_t n = is_q ? n_head : n_kv, rows = p->source->dims[0];
    if (rows % (2 * n) != 0)
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s': %lld rows are not %lld heads", NAME_SHOWN, p->source->name,
                       (long long)rows, (long long)n);
    p->head_dim = (int)(rows / n);
    return MR_OK;
}

static enum mr_status check_against_base(const struct conversion *c, const struct piece *p, struct mr_error *err)
{
    char name[96];
    snprintf(name, sizeof name, "blk.%d.%s.weight", p->layer, p->module->matrix);
    const struct gguf_tensor *t = gguf_tensor_find(c->base, name);
    if (t == NULL)
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s': the base model has no '%s'", NAME_SHOWN, p->source->name, name);
    const int64_t want = p->is_b ? t->dims[1] : t->dims[0], have = p->source->dims[p->is_b ? 0 : 1];
    return want == have ? MR_OK
                        : mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s': %lld %s, but the base model's '%s' has %lld", NAME_SHOWN,
                                  p->source->name, (long long)have, p->is_b ? "rows" : "columns", name, (long long)want);
}

static enum mr_status plan_piece(const struct conversion *c, struct piece *p, const struct safetensor *t, struct mr_error *err)
{
    *p = (struct piece){.source = t, .quant = quant_of(t->type)};
    if (!parse_name(p, t->name))
        return mr_fail(err, MR_NO_SUPPORT, "tensor '%.*s': not of a product that an adapter can add to", NAME_SHOWN, t->name);
    if (p->quant == NULL)
        return mr_fail(err, MR_NO_SUPPORT, "tensor '%.*s': type %s, must be F32, F16 or BF16", NAME_SHOWN, t->name, t->type);
    if (t->n_dims != 2 || t->dims[0] < 1 || t->dims[1] < 1 || t->dims[0] > INT32_MAX || t->dims[1] > INT32_MAX)
        return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s' is no matrix", NAME_SHOWN, t->name);
    if (c->base == NULL)
        return MR_OK;
    MR_TRY(check_against_base(c, p, err));
    return find_heads(c, p, err);
}

static enum mr_status declare(const struct conversion *c, struct gguf_writer *w, struct mr_error *err)
{
    MR_TRY(gguf_put_string(w, "general.type", (struct gguf_string){"adapter", 7}, err));
    if (c->base != NULL)
        MR_TRY(gguf_put_string(w, "general.architecture", (struct gguf_string){c->arch, strlen(c->arch)}, err));
    else
        MR_TRY(gguf_put_string(w, "adapter.lora.rows", (struct gguf_string){"hub", 3}, err));
    MR_TRY(gguf_put_string(w, "adapter.type", (struct gguf_string){"lora", 4}, err));
    MR_TRY(gguf_put_f32(w, "adapter.lora.alpha", (float)c->alpha, err));
    for (int i = 0; i < safetensors_n(c->in); i++) {
        const struct piece *p = &c->piece[i];
        const int64_t dims[] = {p->source->dims[1], p->source->dims[0]};
        char name[96];
        const int n = snprintf(name, sizeof name, "blk.%d.%s.weight.lora_%c", p->layer, p->module->matrix, p->is_b ? 'b' : 'a');
        MR_TRY(gguf_declare_tensor(w, (struct gguf_string){name, (size_t)n}, p->quant, 2, dims, err));
    }
    return gguf_begin_data(w, err);
}

static enum mr_status write_piece(const struct conversion *c, struct gguf_writer *w, const struct piece *p,
                                  struct mr_error *err)
{
    const size_t bytes = (size_t)p->source->bytes;
    void *rows = mem_array(bytes, 1);
    if (rows == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for a tensor of %zu bytes", bytes);
    enum mr_status status = safetensors_read(c->in, p->source, rows, err);
    const size_t n_row = (size_t)p->source->dims[0];
    if (status == MR_OK && p->head_dim > 0 && !head_rows_to_pairs(rows, bytes / n_row, (int)n_row, p->head_dim))
        status = mr_fail(err, MR_NO_MEMORY, "no memory for the rows of a head");
    if (status == MR_OK)
        status = gguf_write_data(w, rows, bytes, err);
    free(rows);
    return status;
}

static enum mr_status write_file(const struct conversion *c, const char *path, struct mr_error *err)
{
    struct gguf_writer *w;
    MR_TRY(gguf_writer_create(&w, path, err));
    enum mr_status status = declare(c, w, err);
    for (int i = 0; i < safetensors_n(c->in) && status == MR_OK; i++)
        status = write_piece(c, w, &c->piece[i], err);
    if (status == MR_OK)
        status = gguf_writer_finish(w, err);
    gguf_writer_free(w);
    return status;
}

static enum mr_status convert(struct conversion *c, const char *dir, const char *base, const char *path, struct mr_error *err)
{
    char name[PATH_BYTES];
    if (strlen(dir) > sizeof name - 64)
        return mr_fail(err, MR_BAD_INPUT, "a path of %zu bytes is too long", strlen(dir));
    MR_TRY(read_base(c, base, err));
    snprintf(name, sizeof name, "%s/adapter_config.json", dir);
    MR_TRY(peft_config_alpha(&c->alpha, name, err));
    snprintf(name, sizeof name, "%s/adapter_model.safetensors", dir);
    MR_TRY(safetensors_open(&c->in, name, err));
    const int n = safetensors_n(c->in);
    if (n == 0)
        return mr_fail(err, MR_BAD_FORMAT, "'%s' has no tensors", name);
    c->piece = mem_array((size_t)n, sizeof *c->piece);
    if (c->piece == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for %d tensors", n);
    for (int i = 0; i < n; i++)
        MR_TRY(plan_piece(c, &c->piece[i], safetensors_at(c->in, i), err));
    return write_file(c, path, err);
}

enum mr_status peft_convert(struct peft_summary *out, const char *dir, const char *base, const char *path, struct mr_error *err)
{
    struct conversion c = {.in = NULL};
    *out = (struct peft_summary){0};
    const enum mr_status status = convert(&c, dir, base, path, err);
    if (status == MR_OK)
        *out = (struct peft_summary){safetensors_n(c.in), c.alpha, c.base == NULL};
    free(c.piece);
    safetensors_close(c.in);
    gguf_close(c.base);
    return status;
}
