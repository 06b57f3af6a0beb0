/* distill.c: the loop of steps. */
#include "compress/distill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "compress/distill_check.h"
#include "compress/heads_lesson.h"
#include "compress/teacher.h"
#include "compress/trainee.h"

struct distiller {
    const struct distill_options *o;
    struct trainee moved;
    struct train_pass *pass;
    struct teacher *teacher;
    struct heads_lesson *heads;
    struct train_state state;
    float *grad;
    int32_t *token, *label, *id; /* of a micro-batch */
    float *p;
    struct row_loss *rows;
    struct lesson_sums sums;
    float scale;
    int64_t n_token;   /* trained on */
    double flops;      /* since the last report */
    int64_t n_counted; /* tokens since then */
    double seconds, before_s;
    int64_t start_us;
};

struct distill_options distill_defaults(void)
{
    return (struct distill_options){.n_seq = 2,
                                    .accumulate = 4,
                                    .n_step = 1000,
                                    .rate = 5e-4f,
                                    .floor = 0.1f,
                                    .n_warmup = 50,
                                    .adamw = adamw_defaults(),
                                    .ce_weight = 0.5f,
                                    .kl_weight = 0.5f,
                                    .k = 32,
                                    .temperature = 1,
                                    .checkpoint_every = 100,
                                    .report_every = 10,
                                    .measure_every = 100,
                                    .memory_bytes = (size_t)4 << 30};
}

static bool trains_heads(const struct distill_options *o) { return o->heads != NULL || o->eagle != NULL; }

/* Of the teacher's distribution; heads are measured against the base's best token in any case. */
static int n_best(const struct distill_options *o) { return o->kl_weight > 0 ? o->k : trains_heads(o); }

static struct trainee trainee_of(const struct distill_options *o)
{
    return (struct trainee){o->student, o->lora, o->heads, o->eagle};
}

/* All that decides what a step does. */
static uint64_t recipe(const struct distill_options *o)
{
    const struct hparams *h = &o->student->h;
    const int64_t whole[] = {
        o->n_seq,  o->accumulate, o->n_step, o->n_warmup, n_best(o),   h->n_layer,          h->n_embd,
        h->n_head, h->n_head_kv,  h->n_ff,   h->n_vocab,  h->head_dim, o->windows->n_train, (int64_t)o->windows->seed};
    const float real[] = {o->rate,       o->floor,     o->adamw.beta1, o->adamw.beta2,   o->adamw.epsilon, o->adamw.decay,
                          o->adamw.clip, o->ce_weight, o->kl_weight,   o->hidden_weight, o->temperature,   o->is_bf16};
    uint64_t sum = digest_bytes(digest_bytes(0, whole, sizeof whole), real, sizeof real);
    const struct trainee moved = trainee_of(o);
    sum = trainee_digest(&moved, sum);
    if (o->teacher != NULL)
        sum = digest_bytes(sum, o->teacher->w, o->teacher->n_weight * sizeof(float));
    const uint64_t text = text_windows_digest(o->windows);
    return digest_bytes(sum, &text, sizeof text);
}

static enum mr_status create_teacher(struct distiller *d, struct mr_error *err)
{
    const struct distill_options *o = d->o;
    const struct teacher_options options = {.model = o->teacher,
                                            .windows = o->windows,
                                            .cache = n_best(o) > 0 ? o->cache : NULL,
                                            .n_seq = o->n_seq,
                                            .k = n_best(o),
                                            .temperature = o->temperature,
                                            .wants_hidden = o->hidden_weight > 0,
                                            .pool = o->pool,
                                            .cpu_features = o->cpu_features};
    return o->teacher != NULL ? teacher_create(&d->teacher, &options, err) : MR_OK;
}

