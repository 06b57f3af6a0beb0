/* precision_ladder.c: makes each step's file from the fp32 one, times it, measures what it is worth. */
#include "cli/precision_ladder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory_free.h"
#include "cli/calibrate_text.h"
#include "cli/eval_json.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/progress_bar.h"
#include "compress/quantize.h"
#include "measure/engine_load.h"

enum {
    CONTEXT = 512,
    CALIBRATION_WINDOW = 512
};

enum place {
    MAIN,    /* one after the other; the first beyond the threshold ends the ladder's first part */
    SIDE,    /* measured, ends nothing */
    BETWEEN, /* of int8 and int4: where int4 costs too much */
    BELOW    /* int4: where it does not */
};

struct rung {
    const char *name, *type;
    enum mr_precision precision;
    enum place place;
};

static const struct rung rungs[] = {
    {"fp32", "f32", MR_PRECISION_FP32, MAIN},         {"bf16", "bf16", MR_PRECISION_BF16, SIDE},
    {"fp16", "f16", MR_PRECISION_FP16, MAIN},         {"int8", "q8_0", MR_PRECISION_INT8, MAIN},
    {"int4", "q4_0", MR_PRECISION_INT4, MAIN},        {"q6_k", "q6_k", MR_PRECISION_AUTO, BETWEEN},
    {"q5_k_m", "q5_k_m", MR_PRECISION_AUTO, BETWEEN}, {"q4_k_m", "q4_k_m", MR_PRECISION_AUTO, BETWEEN},
    {"q3_k_m", "q3_k_m", MR_PRECISION_AUTO, BELOW},   {"q2_k", "q2_k", MR_PRECISION_AUTO, BELOW}};

enum {
    N_RUNGS = sizeof rungs / sizeof *rungs
};

void ladder_path(struct string_buffer *out, const struct ladder *l, const char *name, const char *suffix)
{
    string_buffer_clear(out);
    string_buffer_printf(out, "%s/%s%s", l->folder, name, suffix);
}

json_t *ladder_step(const json_t *state, const char *name)
{
    const json_t *steps = json_object_get(state, "steps");
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const char *is = json_string_value(json_object_get(json_array_get(steps, i), "name"));
        if (is != NULL && strcmp(is, name) == 0)
            return json_array_get(steps, i);
    }
    return NULL;
}

static bool quantize_on(void *context, const struct quantize_step *s)
{
    return progress_bar_show(context, "quantising", s->done, s->n);
}

static bool evaluate_on(void *context, const char *what, int64_t done, int64_t total)
{
    return progress_bar_show(context, what, done, total);
}

static enum mr_status open_model(struct mr_model **out, const struct ladder *l, const char *path, int precision, int n_ctx,
                                 struct mr_error *err)
{
    struct model_arguments a = *l->model;
    struct mr_options o;
    a.model = path;
    a.precision = precision;
    a.ctx_size = n_ctx;
    load_options(&o, &a);
    return load_model(out, &a, &o, err);
}

static enum mr_status write_model(const struct ladder *l, const char *from, const char *to, const struct rung *r,
                                  const struct column_weights *importance, struct mr_error *err)
{
    struct progress_bar bar;
    struct quantize_result result;
    const struct quantize_options o = {.mix = mix_find(r->type),
                                       .is_pure = r->place == MAIN,
                                       .importance = importance,
                                       .requantize = true,
                                       .threads = l->model->threads,
                                       .go_on = quantize_on,
                                       .context = &bar};
    if (access(to, F_OK) == 0) /* files appear whole */
        return MR_OK;
    progress_bar_begin(&bar);
    const enum mr_status status = quantize(&result, from, to, &o, err);
    progress_bar_end(&bar);
    return status;
}

static enum mr_status write_statistics(const struct ladder *l, const char *base, const char *to, struct mr_error *err)
{
    struct mr_model *model;
    struct calibration *c = NULL;
    struct perplexity of_text;
    if (access(to, F_OK) == 0)
        return MR_OK;
    MR_TRY(open_model(&model, l, base, MR_PRECISION_FP32, 0, err));
    enum mr_status status = calibrate_text(&c, &of_text, model, l->calibration, CALIBRATION_WINDOW, 0, err);
    if (status == MR_OK)
        status = calibration_write(c, to, l->calibration_name, err);
    calibration_free(c);
    mr_model_close(model);
    return status;
}

