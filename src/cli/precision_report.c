/* precision_report.c: table, plot, deployment file. */
#include "cli/precision_report.h"

#include <math.h>
#include <stdlib.h>

#include "cli/precision_ladder.h"
#include "measure/scatter_plot.h"

static const double z = 1.959963984540054; /* 95 % of a normal distribution lie within so many standard errors */

static double number(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }
static const char *text(const json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }
static bool has(const json_t *o, const char *key) { return json_object_get(o, key) != NULL; }

static const json_t *of_text(const json_t *step)
{
    return json_object_get(json_array_get(json_object_get(step, "evaluation"), 0), "text");
}

static void row(const json_t *s, struct string_buffer *out)
{
    const json_t *t = of_text(s), *kl = json_object_get(t, "kl");
    string_buffer_printf(out, "| %s | %s | %s | %.1f | %.1f | %.1f | %.0f |", text(s, "name"), text(s, "type"),
                         text(s, "precision"), number(s, "weight_bytes") / 1e6, number(s, "peak_bytes") / 1e6,
                         number(s, "tok_s"), number(s, "ttft_ms"));
    if (has(s, "accuracy"))
        string_buffer_printf(out, " %.2f ± %.2f %% |", 100 * number(s, "accuracy"), 100 * z * number(s, "accuracy_stderr"));
    if (t != NULL)
        string_buffer_printf(out, " %.4f | %.5f |", number(s, "perplexity"), kl != NULL ? number(kl, "mean") : 0.0);
    string_buffer_printf(out, " %.2f %%%s |\n", 100 * number(s, "drop"),
                         json_is_true(json_object_get(s, "is_within")) ? "" : ", too much");
}

static void conclude(const json_t *state, bool by_tasks, struct string_buffer *out)
{
    const json_t *run = json_object_get(state, "run");
    const char *name = text(state, "deploy");
    const json_t *s = name != NULL ? ladder_step(state, name) : NULL, *base = ladder_step(state, "fp32");
    const double most = 100 * number(run, "max_drop");
    if (!has(state, "deploy"))
        string_buffer_puts(out, "\nThe run was interrupted; the same command goes on with it.\n");
    else if (s == NULL)
        string_buffer_printf(out, "\nNo step stays within %g %%.\n", most);
    else
        string_buffer_printf(out,
                             "\n**Deploy %s**: the smallest step that loses no more than %g %%. Weights of %.1f MB instead of "
                             "%.1f, %.2f times fp32's tokens a second.\n",
                             name, most, number(s, "weight_bytes") / 1e6, number(base, "weight_bytes") / 1e6,
                             number(base, "tok_s") > 0 ? number(s, "tok_s") / number(base, "tok_s") : 0.0);
    string_buffer_printf(
        out,
        "\nLost: %s fp32. Tokens/s and first token: one answer alone, behind a prompt of %d tokens. "
        "Peak: of the process while it answers.\n",
        by_tasks ? "share of the accuracy (the mean over the tasks) of" : "rise of the perplexity over that of", LADDER_PROMPT);
    if (json_is_true(json_object_get(run, "is_quantised")))
        string_buffer_puts(out,
                           "\nThe given file has weights of 8 bits or fewer: fp32 here is that file dequantised, already on "
                           "its grid, so that steps of the same grid lose less than they would from weights off any grid.\n");
}

void precision_report(const json_t *state, struct string_buffer *out)
{
    const json_t *steps = json_object_get(state, "steps"), *first = json_array_get(steps, 0);
    const bool by_tasks = has(first, "accuracy"), with_text = of_text(first) != NULL;
    string_buffer_printf(out, "# Precisions of %s\n\n", text(json_object_get(state, "run"), "name"));
    string_buffer_printf(out, "| step | file | arithmetic | weights MB | peak MB | tokens/s | first token ms |%s%s lost |\n",
                         by_tasks ? " accuracy |" : "", with_text ? " perplexity | KL, nats |" : "");
    string_buffer_printf(out, "|---|---|---|--:|--:|--:|--:|%s%s--:|\n", by_tasks ? "--:|" : "", with_text ? "--:|--:|" : "");
    for (size_t i = 0; i < json_array_size(steps); i++)
        row(json_array_get(steps, i), out);
    conclude(state, by_tasks, out);
    if (first != NULL)
        string_buffer_puts(out, "\n![What each step is worth over its weights](report.svg)\n");
}

void precision_plot(const json_t *state, struct string_buffer *out)
{
    struct scatter_point point[SCATTER_POINTS_MAX];
    const json_t *steps = json_object_get(state, "steps");
    const bool by_tasks = has(json_array_get(steps, 0), "accuracy");
    const int n = (int)json_array_size(steps);
    const struct scatter_plot plot = {.title = "Precisions",
                                      .x_label = "weights, MB",
                                      .y_label = by_tasks ? "accuracy, %" : "perplexity",
                                      .point = point,
                                      .n = n < SCATTER_POINTS_MAX ? n : SCATTER_POINTS_MAX};
    for (int i = 0; i < plot.n; i++) {
        const json_t *s = json_array_get(steps, (size_t)i), *change = json_object_get(of_text(s), "nll_change");
        const double y = by_tasks ? 100 * number(s, "accuracy") : number(s, "perplexity");
        const double e = by_tasks ? 100 * z * number(s, "accuracy_stderr") : y * z * number(change, "stderr");
        point[i] = (struct scatter_point){number(s, "weight_bytes") / 1e6, y, y - e, y + e, text(s, "name")};
    }
    scatter_plot_svg(&plot, out);
}

void precision_deployment(const json_t *state, const char *folder, struct string_buffer *out)
{
    const char *name = text(state, "deploy");
    if (name == NULL)
        return;
    char *whole = realpath(folder, NULL);
    struct string_buffer path;
    string_buffer_init(&path);
    string_buffer_printf(&path, "%s/%s.gguf", whole != NULL ? whole : folder, name);
    string_buffer_puts(out, "# Written by `millrace precision`; `millrace serve --config` reads it.\nmodel: ");
    string_buffer_quote(out, path.s != NULL ? path.s : "");
    string_buffer_printf(out, "\nprecision: %s\n", text(ladder_step(state, name), "precision"));
    out->failed = out->failed || path.failed;
    string_buffer_release(&path);
    free(whole);
}