static enum mr_status create_heads(struct distiller *d, struct mr_error *err)
{
    const struct distill_options *o = d->o;
    const struct heads_lesson_options options = {.heads = o->heads,
                                                 .eagle = o->eagle,
                                                 .base = o->student,
                                                 .n_seq = o->n_seq,
                                                 .n_tok = o->windows->n_tok,
                                                 .k = n_best(o),
                                                 .ce_weight = o->ce_weight,
                                                 .kl_weight = o->kl_weight,
                                                 .feature_weight = o->hidden_weight,
                                                 .temperature = o->temperature,
                                                 .scale = d->scale,
                                                 .memory_bytes = o->memory_bytes,
                                                 .pool = o->pool,
                                                 .cpu_features = o->cpu_features};
    return trains_heads(o) ? heads_lesson_create(&d->heads, &options, err) : MR_OK;
}

static enum mr_status allocate(struct distiller *d, struct mr_error *err)
{
    const struct distill_options *o = d->o;
    const size_t rows = (size_t)o->n_seq * (size_t)o->windows->n_tok, best = rows * (size_t)n_best(o) + 1;
    const size_t n = trainee_n_weight(&d->moved);
    const struct train_pass_options pass = {.n_seq = o->n_seq,
                                            .n_tok = o->windows->n_tok,
                                            .is_forward = trains_heads(o),
                                            .memory_bytes = o->memory_bytes,
                                            .is_bf16 = o->is_bf16,
                                            .lora = o->lora,
                                            .pool = o->pool,
                                            .cpu_features = o->cpu_features};
    d->state.recipe = recipe(o);
    d->state.n_array = n;
    d->state.array[0] = trainee_weights(&d->moved);
    d->state.array[1] = mem_zero_array(n, sizeof(float));
    d->state.array[2] = mem_zero_array(n, sizeof(float));
    d->grad = mem_zero_array(n, sizeof *d->grad);
    d->token = mem_array(rows, sizeof *d->token);
    d->label = mem_array(rows, sizeof *d->label);
    d->id = mem_array(best, sizeof *d->id);
    d->p = mem_array(best, sizeof *d->p);
    d->rows = mem_array(rows, sizeof *d->rows);
    if (d->state.array[1] == NULL || d->state.array[2] == NULL || d->grad == NULL || d->token == NULL || d->label == NULL ||
        d->id == NULL || d->p == NULL || d->rows == NULL)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the gradient and moments of %zu weights", n);
    d->scale = 1 / ((float)rows * (float)o->accumulate);
    MR_TRY(train_pass_create(&d->pass, o->student, &pass, err));
    MR_TRY(create_heads(d, err));
    return create_teacher(d, err);
}

static void release(struct distiller *d)
{
    train_pass_free(d->pass);
    teacher_free(d->teacher);
    heads_lesson_free(d->heads);
    free(d->state.array[1]);
    free(d->state.array[2]);
    free(d->state.curve.point);
    free(d->grad);
    free(d->token);
    free(d->label);
    free(d->id);
    free(d->p);
    free(d->rows);
}

static double logits_loss(void *context, struct compute *c, float *logits, int first, int n, bool backward)
{
    struct distiller *d = context;
    const struct distill_options *o = d->o;
    const struct loss_targets t = {.label = d->label + first,
                                   .k = n_best(o),
                                   .id = d->id + (size_t)first * (size_t)n_best(o),
                                   .p = d->p + (size_t)first * (size_t)n_best(o),
                                   .ce_weight = o->ce_weight,
                                   .kl_weight = o->kl_weight,
                                   .temperature = o->temperature,
                                   .scale = d->scale};
    loss_rows(c, d->rows, &t, logits, n, o->student->h.n_vocab, backward);
    return lesson_sums_add(&d->sums, &t, d->rows, n, -1);
}

/* The student's layers are matched with the teacher's at the same part of the way. */
static double hidden_loss(void *context, struct compute *c, int layer, const float *x, float *dx, int n)
{
    const struct distiller *d = context;
    const struct distill_options *o = d->o;
    const int n_layer = o->student->h.n_layer;
    if (layer == 0)
        return 0;
    const float *target = teacher_hidden(d->teacher, (layer * o->teacher->h.n_layer + n_layer / 2) / n_layer);
    const float weight = o->hidden_weight / (float)n_layer;
    const double loss = loss_mean_square(c, x, target, dx, n, o->student->h.n_embd, weight, d->scale);
    return dx == NULL ? loss : 0;
}