/* Speed and memory of one answer, the model alone in the process. */
static enum mr_status time_model(json_t *step, const struct ladder *l, const char *path, int precision, struct mr_error *err)
{
    struct mr_model *model;
    struct mr_engine *engine = NULL;
    struct mr_model_info info;
    struct engine_load_result r = {0};
    struct mr_options o;
    struct model_arguments a = *l->model;
    memory_peak_reset();
    MR_TRY(open_model(&model, l, path, precision, 0, err));
    mr_model_info(model, &info);
    a.ctx_size = info.n_ctx_train < CONTEXT ? info.n_ctx_train : CONTEXT;
    load_options(&o, &a);
    o.admission = false;
    o.prefix_cache = false;
    const int most = a.ctx_size / 2;
    const struct engine_load load = {.n_request = 1,
                                     .seed = 1,
                                     .prompt_tokens = LADDER_PROMPT < most ? LADDER_PROMPT : most,
                                     .answer_tokens = LADDER_ANSWER < most / 2 ? LADDER_ANSWER : most / 2,
                                     .n_warm = 1,
                                     .ttft_target_ms = 1000,
                                     .itl_target_ms = 1000,
                                     .stopped = interrupt_seen};
    enum mr_status status = mr_engine_create(&engine, model, &o, err);
    if (status == MR_OK)
        status = engine_load_run(&r, engine, &info, &load, err);
    mr_engine_free(engine);
    json_object_set_new(step, "ttft_ms", json_real(r.ttft.p50));
    json_object_set_new(step, "tok_s", json_real(r.tpot.p50 > 0 ? 1e3 / r.tpot.p50 : 0));
    json_object_set_new(step, "weight_bytes", json_integer((json_int_t)info.weight_bytes));
    json_object_set_new(step, "peak_bytes", json_integer((json_int_t)memory_peak_bytes()));
    mr_model_close(model);
    return status;
}

/* Mean over the tasks, and its standard error. */
static double accuracy(const struct evaluation *e, double *error)
{
    double sum = 0, variance = 0;
    for (int i = 0; i < e->n_task; i++) {
        const struct task_rate *r = e->task[i].n_choice_items > 0 ? &e->task[i].acc : &e->task[i].exact;
        sum += r->rate;
        variance += r->error * r->error;
    }
    *error = sqrt(variance) / e->n_task;
    return sum / e->n_task;
}

static enum mr_status put_results(json_t *step, const struct evaluation *e, const struct ladder *l, struct mr_error *err)
{
    const json_t *base = ladder_step(l->state, rungs[0].name);
    double drop = 0, error = 0;
    if (e->has_text)
        json_object_set_new(step, "perplexity", json_real(e->text.perplexity));
    if (e->n_task > 0) {
        const double is = accuracy(e, &error), was = base != NULL ? json_real_value(json_object_get(base, "accuracy")) : is;
        if (!(was > 0))
            return mr_fail(err, MR_BAD_INPUT, "--tasks: the model in fp32 gets no item right: nothing can be lost");
        json_object_set_new(step, "accuracy", json_real(is));
        json_object_set_new(step, "accuracy_stderr", json_real(error));
        drop = 1 - is / was;
    } else if (e->has_base) {
        drop = expm1(e->text.change.mean);
    }
    json_object_set_new(step, "drop", json_real(drop));
    json_object_set_new(step, "is_within", json_boolean(drop <= l->max_drop));
    json_object_set_new(step, "file_bytes", json_integer((json_int_t)e->file_bytes));
    json_object_set_new(step, "evaluation", eval_json(e, 1));
    return MR_OK;
}

static enum mr_status judge_model(json_t *step, const struct ladder *l, const char *path, const char *base,
                                  const struct rung *r, struct mr_error *err)
{
    struct mr_model *model;
    struct evaluation e = {.has_text = false};
    struct evaluation_plan plan = l->plan;
    struct progress_bar bar;
    plan.go_on = evaluate_on;
    plan.context = &bar;
    snprintf(e.name, sizeof e.name, "%s", r->name);
    MR_TRY(open_model(&model, l, path, (int)r->precision, 0, err));
    enum mr_status status = MR_OK;
    if (plan.text != NULL && strcmp(path, base) != 0)
        status = open_model(&plan.base, l, base, MR_PRECISION_FP32, 0, err);
    progress_bar_begin(&bar);
    if (status == MR_OK)
        status = evaluate(&e, model, &plan, err);
    progress_bar_end(&bar);
    mr_model_close(plan.base);
    mr_model_close(model);
    return status == MR_OK ? put_results(step, &e, l, err) : status;
}

struct files {
    struct string_buffer base, statistics, path;
    struct column_weights *importance;
};

static enum mr_status make_file(struct files *f, const struct ladder *l, const struct rung *r, struct mr_error *err)
{
    ladder_path(&f->base, l, rungs[0].name, ".gguf");
    ladder_path(&f->statistics, l, "statistics", ".gguf");
    ladder_path(&f->path, l, r->name, ".gguf");
    if (f->base.failed || f->statistics.failed || f->path.failed)
        return mr_fail(err, MR_NO_MEMORY, "no memory for the names of files");
    MR_TRY(write_model(l, l->model->model, f->base.s, &rungs[0], NULL, err));
    MR_TRY(write_statistics(l, f->base.s, f->statistics.s, err));
    if (f->importance == NULL)
        MR_TRY(column_weights_read(&f->importance, f->statistics.s, err));
    return write_model(l, f->base.s, f->path.s, r, f->importance, err);
}

static void tell(const json_t *step, const char *how)
{
    fprintf(stderr, "%s: %s%.2f %% lost, %.1f tokens/s, first token %.0f ms, weights %.1f MB\n",
            json_string_value(json_object_get(step, "name")), how, 100 * json_number_value(json_object_get(step, "drop")),
            json_number_value(json_object_get(step, "tok_s")), json_number_value(json_object_get(step, "ttft_ms")),
            (double)json_integer_value(json_object_get(step, "weight_bytes")) / 1e6);
}

