/* prune_job.c: file to model, model to smaller model, and back. */
#include "compress/prune_job.h"

#include <string.h>

#include "base/cpu.h"
#include "format/gguf_write.h"

struct opened {
    struct gguf *file;
    struct tokenizer *tokenizer;
    struct train_model model, merged, pruned;
    struct text_windows windows;
    struct structures score, mask;
    struct thread_pool *pool;
};

static enum mr_status read_text(struct opened *o, const struct prune_job *job, struct mr_error *err)
{
    enum {
        WINDOWS_MIN = 2
    };
    if (job->importance == IMPORTANCE_WEIGHT)
        return MR_OK;
    if (job->n_tok > o->model.h.n_ctx_train)
        return mr_fail(err, MR_BAD_INPUT, "windows of %d tokens are longer than the model's context, %d", job->n_tok,
                       o->model.h.n_ctx_train);
    MR_TRY(tokenizer_create(&o->tokenizer, o->file, err));
    MR_TRY(text_windows_init(&o->windows, o->tokenizer, job->text, job->n_text, job->n_tok, 0, WINDOWS_MIN, 0, err));
    if (job->n_window > 0 && o->windows.n_train > (uint32_t)job->n_window)
        o->windows.n_train = (uint32_t)job->n_window;
    return MR_OK;
}

/* What stays of m, by size first: a target that cannot be reached is told before the text is read. */
static enum mr_status prune(struct opened *o, const struct train_model *m, const struct prune_job *job, struct mr_error *err)
{
    unsigned features;
    struct prune_shape shape = prune_whole(&m->h);
    const double whole = (double)o->model.n_weight;
    const size_t target = job->n_weight > 0 ? (size_t)job->n_weight : (size_t)(whole * (1 - job->ratio));
    if (job->n_weight > 0 || job->ratio > 0)
        MR_TRY(prune_shape_for(&shape, m, job->parts, target, err));
    MR_TRY(cpu_features(&features, job->cpu, err));
    MR_TRY(pool_create(&o->pool, job->threads, err));
    MR_TRY(read_text(o, job, err));
    MR_TRY(structures_create(&o->score, &m->h, err));
    MR_TRY(structures_create(&o->mask, &m->h, err));
    const struct importance_options options = {.method = job->importance,
                                               .windows = &o->windows,
                                               .memory_bytes = (size_t)4 << 30,
                                               .pool = o->pool,
                                               .cpu_features = features,
                                               .go_on = job->go_on,
                                               .context = job->context};
    MR_TRY(importance_measure(&o->score, m, &options, err));
    if (job->threshold > 0)
        shape = prune_shape_above(m, &o->score, job->parts, job->threshold);
    prune_choose(&o->mask, &o->score, shape);
    return prune_apply(&o->pruned, m, &o->mask, err);
}

static enum mr_status run(struct opened *o, struct prune_result *out, const struct prune_job *job, struct mr_error *err)
{
    struct gguf_writer *w;
    const bool prunes = job->n_weight > 0 || job->ratio > 0 || job->threshold > 0;
    MR_TRY(gguf_writer_create(&w, job->out, err)); /* whether the folder takes the file, before there is work to lose */
    gguf_writer_free(w);
    MR_TRY(gguf_open(&o->file, job->in, err));
    const enum mr_status status = train_model_load(&o->model, o->file, err);
    if (status != MR_OK)
        return mr_fail_in(err, status, "'%s'", job->in);
    const struct train_model *m = &o->model;
    if (job->n_head_kv > 0) {
        MR_TRY(prune_merge_heads(&o->merged, m, job->n_head_kv, err));
        m = &o->merged;
    }
    if (prunes)
        MR_TRY(prune(o, m, job, err));
    const struct train_model *last = prunes ? &o->pruned : m;
    *out = (struct prune_result){prune_whole(&o->model.h), prune_whole(&last->h), o->model.n_weight, last->n_weight};
    return train_model_write(last, o->file, false, job->type, job->out, err);
}

enum mr_status prune_job_run(struct prune_result *out, const struct prune_job *job, struct mr_error *err)
{
    struct opened o = {0};
    *out = (struct prune_result){0};
    const enum mr_status status = run(&o, out, job, err);
    structures_release(&o.score);
    structures_release(&o.mask);
    text_windows_release(&o.windows);
    train_model_release(&o.model);
    train_model_release(&o.merged);
    train_model_release(&o.pruned);
    tokenizer_free(o.tokenizer);
    pool_free(o.pool);
    gguf_close(o.file);
    return status;
}
