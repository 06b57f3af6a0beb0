/* tune_report.c: what was measured as a table, and as a deployment file. */
#include <string.h>

#include "measure/tune.h"

static void report_precision(const struct tune_precision *p, bool is_chosen, struct string_buffer *out)
{
    if (p->name == NULL)
        return;
    if (!p->is_measured) {
        string_buffer_printf(out, "  %-6s left out: %s\n", p->name, p->reason[0] != '\0' ? p->reason : "interrupted");
        return;
    }
    const struct tune_batch *best = &p->batch[p->best >= 0 ? p->best : 0];
    string_buffer_printf(out, "%s %-6s %7.0f MB  %8.4f  %10.2f  %9.0f ms  %7.0f  %6d  %8.0f  %6.1f ms%s\n",
                         is_chosen ? "*" : " ", p->name, (double)p->weight_bytes / 1e6, p->kl, p->perplexity, p->ttft_ms,
                         p->batch[0].tok_s, best->n, best->tok_s, best->itl_p99_ms, p->best < 0 ? "  (too slow)" : "");
}

static void report_rates(const char *what, const struct tune_rate *rate, int n, int chosen, struct string_buffer *out)
{
    if (n == 0)
        return;
    string_buffer_printf(out, "%s", what);
    for (int i = 0; i < n; i++)
        string_buffer_printf(out, "%s %s%d: %.0f", i > 0 ? "," : "", rate[i].n == chosen ? "*" : "", rate[i].n, rate[i].tok_s);
    string_buffer_puts(out, "\n");
}

void tune_report(const struct tune_result *r, const struct tune_options *o, struct string_buffer *out)
{
    string_buffer_puts(out, "  precision weights        KL  perplexity  first token  tok/s 1   batch    tok/s   P99 gap\n");
    for (int i = MR_PRECISION_FP32; i < MR_N_PRECISIONS; i++)
        report_precision(&r->precision[i], i == r->chosen, out);
    report_rates("rows of a prompt in a step, tokens/s:", r->chunk, r->n_chunk, r->prompt_chunk, out);
    report_rates("threads, tokens/s:", r->threads, r->n_threads, r->n_thread, out);
    string_buffer_printf(
        out,
        "first token: behind %d tokens, alone (target %d ms); batch: the fastest with 99 of 100 gaps within %d ms; "
        "KL: against the first row, at most %g\n",
        TUNE_PROMPT, o->latency_target_ms, o->itl_target_ms, o->max_kl);
    if (r->chosen != MR_PRECISION_AUTO && !r->is_within)
        string_buffer_puts(out, "no setting keeps all targets: * is the nearest\n");
}

void tune_write_deployment(const struct tune_result *r, const struct tune_options *o, struct string_buffer *out)
{
    const struct tune_precision *p = &r->precision[r->chosen];
    string_buffer_puts(out, "# Measured by `millrace tune`; `millrace serve --config` reads it.\nmodel: ");
    string_buffer_quote(out, o->model);
    string_buffer_printf(out,
                         "\nprecision: %s\nthreads: %d\nmax_batch_size: %d\nprompt_chunk: %d\n"
                         "scheduler: {latency_target_ms: %d, itl_target_ms: %d}\n",
                         p->name, r->n_thread, r->max_batch_size, r->prompt_chunk, o->latency_target_ms, o->itl_target_ms);
}