static double pass(struct distiller *d, int n, float *grad)
{
    const struct train_loss loss = {
        .logits = logits_loss, .hidden = d->o->hidden_weight > 0 ? hidden_loss : NULL, .context = d};
    return d->heads != NULL ? heads_lesson_run(d->heads, d->pass, d->token, d->label, n, grad, &d->sums)
                            : train_pass_run(d->pass, d->token, n, &loss, grad);
}

/* A micro-batch: windows, what the teacher says of them, and the pass. */
static enum mr_status run_windows(struct distiller *d, const uint32_t *window, int n, float *grad, struct mr_error *err)
{
    const struct distill_options *o = d->o;
    const int n_tok = o->windows->n_tok;
    int n_run = 0;
    for (int i = 0; i < n; i++)
        text_windows_read(o->windows, window[i], d->token + (size_t)i * (size_t)n_tok, d->label + (size_t)i * (size_t)n_tok);
    if (d->teacher != NULL)
        MR_TRY(teacher_ask(d->teacher, window, n, d->id, d->p, &n_run, err));
    const double sum = pass(d, n, grad);
    d->sums.loss += sum;
    d->flops += trainee_flops_per_token(&d->moved, n_tok) * n * n_tok;
    if (n_run > 0)
        d->flops += train_flops_per_token(o->teacher, n_tok) / 3 * n_run * n_tok;
    return isfinite(sum) ? MR_OK : mr_fail(err, MR_BAD_FORMAT, "the loss is no longer a number; a lower rate may help");
}

static enum mr_status step(struct distiller *d, struct mr_error *err)
{
    const struct distill_options *o = d->o;
    uint32_t window[TEACHER_MAX_SEQ];
    memset(d->grad, 0, d->state.n_array * sizeof *d->grad);
    for (int part = 0; part < o->accumulate; part++) {
        const uint64_t first = ((uint64_t)d->state.step * (uint64_t)o->accumulate + (uint64_t)part) * (uint64_t)o->n_seq;
        for (int i = 0; i < o->n_seq; i++)
            window[i] = text_windows_order(o->windows, first + (uint64_t)i);
        MR_TRY(run_windows(d, window, o->n_seq, d->grad, err));
    }
    return MR_OK;
}

static enum mr_status move(struct distiller *d, struct curve_point *point, struct mr_error *err)
{
    const struct distill_options *o = d->o;
    struct compute *c = train_pass_compute(d->pass);
    const double norm = gradient_norm(c, d->grad, d->state.n_array);
    point->rate = adamw_rate(o->rate, o->floor, d->state.step, o->n_warmup, o->n_step);
    point->norm = (float)norm;
    if (!isfinite(norm))
        return mr_fail(err, MR_BAD_FORMAT, "the gradient of step %lld is not a number; a lower rate may help",
                       (long long)d->state.step);
    trainee_step(&d->moved, c, &o->adamw, d->grad, norm, d->state.array[1], d->state.array[2], d->state.step + 1, point->rate);
    d->state.step++;
    return MR_OK;
}

static enum mr_status measure_held_out(struct distiller *d, struct curve_point *point, struct mr_error *err)
{
    const struct distill_options *o = d->o;
    const double flops = d->flops;
    uint32_t window[TEACHER_MAX_SEQ];
    d->sums = (struct lesson_sums){0};
    for (uint32_t first = o->windows->n_train; first < o->windows->n_window; first += (uint32_t)o->n_seq) {
        int n = 0;
        for (; n < o->n_seq && first + (uint32_t)n < o->windows->n_window; n++)
            window[n] = first + (uint32_t)n;
        MR_TRY(run_windows(d, window, n, NULL, err));
    }
    lesson_sums_held_out(&d->sums, point);
    d->flops = flops;
    return MR_OK;
}

