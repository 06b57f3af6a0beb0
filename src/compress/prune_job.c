/* prune_job.c: file to model, model to smaller model, and back. */
#include "compress/prune_job.h"

#include <string.h>

#include "base/cpu.h"
#include "compress/experts.h"
#include "compress/prune_latency.h"
#include "compress/room.h"
#include "format/gguf_write.h"

struct opened {
    struct gguf *file;
    struct tokenizer *tokenizer;
    struct train_model model, merged, pruned; /* of pruned the shape alone; of the others, too, where weights are read once */
    const struct train_model *m;              /* what is pruned: model or merged */
    struct text_windows windows;
    struct structures score, mask;
    struct prune_source source;
    struct thread_pool *pool;
    double latency;        /* measured */
    struct prune_job *job; /* the caller's, for those who call back */
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

static bool prunes(const struct prune_job *job)
{
    return job->n_weight > 0 || job->ratio > 0 || job->threshold > 0 || job->latency > 0;
}

/* go_on of each kind of work, in front of the job's. */
static bool go_on_timing(void *context, int64_t done, int64_t total)
{
    const struct prune_job *job = context;
    return job->go_on == NULL || job->go_on(job->context, "timing shapes", done, total);
}

/* In weights. */
static size_t target_of(const struct opened *o, const struct prune_job *job)
{
    return job->n_weight > 0 ? (size_t)job->n_weight : (size_t)((double)o->model.n_weight * (1 - job->ratio));
}

enum {
    TIMED_ROUNDS = 9,
    TIMED_TOKENS = 16
};

static enum mr_status set_latency(struct prune_shape *shape, struct opened *o, const struct prune_job *job,
                                  struct mr_error *err)
{
    struct prune_latency latency = {
        .target = job->latency,
        .parts = job->parts,
        .type = job->type,
        .beside = job->out,
        .timing = {.n_threads = job->threads, .precision = job->precision, .n_round = TIMED_ROUNDS, .n_token = TIMED_TOKENS},
        .go_on = go_on_timing,
        .context = o->job};
    MR_TRY(cpu_features(&latency.timing.cpu_features, job->cpu, err));
    return prune_shape_within(shape, &o->latency, o->m, &o->source, o->file, &latency, err);
}

/* By size first: a target that cannot be reached is told before the text is read, and so is a disk without room. */
static enum mr_status set_target(struct prune_shape *shape, struct opened *o, const struct prune_job *job, struct mr_error *err)
{
    const size_t target = target_of(o, job);
    *shape = prune_whole(&o->m->h);
    if (job->n_weight > 0 || job->ratio > 0)
        MR_TRY(prune_shape_for(shape, o->m, job->parts, target, err));
    if (job->latency > 0)
        MR_TRY(set_latency(shape, o, job, err));
    return room_check(job->out, (uint64_t)prune_weights(o->m, *shape) * quant_find(job->type)->bytes, err);
}

static bool go_on_judging(void *context, int64_t done, int64_t total)
{
    const struct prune_job *job = context;
    return job->go_on == NULL || job->go_on(job->context, "measuring importance", done, total);
}

static bool go_on_reading(void *context)
{
    const struct prune_job *job = context;
    return job->go_on == NULL || job->go_on(job->context, "reading and writing weights", 0, 0);
}

static enum mr_status judge(struct opened *o, const struct prune_job *job, struct mr_error *err)
{
    unsigned features;
    MR_TRY(cpu_features(&features, job->cpu, err));
    MR_TRY(pool_create(&o->pool, job->threads, err));
    MR_TRY(read_text(o, job, err));
    MR_TRY(structures_create(&o->score, &o->m->h, err));
    MR_TRY(structures_create(&o->mask, &o->m->h, err));
    const struct importance_options options = {.method = job->importance,
                                               .parts = job->parts,
                                               .windows = &o->windows,
                                               .params = &o->source.source,
                                               .memory_bytes = (size_t)4 << 30,
                                               .pool = o->pool,
                                               .cpu_features = features,
                                               .go_on = go_on_judging,
                                               .context = o->job};
    return importance_measure(&o->score, o->m, &options, err);
}

/* The model in memory, or, where its weights are read only once or twice, its shape. */
static enum mr_status open_model(struct opened *o, const struct prune_job *job, struct mr_error *err)
{
    const bool whole = prunes(job) && job->importance != IMPORTANCE_WEIGHT;
    const enum mr_status status = (whole ? train_model_load : train_model_plan_file)(&o->model, o->file, err);
    if (status != MR_OK)
        return mr_fail_in(err, status, "'%s'", job->in);
    o->m = &o->model;
    if (job->n_head_kv == 0)
        return MR_OK;
    MR_TRY((whole ? prune_merge_heads : prune_merge_plan)(&o->merged, &o->model, job->n_head_kv, err));
    o->m = &o->merged;
    if (whole) { /* one of both is enough from here on */
        train_model_release(&o->model);
        o->model.w = NULL;
    }
    return MR_OK;
}

static enum mr_status run(struct opened *o, struct prune_result *out, const struct prune_job *job, struct mr_error *err)
{
    struct gguf_writer *w;
    struct prune_shape shape;
    MR_TRY(gguf_writer_create(&w, job->out, err)); /* whether the folder takes the file, before there is work to lose */
    gguf_writer_free(w);
    MR_TRY(gguf_open(&o->file, job->in, err));
    MR_TRY(open_model(o, job, err));
    MR_TRY(prune_source_init(&o->source, o->m->w != NULL ? o->m : &o->model, o->m, o->file, err));
    o->source.go_on = go_on_reading;
    o->source.context = o->job;
    MR_TRY(set_target(&shape, o, job, err));
    o->pruned = *o->m;
    o->pruned.w = NULL;
    if (prunes(job)) {
        MR_TRY(judge(o, job, err));
        if (job->threshold > 0)
            shape = prune_shape_above(o->m, &o->score, job->parts, job->threshold);
        if (job->is_global)
            MR_TRY(prune_shape_global(&shape, o->m, &o->score, job->parts, target_of(o, job), err));
        prune_choose(&o->mask, &o->score, shape);
        MR_TRY(prune_plan(&o->pruned, o->m, &o->mask, err));
        prune_source_keep(&o->source, &o->mask);
    }
    *out = (struct prune_result){prune_whole(&o->model.h), prune_whole(&o->pruned.h), o->model.n_weight, o->pruned.n_weight,
                                 o->latency};
    return train_model_write_from(&o->pruned, &o->source.source, o->file, false, job->type, job->out, err);
}

enum mr_status prune_job_run(struct prune_result *out, const struct prune_job *job, struct mr_error *err)
{
    struct prune_job own = *job;
    struct opened o = {.job = &own};
    *out = (struct prune_result){0};
    if (job->parts == PRUNE_EXPERTS)
        return experts_job_run(out, job, err);
    const enum mr_status status = run(&o, out, job, err);
    structures_release(&o.score);
    structures_release(&o.mask);
    prune_source_release(&o.source);
    text_windows_release(&o.windows);
    train_model_release(&o.model);
    train_model_release(&o.merged);
    tokenizer_free(o.tokenizer);
    pool_free(o.pool);
    gguf_close(o.file);
    return status;
}
