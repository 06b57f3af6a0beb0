/* heads_write.c: metadata, then the matrices and vectors of each head. */
#include "compress/heads_write.h"

#include <stdio.h>
#include <string.h>

#include <nettle/sha2.h>

#include "compress/write_floats.h"

static struct gguf_string string_of(const char *s) { return (struct gguf_string){s, strlen(s)}; }

/* The same in every quantised file of a model: vectors stay f32. */
static void digest_norm(const struct train_model *base, char hex[2 * SHA256_DIGEST_SIZE + 1])
{
    const struct param_place p = train_param(base, 0, PARAM_OUTPUT_NORM);
    struct sha256_ctx sha;
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_init(&sha);
    sha256_update(&sha, param_floats(p) * sizeof(float), (const uint8_t *)(base->w + p.at));
    sha256_digest(&sha, sizeof digest, digest);
    for (int i = 0; i < SHA256_DIGEST_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static enum mr_status put_keys(struct gguf_writer *w, const char *kind, int n_head, const struct train_model *base,
                               const struct gguf *base_file, struct mr_error *err)
{
    struct gguf_string base_name;
    char hex[2 * SHA256_DIGEST_SIZE + 1];
    if (gguf_get_string(base_file, "general.name", &base_name, NULL) != MR_OK)
        base_name = string_of(base->h.arch);
    digest_norm(base, hex);
    MR_TRY(gguf_put_string(w, "general.architecture", string_of("draft-heads"), err));
    MR_TRY(gguf_put_string(w, "draft-heads.kind", string_of(kind), err));
    MR_TRY(gguf_put_int(w, "draft-heads.count", GGUF_U32, n_head, err));
    MR_TRY(gguf_put_int(w, "draft-heads.embedding_length", GGUF_U32, base->h.n_embd, err));
    MR_TRY(gguf_put_int(w, "draft-heads.vocab_size", GGUF_U32, base->h.n_vocab, err));
    MR_TRY(gguf_put_int(w, "draft-heads.block_count", GGUF_U32, base->h.n_layer, err));
    MR_TRY(gguf_put_string(w, "draft-heads.base_name", base_name, err));
    return gguf_put_string(w, "draft-heads.output_norm_sha256", string_of(hex), err);
}

/* "medusa.2.weight" */
struct tensor_name {
    char s[32];
};

static struct tensor_name tensor_name(int head, bool is_bias)
{
    struct tensor_name name;
    snprintf(name.s, sizeof name.s, "medusa.%d.%s", head, is_bias ? "bias" : "weight");
    return name;
}

static enum mr_status declare(struct gguf_writer *w, const struct draft_heads *h, enum quant_type type, struct mr_error *err)
{
    const int64_t dims[2] = {h->n_embd, h->n_embd};
    for (int i = 0; i < h->n_head; i++) {
        MR_TRY(gguf_declare_tensor(w, string_of(tensor_name(i, false).s), quant_find(type), 2, dims, err));
        MR_TRY(gguf_declare_tensor(w, string_of(tensor_name(i, true).s), quant_find(QUANT_F32), 1, dims, err));
    }
    return MR_OK;
}

static enum mr_status write_all(struct gguf_writer *w, const struct draft_heads *h, const struct train_model *base,
                                const struct gguf *base_file, enum quant_type type, struct mr_error *err)
{
    MR_TRY(put_keys(w, "medusa", h->n_head, base, base_file, err));
    MR_TRY(declare(w, h, type, err));
    MR_TRY(gguf_begin_data(w, err));
    for (int i = 0; i < h->n_head; i++) {
        const struct param_place weight = draft_heads_weight(h, i), bias = draft_heads_bias(h, i);
        MR_TRY(write_floats(w, h->w + weight.at, param_floats(weight), quant_find(type), tensor_name(i, false).s, err));
        MR_TRY(write_floats(w, h->w + bias.at, param_floats(bias), quant_find(QUANT_F32), tensor_name(i, true).s, err));
    }
    return gguf_writer_finish(w, err);
}

enum mr_status heads_write(const struct draft_heads *h, const struct train_model *base, const struct gguf *base_file,
                           enum quant_type type, const char *path, struct mr_error *err)
{
    struct gguf_writer *w;
    MR_TRY(gguf_writer_create(&w, path, err));
    const enum mr_status status = write_all(w, h, base, base_file, type, err);
    gguf_writer_free(w);
    return status;
}

/* A tensor of a head in the style of EAGLE, by its number: fc, its bias, then what its layer has. */
enum {
    EAGLE_TENSORS = 2 + N_PARAMS - N_GLOBAL_PARAMS
};
struct eagle_tensor {
    struct param_place place;
    char name[80];
};

static struct eagle_tensor eagle_tensor(const struct eagle *e, int i)
{
    struct eagle_tensor t = {.place = i == 0 ? eagle_weight(e) : eagle_bias(e)};
    if (i >= 2) {
        const enum param p = (enum param)(N_GLOBAL_PARAMS + i - 2);
        t.place = train_param(&e->block, 0, p);
        snprintf(t.name, sizeof t.name, "eagle.%s", train_param_name(0, p).s);
    } else
        snprintf(t.name, sizeof t.name, "eagle.fc.%s", i == 0 ? "weight" : "bias");
    return t;
}

static const struct quant *quant_of(struct param_place p, enum quant_type type)
{
    return quant_find(p.n_in > 0 ? type : QUANT_F32);
}

static enum mr_status eagle_write_all(struct gguf_writer *w, const struct eagle *e, const struct gguf *base_file,
                                      enum quant_type type, struct mr_error *err)
{
    MR_TRY(put_keys(w, "eagle", 1, e->base, base_file, err));
    for (int i = 0; i < EAGLE_TENSORS; i++) {
        const struct eagle_tensor t = eagle_tensor(e, i);
        const struct param_place p = t.place;
        const int64_t dims[2] = {p.n_in > 0 ? p.n_in : p.n_out, p.n_out};
        if (p.n_out > 0)
            MR_TRY(gguf_declare_tensor(w, string_of(t.name), quant_of(p, type), p.n_in > 0 ? 2 : 1, dims, err));
    }
    MR_TRY(gguf_begin_data(w, err));
    for (int i = 0; i < EAGLE_TENSORS; i++) {
        const struct eagle_tensor t = eagle_tensor(e, i);
        if (t.place.n_out > 0)
            MR_TRY(write_floats(w, e->w + t.place.at, param_floats(t.place), quant_of(t.place, type), t.name, err));
    }
    return gguf_writer_finish(w, err);
}

enum mr_status eagle_write(const struct eagle *e, const struct gguf *base_file, enum quant_type type, const char *path,
                           struct mr_error *err)
{
    struct gguf_writer *w;
    MR_TRY(gguf_writer_create(&w, path, err));
    const enum mr_status status = eagle_write_all(w, e, base_file, type, err);
    gguf_writer_free(w);
    return status;
}