static enum mr_status add_point(struct distiller *d, struct curve_point *point, bool measures, struct mr_error *err)
{
    const struct distill_options *o = d->o;
    struct curve *c = &d->state.curve;
    const double now = (double)(clock_us() - d->start_us) * 1e-6, spent = now - d->seconds;
    lesson_sums_training(&d->sums, point);
    point->step = d->state.step;
    point->n_token = d->state.step * o->accumulate * o->n_seq * o->windows->n_tok;
    point->tokens_per_s = spent > 0 ? (double)d->n_counted / spent : 0;
    point->mfu = spent > 0 && o->peak_flops > 0 ? d->flops / spent / o->peak_flops : 0;
    point->seconds = d->before_s + now;
    point->held_cross_entropy = point->held_divergence = point->held_accuracy = point->held_agreement = -1;
    for (int i = 0; i < DRAFT_HEADS_MAX; i++)
        point->held_head[i] = -1;
    if (measures)
        MR_TRY(measure_held_out(d, point, err));
    if (!mem_grow(&c->point, &c->capacity, c->n + 1, sizeof *c->point))
        return mr_fail(err, MR_NO_MEMORY, "no memory for the curve");
    c->point[c->n++] = *point;
    d->sums = (struct lesson_sums){0};
    d->flops = 0;
    d->n_counted = 0;
    d->seconds = (double)(clock_us() - d->start_us) * 1e-6; /* measuring is not training */
    return MR_OK;
}

static bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

static enum mr_status save(const struct distiller *d, struct mr_error *err)
{
    return d->o->checkpoint != NULL ? checkpoint_write(&d->state, d->o->checkpoint, err) : MR_OK;
}

static enum mr_status stop(const struct distiller *d, struct mr_error *err)
{
    MR_TRY(save(d, err));
    return mr_fail(err, MR_CANCELLED, "stopped after step %lld of %lld%s", (long long)d->state.step, (long long)d->o->n_step,
                   d->o->checkpoint != NULL ? "; the same command goes on from here" : "");
}

/* What stands behind a step: a point of the curve, a checkpoint. *go_on: nobody wants to stop. */
static enum mr_status conclude(struct distiller *d, struct curve_point *point, bool *go_on, struct mr_error *err)
{
    const struct distill_options *o = d->o;
    const bool is_last = d->state.step == o->n_step, measures = is_last || is_due(d->state.step, o->measure_every);
    if (measures || is_due(d->state.step, o->report_every)) {
        MR_TRY(add_point(d, point, measures && o->windows->n_train < o->windows->n_window, err));
        *go_on = o->report == NULL || o->report(o->context, &d->state.curve.point[d->state.curve.n - 1]);
    }
    return is_last || is_due(d->state.step, o->checkpoint_every) ? save(d, err) : MR_OK;
}

static enum mr_status train(struct distiller *d, struct mr_error *err)
{
    const struct distill_options *o = d->o;
    bool go_on = true;
    d->start_us = clock_us();
    while (d->state.step < o->n_step) {
        struct curve_point point;
        memset(&point, 0, sizeof point);
        if (!go_on || (o->go_on != NULL && !o->go_on(o->context)))
            return stop(d, err);
        MR_TRY(step(d, err));
        d->n_counted += (int64_t)o->accumulate * o->n_seq * o->windows->n_tok;
        MR_TRY(move(d, &point, err));
        MR_TRY(conclude(d, &point, &go_on, err));
    }
    return MR_OK;
}

static enum mr_status run(struct distiller *d, int64_t *first_step, struct mr_error *err)
{
    bool found = false;
    MR_TRY(allocate(d, err));
    if (d->o->checkpoint != NULL)
        MR_TRY(checkpoint_read(&d->state, d->o->checkpoint, &found, err));
    if (!found)
        MR_TRY(save(d, err)); /* what cannot be written is found out before there is work to lose */
    *first_step = d->state.step;
    if (d->state.curve.n > 0)
        d->before_s = d->state.curve.point[d->state.curve.n - 1].seconds;
    return train(d, err);
}

enum mr_status distill_run(const struct distill_options *options, struct curve *curve, int64_t *first_step,
                           struct mr_error *err)
{
    struct distiller d = {.o = options, .moved = trainee_of(options)};
    *curve = (struct curve){0};
    *first_step = 0;
    MR_TRY(distill_check(options, err));
    const enum mr_status status = run(&d, first_step, err);
    *curve = d.state.curve;
    d.state.curve = (struct curve){0};
    release(&d);
    return status;
}
