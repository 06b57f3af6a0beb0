/* lora_write.c: metadata, then A and B of each adapted product. */
#include "compress/lora_write.h"

#include <stdio.h>
#include <string.h>

#include "compress/write_floats.h"

static struct gguf_string string_of(const char *s) { return (struct gguf_string){s, strlen(s)}; }

static enum mr_status put_keys(struct gguf_writer *w, const struct lora *l, struct mr_error *err)
{
    MR_TRY(gguf_put_string(w, "general.type", string_of("adapter"), err));
    MR_TRY(gguf_put_string(w, "general.architecture", string_of(l->base->h.arch), err));
    MR_TRY(gguf_put_string(w, "adapter.type", string_of("lora"), err));
    return gguf_put_f32(w, "adapter.lora.alpha", l->alpha, err);
}

/* "blk.3.attn_q.weight.lora_a" */
struct tensor_name {
    char s[sizeof(struct param_name) + 8];
};

static struct tensor_name tensor_name(int layer, enum param which, bool is_b)
{
    struct tensor_name name;
    snprintf(name.s, sizeof name.s, "%s.lora_%c", train_param_name(layer, which).s, is_b ? 'b' : 'a');
    return name;
}

typedef enum mr_status part_fn(struct gguf_writer *w, const struct lora *l, struct param_place p, const char *name,
                               const struct quant *quant, struct mr_error *err);

static enum mr_status declare(struct gguf_writer *w, const struct lora *l, struct param_place p, const char *name,
                              const struct quant *quant, struct mr_error *err)
{
    (void)l;
    const int64_t dims[2] = {p.n_in, p.n_out};
    return gguf_declare_tensor(w, string_of(name), quant, 2, dims, err);
}

static enum mr_status write_part(struct gguf_writer *w, const struct lora *l, struct param_place p, const char *name,
                                 const struct quant *quant, struct mr_error *err)
{
    return write_floats(w, l->w + p.at, param_floats(p), quant, name, err);
}

static enum mr_status each_part(struct gguf_writer *w, const struct lora *l, const struct quant *quant, part_fn *f,
                                struct mr_error *err)
{
    for (int layer = 0; layer < l->base->h.n_layer; layer++)
        for (enum param p = N_GLOBAL_PARAMS; p < N_PARAMS; p++) {
            if (lora_a(l, layer, p).n_out == 0)
                continue;
            MR_TRY(f(w, l, lora_a(l, layer, p), tensor_name(layer, p, false).s, quant, err));
            MR_TRY(f(w, l, lora_b(l, layer, p), tensor_name(layer, p, true).s, quant, err));
        }
    return MR_OK;
}

static enum mr_status write_all(struct gguf_writer *w, const struct lora *l, const struct quant *quant, struct mr_error *err)
{
    MR_TRY(put_keys(w, l, err));
    MR_TRY(each_part(w, l, quant, declare, err));
    MR_TRY(gguf_begin_data(w, err));
    MR_TRY(each_part(w, l, quant, write_part, err));
    return gguf_writer_finish(w, err);
}

enum mr_status lora_write(const struct lora *l, enum quant_type type, const char *path, struct mr_error *err)
{
    struct gguf_writer *w;
    MR_TRY(gguf_writer_create(&w, path, err));
    const enum mr_status status = write_all(w, l, quant_find(type), err);
    gguf_writer_free(w);
    return status;
}
