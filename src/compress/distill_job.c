/* distill_job.c: files to models and back. */
#include "compress/distill_job.h"

#include <string.h>

#include "base/cpu.h"
#include "compress/heads_write.h"
#include "compress/lora_write.h"
#include "format/gguf_write.h"
#include "measure/limits.h"

struct opened {
    struct gguf *student_file, *teacher_file;
    struct tokenizer *tokenizer, *teacher_tokenizer;
    struct train_model student, teacher;
    struct lora lora;
    struct draft_heads heads;
    struct eagle eagle;
    struct text_windows windows;
    struct thread_pool *pool;
};

static enum mr_status open_model(struct gguf **g, struct tokenizer **t, struct train_model *m, const char *path,
                                 struct mr_error *err)
{
    MR_TRY(gguf_open(g, path, err));
    enum mr_status status = tokenizer_create(t, *g, err);
    if (status == MR_OK)
        status = train_model_load(m, *g, err);
    return status == MR_OK ? MR_OK : mr_fail_in(err, status, "'%s'", path);
}

/* Token for token: a distribution over other tokens teaches nothing. */
static enum mr_status compare_vocabularies(const struct opened *o, const struct distill_job *job, struct mr_error *err)
{
    const int n = tokenizer_n_vocab(o->tokenizer);
    if (tokenizer_n_vocab(o->teacher_tokenizer) != n)
        return mr_fail(err, MR_BAD_INPUT, "'%s' has a vocabulary of %d tokens, '%s' one of %d", job->teacher,
                       tokenizer_n_vocab(o->teacher_tokenizer), job->student, n);
    for (int32_t id = 0; id < n; id++) {
        const struct gguf_string a = tokenizer_spelling(o->tokenizer, id), b = tokenizer_spelling(o->teacher_tokenizer, id);
        if (a.n != b.n || memcmp(a.s, b.s, a.n) != 0)
            return mr_fail(err, MR_BAD_INPUT, "token %d is '%.*s' in '%s' and '%.*s' in '%s'", id, (int)a.n, a.s, job->student,
                           (int)b.n, b.s, job->teacher);
    }
    return MR_OK;
}

static enum mr_status check_context(const struct train_model *m, const char *path, int n_tok, struct mr_error *err)
{
    return n_tok <= m->h.n_ctx_train
               ? MR_OK
               : mr_fail(err, MR_BAD_INPUT, "windows of %d tokens are longer than the context of '%s', %d", n_tok, path,
                         m->h.n_ctx_train);
}

static enum mr_status create_lora(struct opened *o, const struct distill_job *job, struct mr_error *err)
{
    const float alpha = job->lora_alpha > 0 ? job->lora_alpha : 2 * (float)job->lora_rank;
    unsigned targets;
    MR_TRY(lora_targets_parse(&targets, job->lora_targets != NULL ? job->lora_targets : lora_targets_all, err));
    return lora_create(&o->lora, &o->student, job->lora_rank, alpha, targets, job->seed, err);
}

static enum mr_status open_all(struct opened *o, struct distill_job *job, struct mr_error *err)
{
    struct distill_options *options = &job->options;
    MR_TRY(open_model(&o->student_file, &o->tokenizer, &o->student, job->student, err));
    MR_TRY(check_context(&o->student, job->student, job->n_tok, err));
    options->student = &o->student;
    options->teacher = NULL;
    if (job->lora_rank > 0) {
        MR_TRY(create_lora(o, job, err));
        options->lora = &o->lora;
    }
    if (job->is_eagle) {
        MR_TRY(eagle_create(&o->eagle, &o->student, job->seed, err));
        options->eagle = &o->eagle;
    }
    if (job->n_head > 0) {
        MR_TRY(draft_heads_create(&o->heads, job->n_head, o->student.h.n_embd, err));
        options->heads = &o->heads;
    }
    if (job->teacher != NULL) {
        MR_TRY(open_model(&o->teacher_file, &o->teacher_tokenizer, &o->teacher, job->teacher, err));
        MR_TRY(check_context(&o->teacher, job->teacher, job->n_tok, err));
        MR_TRY(compare_vocabularies(o, job, err));
        options->teacher = &o->teacher;
    }
    MR_TRY(text_windows_init(&o->windows, o->tokenizer, job->text, job->n_text, job->n_tok, job->n_held_out, options->n_seq,
                             job->seed, err));
    options->windows = &o->windows;
    MR_TRY(cpu_features(&options->cpu_features, job->cpu, err));
    MR_TRY(pool_create(&o->pool, job->threads, err));
    options->pool = o->pool;
    return MR_OK;
}

/* Whether the folder takes the file, before there is work to lose. */
static enum mr_status try_output(const char *path, struct mr_error *err)
{
    struct gguf_writer *w;
    MR_TRY(gguf_writer_create(&w, path, err));
    gguf_writer_free(w);
    return MR_OK;
}

static enum mr_status measure_peak(struct distill_job *job, struct mr_error *err)
{
    struct limits limits;
    if (!job->wants_peak)
        return MR_OK;
    MR_TRY(limits_measure_quick(&limits, pool_n_thread(job->options.pool), job->options.cpu_features, err));
    job->options.peak_flops = limits_gops(&limits, job->options.is_bf16 ? PEAK_BF16 : PEAK_F32) * 1e9;
    return MR_OK;
}

static void close_all(struct opened *o)
{
    text_windows_release(&o->windows);
    lora_release(&o->lora);
    draft_heads_release(&o->heads);
    eagle_release(&o->eagle);
    train_model_release(&o->student);
    train_model_release(&o->teacher);
    tokenizer_free(o->tokenizer);
    tokenizer_free(o->teacher_tokenizer);
    gguf_close(o->student_file);
    gguf_close(o->teacher_file);
    pool_free(o->pool);
}

/* What was trained. */
static enum mr_status write(const struct opened *o, const struct distill_job *job, struct mr_error *err)
{
    if (job->is_eagle)
        return eagle_write(&o->eagle, o->student_file, job->type, job->out, err);
    if (job->n_head > 0)
        return heads_write(&o->heads, &o->student, o->student_file, job->type, job->out, err);
    if (job->lora_rank > 0)
        return lora_write(&o->lora, job->type, job->out, err);
    return train_model_write(&o->student, o->student_file, false, job->type, job->out, err);
}

enum mr_status distill_job_run(struct distill_job *job, struct curve *curve, int64_t *first_step, struct mr_error *err)
{
    struct opened o = {0};
    *curve = (struct curve){0};
    *first_step = 0;
    enum mr_status status = try_output(job->out, err);
    if (status == MR_OK)
        status = open_all(&o, job, err);
    if (status == MR_OK)
        status = measure_peak(job, err);
    if (status == MR_OK)
        status = distill_run(&job->options, curve, first_step, err);
    if (status == MR_OK)
        status = write(&o, job, err);
    close_all(&o);
    return status;
}
