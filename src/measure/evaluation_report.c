/* evaluation_report.c: evaluations of several models side by side. */
#include <math.h>

#include "measure/evaluation.h"
#include "measure/scatter_plot.h"

static const double z = 1.959963984540054; /* 95 % of a normal distribution lie within so many standard errors */

static void header(const struct evaluation *e, struct string_buffer *out)
{
    int n_column = 3;
    string_buffer_puts(out, "| model | precision | file MB |");
    if (e->has_text) {
        string_buffer_puts(out, " perplexity |");
        n_column++;
    }
    if (e->has_base) {
        string_buffer_puts(out, " change | KL, nats | same top token |");
        n_column += 3;
    }
    for (int i = 0; i < e->n_task; i++) {
        if (e->task[i].n_choice_items > 0)
            string_buffer_printf(out, " %s acc | acc_norm |", e->task_name[i]);
        if (e->task[i].n_generated_items > 0)
            string_buffer_printf(out, " %s exact |", e->task_name[i]);
        n_column += 2 * (e->task[i].n_choice_items > 0) + (e->task[i].n_generated_items > 0);
    }
    string_buffer_puts(out, "\n|---|---|");
    for (int i = 2; i < n_column; i++)
        string_buffer_puts(out, "--:|");
    string_buffer_puts(out, "\n");
}

static void rate(const struct task_rate *r, struct string_buffer *out)
{
    string_buffer_printf(out, " %.1f %% (%.1f to %.1f) |", 100 * r->rate, 100 * r->low, 100 * r->high);
}

static void row(const struct evaluation *e, struct string_buffer *out)
{
    string_buffer_printf(out, "| %s | %s | %.1f |", e->name, e->precision, (double)e->file_bytes / 1e6);
    if (e->has_text)
        string_buffer_printf(out, " %.4f ± %.4f |", e->text.perplexity, e->text.perplexity * z * e->text.nll.error);
    if (e->has_base)
        string_buffer_printf(out, " %+.2f ± %.2f %% | %.5f ± %.5f | %.2f ± %.2f %% |", 100 * expm1(e->text.change.mean),
                             100 * z * e->text.change.error, e->text.kl.mean, z * e->text.kl.error, 100 * e->text.same_top.mean,
                             100 * z * e->text.same_top.error);
    for (int i = 0; i < e->n_task; i++) {
        if (e->task[i].n_choice_items > 0) {
            rate(&e->task[i].acc, out);
            rate(&e->task[i].acc_norm, out);
        }
        if (e->task[i].n_generated_items > 0)
            rate(&e->task[i].exact, out);
    }
    string_buffer_puts(out, "\n");
}

void evaluation_table(const struct evaluation *e, int n, struct string_buffer *out)
{
    header(e, out);
    for (int i = 0; i < n; i++)
        row(&e[i], out);
}

static struct scatter_point point_of(const struct evaluation *e)
{
    struct scatter_point p = {.x = (double)e->file_bytes / 1e6, .label = e->name};
    if (e->has_text) {
        p.y = e->text.perplexity;
        p.low = p.y * exp(-z * (e->has_base ? e->text.change.error : e->text.nll.error));
        p.high = p.y * exp(z * (e->has_base ? e->text.change.error : e->text.nll.error));
    } else if (e->n_task > 0) {
        const struct task_rate *r = e->task[0].n_choice_items > 0 ? &e->task[0].acc : &e->task[0].exact;
        p.y = 100 * (1 - r->rate);
        p.low = 100 * (1 - r->high);
        p.high = 100 * (1 - r->low);
    }
    return p;
}

void evaluation_plot(const struct evaluation *e, int n, struct string_buffer *out)
{
    struct scatter_point points[SCATTER_POINTS_MAX];
    const struct scatter_plot plot = {.title = "Quality over size",
                                      .x_label = "file, MB",
                                      .y_label = e->has_text ? "perplexity" : "wrong answers, %",
                                      .point = points,
                                      .n = n < SCATTER_POINTS_MAX ? n : SCATTER_POINTS_MAX};
    for (int i = 0; i < plot.n; i++)
        points[i] = point_of(&e[i]);
    scatter_plot_svg(&plot, out);
}
