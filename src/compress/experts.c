/* experts.c: which experts stay, and the file without the others. */
#include "compress/experts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compress/room.h"
#include "format/gguf_write.h"

enum {
    PIECE = 1 << 20 /* bytes copied at a time */
};

struct copying {
    struct gguf *g;
    struct gguf_writer *w;
    const struct prune_job *job;
    struct hparams h;
    int n_keep;
    float *score, *mask; /* [n_layer][n_expert] */
    char *piece;
};

/* How a tensor falls into experts: n equal parts, of the layer, or 1. */
static int parts_of(const struct copying *c, const struct gguf_tensor *t, int *layer)
{
    static const char *const stacks[] = {"ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight",
                                         "ffn_gate_inp.weight"};
    char name[64], suffix[48];
    if (t->name.n >= sizeof name)
        return 1;
    memcpy(name, t->name.s, t->name.n);
    name[t->name.n] = '\0';
    if (sscanf(name, "blk.%d.%47s", layer, suffix) != 2 || *layer < 0 || *layer >= c->h.n_layer)
        return 1;
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++)
        if (strcmp(suffix, stacks[i]) == 0 && t->dims[i < 3 ? 2 : 1] == c->h.n_expert)
            return c->h.n_expert;
    return 1;
}

static enum mr_status declare(const struct copying *c, const struct gguf_tensor *t, uint64_t *bytes, struct mr_error *err)
{
    int layer = 0;
    int64_t dims[GGUF_MAX_DIMS];
    memcpy(dims, t->dims, sizeof dims);
    const bool falls = parts_of(c, t, &layer) > 1;
    if (falls)
        dims[t->n_dims - 1] = c->n_keep;
    *bytes += falls ? t->bytes / (size_t)c->h.n_expert * (size_t)c->n_keep : t->bytes;
    return gguf_declare_tensor(c->w, t->name, t->quant, t->n_dims, dims, err);
}

static enum mr_status copy_bytes(const struct copying *c, const struct gguf_tensor *t, size_t at, size_t n,
                                 struct mr_error *err)
{
    const size_t most = PIECE / t->quant->bytes * t->quant->bytes;
    for (size_t done = 0, some; done < n; done += some) {
        some = n - done < most ? n - done : most;
        MR_TRY(gguf_read(c->g, t, at + done, c->piece, some, err));
        if (!quant_is_finite(t->quant, c->piece, some / t->quant->bytes * (size_t)t->quant->block))
            return mr_fail(err, MR_BAD_FORMAT, "tensor '%.*s' holds NaN or infinity", (int)t->name.n, t->name.s);
        MR_TRY(gguf_write_data(c->w, c->piece, some, err));
        if (c->job->go_on != NULL && !c->job->go_on(c->job->context, "writing", 0, 0))
            return mr_fail(err, MR_CANCELLED, "stopped in tensor '%.*s'", (int)t->name.n, t->name.s);
    }
    return MR_OK;
}

static enum mr_status copy_tensor(const struct copying *c, const struct gguf_tensor *t, struct mr_error *err)
{
    int layer = 0;
    const int n = parts_of(c, t, &layer);
    const size_t each = t->bytes / (size_t)n;
    for (int i = 0; i < n; i++)
        if (n == 1 || c->mask[layer * c->h.n_expert + i] > 0)
            MR_TRY(copy_bytes(c, t, (size_t)i * each, each, err));
    return MR_OK;
}

static enum mr_status put_keys(const struct copying *c, struct mr_error *err)
{
    const struct hparams_key count = hparams_key(&c->h, "expert_count"), used = hparams_key(&c->h, "expert_used_count");
    for (int i = 0; i < gguf_n_values(c->g); i++) {
        const struct gguf_value *v = gguf_value_at(c->g, i);
        if ((v->key.n != strlen(count.s) || memcmp(v->key.s, count.s, v->key.n) != 0) &&
            (v->key.n != strlen(used.s) || memcmp(v->key.s, used.s, v->key.n) != 0))
            MR_TRY(gguf_put_value(c->w, v, err));
    }
    MR_TRY(gguf_put_int(c->w, count.s, GGUF_U32, c->n_keep, err));
    return gguf_put_int(c->w, used.s, GGUF_U32, c->h.n_expert_used < c->n_keep ? c->h.n_expert_used : c->n_keep, err);
}

