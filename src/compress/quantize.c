/* quantize.c: plans the type of each tensor, then reads, encodes and writes slab by slab. */
#include "compress/quantize.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "compress/room.h"
#include "compress/slab.h"
#include "format/gguf_write.h"

struct plan {
    const struct quant *wanted, *to; /* to NULL: copied as it is */
};

struct job {
    const struct gguf *g;
    const struct quantize_options *o;
    struct gguf_writer *w;
    struct thread_pool *pool;
    struct plan *plan; /* [n_tensors] */
    regex_t *regex;    /* [n_rule], of which n_regex are compiled */
    int n_regex;
    struct mix_model model;
    uint64_t bytes; /* of the output's tensors */
    struct quantize_result result;
};

static enum mr_status compile_rules(struct job *j, struct mr_error *err)
{
    const int n = j->o->n_rule;
    j->regex = mem_zero_array((size_t)n + 1, sizeof *j->regex);
    if (j->regex == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the rules");
    for (; j->n_regex < n; j->n_regex++) {
        char why[128];
        const int bad = regcomp(&j->regex[j->n_regex], j->o->rule[j->n_regex].pattern, REG_EXTENDED | REG_NOSUB);
        if (bad != 0) {
            regerror(bad, NULL, why, sizeof why);
            return mr_fail(err, MR_BAD_INPUT, "rule '%s': %s", j->o->rule[j->n_regex].pattern, why);
        }
    }
    return MR_OK;
}

static const struct quant *type_of_rule(const struct job *j, const struct gguf_tensor *t)
{
    char *name = mem_string(t->name.s, t->name.n);
    const struct quant *type = NULL;
    for (int i = 0; name != NULL && type == NULL && i < j->o->n_rule; i++)
        if (regexec(&j->regex[i], name, 0, NULL, 0) == 0)
            type = j->o->rule[i].type;
    free(name);
    return type;
}

static bool is_called(const struct gguf_tensor *t, const char *name)
{
    return t->name.n == strlen(name) && memcmp(t->name.s, name, t->name.n) == 0;
}

static double bits(const struct quant *q) { return 8.0 * (double)q->bytes / q->block; }

static const struct quant *wider(const struct quant *a, const struct quant *b)
{
    return b == NULL || (a != NULL && bits(a) >= bits(b)) ? a : b;
}

/* What the options or the mix want. */
static const struct quant *wanted_type(const struct job *j, const struct gguf_tensor *t)
{
    const bool is_embedding = is_called(t, "token_embd.weight"), is_head = is_called(t, "output.weight");
    const struct quant *type = type_of_rule(j, t);
    if (type == NULL && is_embedding)
        type = j->model.is_tied ? wider(j->o->embedding, j->o->head) : j->o->embedding;
    if (type == NULL && is_head)
        type = j->o->head;
    return type != NULL ? type : mix_type(j->o->mix, &j->model, t);
}

static enum mr_status plan_tensor(struct job *j, int i, struct mr_error *err)
{
    const struct gguf_tensor *t = gguf_tensor_at(j->g, i);
    struct plan *p = &j->plan[i];
    if (t->product.n > 0)
        return mr_fail(err, MR_BAD_INPUT, "the file is packed for a machine; quantise the one that it was packed from");
    size_t bytes = t->bytes;
    if (mix_is_matrix(t)) {
        p->wanted = wanted_type(j, t);
        p->to = mix_fitting(p->wanted, t->dims[0]);
        if (p->to == t->quant)
            p->to = NULL;
        else
            bytes = quant_row_bytes(p->to, (size_t)t->dims[0]) * (t->bytes / quant_row_bytes(t->quant, (size_t)t->dims[0]));
        if (p->to != NULL && bits(t->quant) < 8 && !j->o->requantize)
            return mr_fail(err, MR_BAD_INPUT,
                           "tensor '%.*s' is %s already: quantise from f32, f16, bf16 or q8_0, or ask for it",
                           (int)(t->name.n < 128 ? t->name.n : 128), t->name.s, t->quant->name);
    }
    j->bytes += bytes;
    return gguf_declare_tensor(j->w, t->name, p->to != NULL ? p->to : t->quant, t->n_dims, t->dims, err);
}

static enum mr_status put_values(struct job *j, struct mr_error *err)
{
    static const char type_key[] = "general.file_type", version_key[] = "general.quantization_version";
    for (int i = 0; i < gguf_n_values(j->g); i++) {
        const struct gguf_value *v = gguf_value_at(j->g, i);
        const struct gguf_string key = v->key;
        if ((key.n == sizeof type_key - 1 && memcmp(key.s, type_key, key.n) == 0) ||
            (key.n == sizeof version_key - 1 && memcmp(key.s, version_key, key.n) == 0))
            continue;
        MR_TRY(gguf_put_value(j->w, v, err));
    }
    MR_TRY(gguf_put_int(j->w, version_key, GGUF_U32, 2, err));
    return gguf_put_int(j->w, type_key, GGUF_U32, mix_file_type(j->o->mix), err);
}

static enum mr_status plan_all(struct job *j, const char *path, struct mr_error *err)
{
    int64_t n_layer = 0;
    char key[128];
    struct gguf_string family = {"", 0};
    const int n = gguf_n_tensors(j->g);
    if (gguf_get_string(j->g, "general.architecture", &family, NULL) == MR_OK && family.n < 64) {
        snprintf(key, sizeof key, "%.*s.block_count", (int)family.n, family.s);
        if (gguf_get_int_or(j->g, key, 0, 1 << 20, 0, &n_layer, NULL) != MR_OK)
            n_layer = 0;
    }
    j->model = (struct mix_model){
        .n_layer = (int)n_layer, .is_tied = gguf_tensor_find(j->g, "output.weight") == NULL, .is_pure = j->o->is_pure};
    j->plan = mem_zero_array((size_t)n + 1, sizeof *j->plan);
    if (j->plan == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for %d tensors", n);
    MR_TRY(compile_rules(j, err));
    MR_TRY(put_values(j, err));
    for (int i = 0; i < n; i++)
        MR_TRY(plan_tensor(j, i, err));
    MR_TRY(room_check(path, j->bytes, err));
    return gguf_begin_data(j->w, err);
}

static enum mr_status run_tensor(struct job *j, int i, struct mr_error *err)
{
    const struct gguf_tensor *t = gguf_tensor_at(j->g, i);
    const struct plan *p = &j->plan[i];
    struct quantize_step step = {.name = t->name,
                                 .from = t->quant,
                                 .wanted = p->wanted != NULL ? p->wanted : t->quant,
                                 .to = p->to != NULL ? p->to : t->quant,
                                 .done = i + 1,
                                 .n = gguf_n_tensors(j->g)};
    const struct slab_work work = {j->g, t, step.to, j->o->importance, j->w, j->pool, NULL};
    MR_TRY(slab_run(&work, &step, err));
    j->result.n_tensor++;
    j->result.n_quantized += p->to != NULL;
    j->result.n_unfit += p->wanted != NULL && step.to != p->wanted;
    j->result.n_importance += step.has_importance;
    j->result.bytes_in += t->bytes;
    j->result.bytes_out += step.bytes;
    if (j->o->go_on != NULL && !j->o->go_on(j->o->context, &step))
        return mr_fail(err, MR_CANCELLED, "stopped after %d of %d tensors", i + 1, step.n);
    return MR_OK;
}

static enum mr_status run(struct job *j, const char *path, struct mr_error *err)
{
    MR_TRY(gguf_writer_create(&j->w, path, err));
    MR_TRY(plan_all(j, path, err));
    MR_TRY(pool_create(&j->pool, j->o->threads, err));
    for (int i = 0; i < gguf_n_tensors(j->g); i++)
        MR_TRY(run_tensor(j, i, err));
    return gguf_writer_finish(j->w, err);
}

enum mr_status quantize(struct quantize_result *out, const char *in, const char *to, const struct quantize_options *options,
                        struct mr_error *err)
{
    struct gguf *g;
    *out = (struct quantize_result){0};
    MR_TRY(gguf_open(&g, in, err));
    struct job j = {.g = g, .o = options};
    const enum mr_status status = run(&j, to, err);
    gguf_writer_free(j.w);
    pool_free(j.pool);
    for (int i = 0; i < j.n_regex; i++)
        regfree(&j.regex[i]);
    free(j.regex);
    free(j.plan);
    gguf_close(g);
    if (status == MR_OK)
        *out = j.result;
    return status;
}
