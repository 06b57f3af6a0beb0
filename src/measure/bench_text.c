/* bench_text.c: the figures of a benchmark as tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/bench_report.h"

double bench_row_share(const struct op_work *w, const struct limits *l)
{
    if (w->seconds <= 0)
        return 0;
    const double mfu = bench_mfu(w, w->seconds, l);
    const double mbu = (w->weight_bytes + w->kv_bytes) * 1e-9 / w->seconds / l->read_gb_s;
    return mfu > mbu ? mfu : mbu;
}

void bench_rows_by_time(const struct op_profile *p, int order[OP_ROWS_MAX])
{
    for (int i = 0; i < p->n_row; i++) {
        int at = i;
        for (; at > 0 && p->row[order[at - 1]].work.seconds < p->row[i].work.seconds; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static void limits_text(const struct limits *l, struct string_buffer *out)
{
    static const char *const name[N_PEAK_TYPES] = {"int8", "bf16", "f32"};
    string_buffer_printf(out, "limits   %s, %d thread%s\n", l->isa, l->n_threads, l->n_threads == 1 ? "" : "s");
    for (int i = 0; i < N_PEAK_TYPES; i++)
        if (l->gops[i] > 0)
            string_buffer_printf(out, "         %-5s %7.0f GOP/s  %s\n", name[i], l->gops[i], l->instruction[i]);
    string_buffer_printf(out, "         read  %7.1f GB/s   memory", l->read_gb_s);
    for (int i = 0; i < CPU_CACHE_LEVELS; i++)
        if (l->cache_gb_s[i] > 0)
            string_buffer_printf(out, "; L%d %.0f GB/s", i + 1, l->cache_gb_s[i]);
    string_buffer_puts(out, "\n");
}

static void machine_text(const struct machine_report *m, struct string_buffer *out)
{
    string_buffer_printf(out, "machine  clock %.2f GHz (%.2f to %.2f%s); other processes took %.0f %% of the CPUs", m->ghz,
                         m->ghz_min, m->ghz_max, m->throttled ? ": throttled" : "", 100 * m->other_share);
    string_buffer_printf(out, ", the hypervisor %.0f %%\n", 100 * m->steal_share);
}

static void model_text(const struct bench_summary *s, struct string_buffer *out)
{
    const struct model_info *info = model_info(s->model->model);
    string_buffer_printf(out, "model    %s, %s, %.1f M parameters", info->family, info->precision,
                         (double)info->n_parameter * 1e-6);
    if (info->n_expert > 0)
        string_buffer_printf(out, " (%.1f M of them used by a token: %d of %d experts)", (double)info->n_parameter_used * 1e-6,
                             info->n_expert_used, info->n_expert);
    string_buffer_printf(out, ", weights %.1f MB, keys and values %s\n", (double)info->weight_bytes * 1e-6, info->kv_type);
    string_buffer_printf(out, "         activations %.1f MB for %d rows%s\n", (double)info->activation_bytes * 1e-6,
                         info->max_row, s->model->device->unfused ? ", ops unfused" : "");
    string_buffer_printf(out, "         loaded in %.2f s; memory %.0f MB, at most %.0f MB\n", s->model->load_s,
                         (double)s->resident_bytes * 1e-6, (double)s->peak_bytes * 1e-6);
}

static void results_text(const struct bench_report *r, struct string_buffer *out)
{
    string_buffer_printf(out, "\n%-8s %5s %7s %6s %9s %9s %9s %8s %7s %6s %6s\n", "test", "batch", "tokens", "depth", "tok/s",
                         "min", "max", "GOP/s", "GB/s", "MFU %", "MBU %");
    for (int i = 0; i < r->n_result; i++) {
        const struct bench_result *c = &r->result[i];
        string_buffer_printf(out, "%-8s %5d %7d %6d %9.1f %9.1f %9.1f %8.1f %7.2f %6.1f %6.1f\n", bench_test_name(c->test),
                             c->batch, c->n_tokens, c->depth, c->tok_s.median, c->tok_s.min, c->tok_s.max, c->gops, c->gb_s,
                             100 * c->mfu, 100 * c->mbu);
    }
}

static void work_text(const struct op_work *w, double seconds, const struct limits *l, struct string_buffer *out)
{
    const double t = w->seconds > 0 ? w->seconds : 1;
    string_buffer_printf(out, " %8lld %9.2f %7.1f %8.1f %7.2f %8.1f\n", (long long)w->n_call, w->seconds * 1e3,
                         100 * w->seconds / seconds, op_work_ops(w) * 1e-9 / t, op_work_bytes(w) * 1e-9 / t,
                         100 * bench_row_share(w, l));
}

/* The spread over the layers; each stands in the JSON. */
static void layers_text(const struct bench_result *r, struct string_buffer *out)
{
    double ms[OP_LAYERS_MAX];
    const struct op_work *layer = r->profile->layer;
    int slowest = 1;
    for (int i = 1; i <= r->profile->n_layer; i++) {
        ms[i - 1] = layer[i].seconds * 1e3;
        slowest = layer[i].seconds > layer[slowest].seconds ? i : slowest;
    }
    if (r->profile->n_layer == 0)
        return;
    const struct spread s = spread_of(ms, r->profile->n_layer);
    string_buffer_printf(out, "%d layers: %.2f ms each (%.2f to %.2f, the slowest is %d); outside the layers %.2f ms\n",
                         r->profile->n_layer, s.median, s.min, s.max, slowest - 1, layer[0].seconds * 1e3);
}