static enum mr_status write_file(struct copying *c, struct mr_error *err)
{
    const int n = gguf_n_tensors(c->g);
    uint64_t bytes = 0;
    MR_TRY(gguf_writer_create(&c->w, c->job->out, err));
    MR_TRY(put_keys(c, err));
    for (int i = 0; i < n; i++)
        MR_TRY(declare(c, gguf_tensor_at(c->g, i), &bytes, err));
    MR_TRY(room_check(c->job->out, bytes, err));
    MR_TRY(gguf_begin_data(c->w, err));
    for (int i = 0; i < n; i++)
        MR_TRY(copy_tensor(c, gguf_tensor_at(c->g, i), err));
    return gguf_writer_finish(c->w, err);
}

static size_t weights_of(const struct copying *c)
{
    size_t n = 0;
    for (int i = 0; i < gguf_n_tensors(c->g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(c->g, i);
        n += t->bytes / t->quant->bytes * (size_t)t->quant->block;
    }
    return n;
}

/* Weights of one expert, in all layers. */
static size_t weights_of_expert(const struct copying *c)
{
    return (size_t)c->h.n_layer * (size_t)c->h.n_embd * (3 * (size_t)c->h.n_ff + 1);
}

/* n_keep of a target in weights: told before the text is read. */
static enum mr_status set_target(struct copying *c, struct mr_error *err)
{
    const struct prune_job *job = c->job;
    const size_t whole = weights_of(c), each = weights_of_expert(c);
    const size_t target = job->n_weight > 0 ? (size_t)job->n_weight : (size_t)((double)whole * (1 - job->ratio));
    c->n_keep = c->h.n_expert;
    while (c->n_keep > 0 && whole - (size_t)(c->h.n_expert - c->n_keep) * each > target)
        c->n_keep--;
    return c->n_keep > 0 ? MR_OK
                         : mr_fail(err, MR_BAD_INPUT, "%zu of %zu weights cannot be reached: an expert of %zu must stay",
                                   target, whole, each);
}

static void choose(struct copying *c)
{
    const int n = c->h.n_expert;
    if (c->job->threshold > 0)
        c->n_keep = 1;
    for (int l = 0; l < c->h.n_layer && c->job->threshold > 0; l++) {
        const int above = prune_count_above(c->score + l * n, n, c->job->threshold);
        c->n_keep = above > c->n_keep ? above : c->n_keep;
    }
    for (int l = 0; l < c->h.n_layer; l++)
        prune_choose_best(c->mask + l * n, c->score + l * n, n, c->n_keep);
}

static enum mr_status run(struct copying *c, struct prune_result *out, struct mr_error *err)
{
    MR_TRY(gguf_writer_create(&c->w, c->job->out, err)); /* whether the folder takes the file */
    gguf_writer_free(c->w);
    c->w = NULL;
    MR_TRY(gguf_open(&c->g, c->job->in, err));
    if (gguf_is_packed(c->g))
        return mr_fail(err, MR_BAD_INPUT, "the file is packed for a machine; take the one that it was packed from");
    MR_TRY(hparams_read(&c->h, c->g, err));
    if (c->h.n_expert == 0)
        return mr_fail(err, MR_BAD_INPUT, "'%s' has no experts", c->job->in);
    const size_t n = (size_t)c->h.n_layer * (size_t)c->h.n_expert;
    c->score = mem_zero_array(n, sizeof *c->score);
    c->mask = mem_zero_array(n, sizeof *c->mask);
    c->piece = mem_array(PIECE, 1);
    if (c->score == NULL || c->mask == NULL || c->piece == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for %zu experts", n);
    if (c->job->threshold <= 0)
        MR_TRY(set_target(c, err));
    MR_TRY(experts_score(c->score, c->g, &c->h, c->job, err));
    choose(c);
    *out = (struct prune_result){.before = prune_whole(&c->h), .after = prune_whole(&c->h), .n_weight_before = weights_of(c)};
    out->after.n_expert = c->n_keep;
    out->n_weight_after = out->n_weight_before - (size_t)(c->h.n_expert - c->n_keep) * weights_of_expert(c);
    return write_file(c, err);
}

enum mr_status experts_job_run(struct prune_result *out, const struct prune_job *job, struct mr_error *err)
{
    struct copying c = {.job = job};
    const enum mr_status status = run(&c, out, err);
    gguf_writer_free(c.w);
    gguf_close(c.g);
    free(c.score);
    free(c.mask);
    free(c.piece);
    return status;
}
