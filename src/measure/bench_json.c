/* bench_json.c: the figures of a benchmark as JSON. */
#include <stdlib.h>

#include "measure/bench_report.h"

/* The rate, or null where the machine has none. */
static json_t *rate_or_null(double rate) { return rate > 0 ? json_real(rate) : json_null(); }

static json_t *limits_json(const struct limits *l)
{
    const char *const *name = l->instruction;
    return json_pack("{s:s, s:i, s:o, s:o, s:o, s:f, s:i, s:I, s:o, s:o, s:o, s:f, s:{s:s?, s:s?, s:s?}}", "isa", l->isa,
                     "threads", l->n_threads, "int8_gops", rate_or_null(l->gops[PEAK_INT8]), "bf16_gops",
                     rate_or_null(l->gops[PEAK_BF16]), "f32_gops", rate_or_null(l->gops[PEAK_F32]), "read_gb_s", l->read_gb_s,
                     "read_streams", l->read_streams, "read_bytes", (json_int_t)l->read_bytes, "l1_read_gb_s",
                     rate_or_null(l->cache_gb_s[0]), "l2_read_gb_s", rate_or_null(l->cache_gb_s[1]), "l3_read_gb_s",
                     rate_or_null(l->cache_gb_s[2]), "clock_ghz", l->clock_ghz, "instructions", "int8", name[PEAK_INT8], "bf16",
                     name[PEAK_BF16], "f32", name[PEAK_F32]);
}

static json_t *machine_json(const struct machine_report *m)
{
    return json_pack("{s:f, s:f, s:f, s:b, s:f, s:f}", "clock_ghz", m->ghz, "clock_ghz_min", m->ghz_min, "clock_ghz_max",
                     m->ghz_max, "throttled", m->throttled, "steal_share", m->steal_share, "other_load_share", m->other_share);
}

static json_t *work_json(const struct op_work *w, const struct limits *l)
{
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "calls", (json_int_t)w->n_call, "seconds", w->seconds, "ops", op_work_ops(w),
                     "bytes", op_work_bytes(w), "share_of_limit", bench_row_share(w, l));
}

static json_t *row_json(const struct op_row *r, const struct limits *l)
{
    json_t *row = work_json(&r->work, l);
    json_t *key = json_pack("{s:s, s:s?, s:i, s:i}", "op", op_kind_name(r->kind), "kernel", r->kernel, "n_in", r->n_in, "n_out",
                            r->n_out);
    if (row != NULL && key != NULL)
        json_object_update(row, key);
    json_decref(key);
    return row;
}

static json_t *profile_json(const struct bench_result *r, const struct limits *l)
{
    int order[OP_ROWS_MAX];
    json_t *ops = json_array(), *layers = json_array();
    bench_rows_by_time(r->profile, order);
    for (int i = 0; i < r->profile->n_row; i++)
        json_array_append_new(ops, row_json(&r->profile->row[order[i]], l));
    for (int i = 0; i <= r->profile->n_layer; i++) {
        json_t *layer = work_json(&r->profile->layer[i], l);
        json_object_set_new(layer, "layer", i == 0 ? json_null() : json_integer(i - 1));
        json_array_append_new(layers, layer);
    }
    return json_pack("{s:f, s:f, s:o, s:o}", "seconds", r->profile_seconds, "ops_seconds", r->profile->total.seconds, "ops",
                     ops, "layers", layers);
}

static json_t *result_json(const struct bench_result *r, const struct limits *l)
{
    json_t *result =
        json_pack("{s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "test", bench_test_name(r->test), "batch",
                  r->batch, "n_tokens", r->n_tokens, "depth", r->depth, "tok_s", r->tok_s.median, "tok_s_min", r->tok_s.min,
                  "tok_s_max", r->tok_s.max, "gops", r->gops, "gb_s", r->gb_s, "mfu", r->mfu, "mbu", r->mbu);
    if (r->profile != NULL)
        json_object_set_new(result, "profile", profile_json(r, l));
    return result;
}

static json_t *kernel_json(const struct kernel_figure *k)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f}", "kernel", k->kernel, "n_in", k->n_in, "n_out", k->n_out,
                     "n_row", k->n_row, "seconds", k->seconds, "gops", k->gops, "gb_s", k->gb_s, "mfu", k->mfu, "mbu", k->mbu);
}

static json_t *pipeline_json(const struct pipeline_figure *p)
{
    return json_pack("{s:s, s:i, s:i, s:f, s:f, s:I, s:I}", "kernel", p->kernel, "n_row", p->n_row, "n", p->n, "fused_seconds",
                     p->fused_s, "unfused_seconds", p->unfused_s, "fused_bytes", (json_int_t)p->fused_bytes, "unfused_bytes",
                     (json_int_t)p->unfused_bytes);
}

static json_t *model_json(const struct bench_summary *s)
{
    if (s->model == NULL)
        return json_null();
    const struct model_info *info = model_info(s->model->model);
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:i, s:i, s:f, s:I, s:I}", "file", s->model->path, "family",
                     info->family, "precision", info->precision, "kv_type", info->kv_type, "n_parameters",
                     (json_int_t)info->n_parameter, "n_parameters_used", (json_int_t)info->n_parameter_used, "weight_bytes",
                     (json_int_t)info->weight_bytes, "activation_bytes", (json_int_t)info->activation_bytes, "fusion",
                     s->model->device->unfused ? "off" : "on", "n_layer", info->n_layer, "n_ctx_train", info->n_ctx_train,
                     "load_s", s->model->load_s, "memory_bytes", (json_int_t)s->resident_bytes, "memory_peak_bytes",
                     (json_int_t)s->peak_bytes);
}

/* Takes over `array`. */
static void set_unless_empty(json_t *root, const char *key, json_t *array)
{
    if (json_array_size(array) > 0)
        json_object_set(root, key, array);
    json_decref(array);
}

static json_t *results_json(const struct bench_report *r, const struct limits *l)
{
    json_t *results = json_array();
    for (int i = 0; r != NULL && i < r->n_result; i++)
        json_array_append_new(results, result_json(&r->result[i], l));
    return results;
}

static json_t *stage_json(const struct ablation_stage *a, const struct limits *l)
{
    return json_pack("{s:s, s:s, s:i, s:b, s:b, s:o}", "stage", a->name, "isa", a->isa, "threads", a->n_threads, "tiling",
                     a->tiling, "fusion", a->fusion, "results", results_json(&a->report, l));
}

json_t *bench_json(const struct bench_summary *s)
{
    json_t *root = json_pack("{s:o, s:o, s:o, s:o}", "limits", limits_json(s->limits), "machine", machine_json(&s->machine),
                             "results", results_json(s->report, s->limits), "model", model_json(s));
    json_t *kernels = json_array(), *pipelines = json_array(), *ablation = json_array();
    for (int i = 0; i < s->n_kernel; i++)
        json_array_append_new(kernels, kernel_json(&s->kernel[i]));
    for (int i = 0; i < s->n_pipeline; i++)
        json_array_append_new(pipelines, pipeline_json(&s->pipeline[i]));
    for (int i = 0; i < s->n_ablation; i++)
        json_array_append_new(ablation, stage_json(&s->ablation[i], s->limits));
    set_unless_empty(root, "kernels", kernels);
    set_unless_empty(root, "pipelines", pipelines);
    set_unless_empty(root, "ablation", ablation);
    return root;
}