static void work_columns(struct string_buffer *out)
{
    string_buffer_printf(out, " %8s %9s %7s %8s %7s %8s\n", "calls", "ms", "share %", "GOP/s", "GB/s", "limit %");
}

static void profile_text(const struct bench_result *r, const struct limits *l, struct string_buffer *out)
{
    const struct op_profile *p = r->profile;
    int order[OP_ROWS_MAX];
    bench_rows_by_time(p, order);
    string_buffer_printf(out, "\nprofile of %s, batch %d, %d tokens, depth %d: %.1f ms\n", bench_test_name(r->test), r->batch,
                         r->n_tokens, r->depth, r->profile_seconds * 1e3);
    string_buffer_printf(out, "%-12s %-18s %6s %7s", "op", "kernel", "in", "out");
    work_columns(out);
    for (int i = 0; i < p->n_row; i++) {
        const struct op_row *row = &p->row[order[i]];
        string_buffer_printf(out, "%-12s %-18s %6d %7d", op_kind_name(row->kind), row->kernel != NULL ? row->kernel : "",
                             row->n_in, row->n_out);
        work_text(&row->work, r->profile_seconds, l, out);
    }
    const double between = r->profile_seconds - p->total.seconds;
    string_buffer_printf(out, "%-46s %8s %9.2f %7.1f\n", "between the ops", "", between * 1e3,
                         100 * between / r->profile_seconds);
    layers_text(r, out);
}

static void kernels_text(const struct bench_summary *s, struct string_buffer *out)
{
    string_buffer_printf(out, "\n%-20s %6s %6s %5s %11s %8s %7s %6s %6s\n", "kernel", "in", "out", "rows", "us", "GOP/s",
                         "GB/s", "MFU %", "MBU %");
    for (int i = 0; i < s->n_kernel; i++) {
        const struct kernel_figure *k = &s->kernel[i];
        string_buffer_printf(out, "%-20s %6d %6d %5d %11.1f %8.1f %7.2f %6.1f %6.1f\n", k->kernel, k->n_in, k->n_out, k->n_row,
                             k->seconds * 1e6, k->gops, k->gb_s, 100 * k->mfu, 100 * k->mbu);
    }
}

static void pipelines_text(const struct bench_summary *s, struct string_buffer *out)
{
    string_buffer_printf(
        out,
        "\nLayerNorm, GELU, Linear: the first two as one kernel, and step by step\n%-20s %6s %6s %11s %11s %7s %9s %9s %7s\n",
        "kernel", "rows", "width", "fused us", "unfused us", "time %", "fused MB", "unfused", "MB %");
    for (int i = 0; i < s->n_pipeline; i++) {
        const struct pipeline_figure *p = &s->pipeline[i];
        string_buffer_printf(out, "%-20s %6d %6d %11.1f %11.1f %7.1f %9.2f %9.2f %7.1f\n", p->kernel, p->n_row, p->n,
                             p->fused_s * 1e6, p->unfused_s * 1e6, 100 * p->fused_s / p->unfused_s,
                             (double)p->fused_bytes * 1e-6, (double)p->unfused_bytes * 1e-6,
                             100 * (double)p->fused_bytes / (double)p->unfused_bytes);
    }
}

/* Tokens a second of each case, and how many times those of the stage before. */
static void ablation_text(const struct bench_summary *s, struct string_buffer *out)
{
    const struct ablation_stage *first = &s->ablation[0];
    string_buffer_printf(out, "\ntok/s as one technique joins the others (times what was before)\n%-10s %-11s %7s", "stage",
                         "isa", "threads");
    for (int i = 0; i < first->report.n_result; i++) {
        char title[64];
        const struct bench_result *c = &first->report.result[i];
        snprintf(title, sizeof title, "%s %dx%d at %d", bench_test_name(c->test), c->batch, c->n_tokens, c->depth);
        string_buffer_printf(out, "  %24s", title);
    }
    string_buffer_puts(out, "\n");
    for (int i = 0; i < s->n_ablation; i++) {
        const struct ablation_stage *a = &s->ablation[i], *before = &s->ablation[i > 0 ? i - 1 : 0];
        string_buffer_printf(out, "%-10s %-11s %7d", a->name, a->isa, a->n_threads);
        for (int j = 0; j < a->report.n_result; j++) {
            const double now = a->report.result[j].tok_s.median, then = before->report.result[j].tok_s.median;
            string_buffer_printf(out, "  %15.1f (%5.2fx)", now, now / then);
        }
        string_buffer_puts(out, "\n");
    }
}

void bench_text(const struct bench_summary *s, struct string_buffer *out)
{
    limits_text(s->limits, out);
    machine_text(&s->machine, out);
    if (s->model != NULL)
        model_text(s, out);
    if (s->n_kernel > 0)
        kernels_text(s, out);
    if (s->n_pipeline > 0)
        pipelines_text(s, out);
    if (s->n_ablation > 0)
        ablation_text(s, out);
    if (s->report == NULL)
        return;
    if (s->report->n_result > 0)
        results_text(s->report, out);
    for (int i = 0; i < s->report->n_result; i++)
        if (s->report->result[i].profile != NULL)
            profile_text(&s->report->result[i], s->limits, out);
}
