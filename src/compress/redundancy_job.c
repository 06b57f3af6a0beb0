/* redundancy_job.c: a file, a text, and what of the model can go. */
#include "base/cpu.h"
#include "compress/redundancy.h"

struct opened {
    struct gguf *file;
    struct tokenizer *tokenizer;
    struct train_model model;
    struct text_windows windows;
    struct thread_pool *pool;
};

static enum mr_status run(struct opened *o, struct redundancy *out, const struct redundancy_job *job, struct mr_error *err)
{
    unsigned features;
    MR_TRY(cpu_features(&features, job->cpu, err));
    MR_TRY(pool_create(&o->pool, job->threads, err));
    MR_TRY(gguf_open(&o->file, job->in, err));
    const enum mr_status status = train_model_load(&o->model, o->file, err);
    if (status != MR_OK)
        return mr_fail_in(err, status, "'%s'", job->in);
    if (job->n_tok > o->model.h.n_ctx_train)
        return mr_fail(err, MR_BAD_INPUT, "windows of %d tokens are longer than the model's context, %d", job->n_tok,
                       o->model.h.n_ctx_train);
    MR_TRY(tokenizer_create(&o->tokenizer, o->file, err));
    MR_TRY(text_windows_init(&o->windows, o->tokenizer, job->text, job->n_text, job->n_tok, 0, 2, 0, err));
    if (o->windows.n_train > (uint32_t)job->n_window)
        o->windows.n_train = (uint32_t)job->n_window;
    const struct redundancy_options options = {.windows = &o->windows,
                                               .rise = job->rise,
                                               .pool = o->pool,
                                               .cpu_features = features,
                                               .go_on = job->go_on,
                                               .context = job->context};
    return redundancy_measure(out, &o->model, &options, err);
}

enum mr_status redundancy_job_run(struct redundancy *out, const struct redundancy_job *job, struct mr_error *err)
{
    struct opened o = {0};
    *out = (struct redundancy){0};
    const enum mr_status status = run(&o, out, job, err);
    text_windows_release(&o.windows);
    train_model_release(&o.model);
    tokenizer_free(o.tokenizer);
    pool_free(o.pool);
    gguf_close(o.file);
    return status;
}