static enum mr_status measure(struct files *f, struct ladder *l, const struct rung *r, struct mr_error *err)
{
    json_t *step = json_pack("{s:s,s:s,s:s}", "name", r->name, "type", r->type, "precision",
                             r->precision == MR_PRECISION_AUTO ? "auto" : r->name);
    enum mr_status status = step != NULL ? make_file(f, l, r, err) : mr_fail(err, MR_NO_MEMORY, "no memory for a step");
    if (status == MR_OK)
        status = time_model(step, l, f->path.s, (int)r->precision, err);
    if (status == MR_OK)
        status = judge_model(step, l, f->path.s, f->base.s, r, err);
    if (status == MR_OK)
        tell(step, "");
    if (status == MR_OK && json_array_append(json_object_get(l->state, "steps"), step) != 0)
        status = mr_fail(err, MR_NO_MEMORY, "no memory for a step");
    json_decref(step);
    return status;
}

/* Whether the step is within the threshold; measured now or before. */
static enum mr_status climb(bool *is_within, struct files *f, struct ladder *l, const struct rung *r,
                            enum mr_status (*save)(const struct ladder *l, struct mr_error *err), struct mr_error *err)
{
    if (ladder_step(l->state, r->name) != NULL) {
        tell(ladder_step(l->state, r->name), "measured before: ");
    } else {
        const enum mr_status status = measure(f, l, r, err);
        if (status != MR_OK && status != MR_CANCELLED)
            mr_fail_in(err, status, "%s", r->name);
        MR_TRY(status);
        MR_TRY(save(l, err));
    }
    *is_within = json_is_true(json_object_get(ladder_step(l->state, r->name), "is_within"));
    return MR_OK;
}

static enum mr_status climb_all(struct files *f, struct ladder *l,
                                enum mr_status (*save)(const struct ladder *l, struct mr_error *err), struct mr_error *err)
{
    bool is_within = true, goes_on = true;
    enum place mixes = BELOW;
    for (int i = 0; i < N_RUNGS && goes_on; i++) {
        const struct rung *r = &rungs[i];
        if (r->place != MAIN && r->place != SIDE && r->place != mixes)
            continue;
        MR_TRY(climb(&is_within, f, l, r, save, err));
        if (r->place == MAIN && strcmp(r->name, "int4") == 0)
            mixes = is_within ? BELOW : BETWEEN; /* int8 held */
        else if (r->place != SIDE)
            goes_on = is_within;
    }
    return MR_OK;
}

static const json_t *smallest(const json_t *state)
{
    const json_t *best = NULL, *steps = json_object_get(state, "steps");
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *s = json_array_get(steps, i);
        if (json_is_true(json_object_get(s, "is_within")) &&
            (best == NULL ||
             json_integer_value(json_object_get(s, "file_bytes")) < json_integer_value(json_object_get(best, "file_bytes"))))
            best = s;
    }
    return best;
}

static enum mr_status choose(struct files *f, struct ladder *l, struct mr_error *err)
{
    const char *name = json_string_value(json_object_get(smallest(l->state), "name"));
    for (int i = 0; i < N_RUNGS && name != NULL; i++) {
        ladder_path(&f->path, l, name, ".gguf");
        if (strcmp(rungs[i].name, name) == 0 && !f->path.failed && access(f->path.s, F_OK) != 0)
            MR_TRY(make_file(f, l, &rungs[i], err)); /* a run that went on may have lost it */
    }
    json_object_set_new(l->state, "deploy", name != NULL ? json_string(name) : json_null());
    for (int i = 0; i < N_RUNGS && !l->keep; i++) {
        ladder_path(&f->path, l, rungs[i].name, ".gguf");
        if (ladder_step(l->state, rungs[i].name) != NULL && (name == NULL || strcmp(rungs[i].name, name) != 0) &&
            !f->path.failed)
            unlink(f->path.s);
    }
    return MR_OK;
}

void ladder_forget(const struct ladder *l)
{
    struct string_buffer path;
    string_buffer_init(&path);
    for (int i = 0; i <= N_RUNGS; i++) {
        ladder_path(&path, l, i < N_RUNGS ? rungs[i].name : "statistics", ".gguf");
        if (!path.failed)
            unlink(path.s);
    }
    string_buffer_release(&path);
}

enum mr_status ladder_run(struct ladder *l, enum mr_status (*save)(const struct ladder *l, struct mr_error *err),
                          struct mr_error *err)
{
    struct files f = {0};
    string_buffer_init(&f.base);
    string_buffer_init(&f.statistics);
    string_buffer_init(&f.path);
    enum mr_status status = climb_all(&f, l, save, err);
    if (status == MR_OK)
        status = choose(&f, l, err);
    column_weights_free(f.importance);
    string_buffer_release(&f.base);
    string_buffer_release(&f.statistics);
    string_buffer_release(&f.path);
    return status;
}
