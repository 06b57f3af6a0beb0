/* eval_command.c: `millrace eval`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/command.h"
#include "cli/eval_json.h"
#include "cli/eval_tasks.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/read_input.h"
#include "cli/write_output.h"

enum {
    MODELS_MAX = 32
};

struct eval_arguments {
    const char *file, *base, *plot, *log_samples;
    struct argument_list tasks;
    int stride;
    bool json;
};

#define FIELD(f) offsetof(struct eval_arguments, f)

static const struct argument eval_argument[] = {
    {.name = "file",
     .letter = 'f',
     .value = "FILE",
     .help = "A text, for perplexity; - reads standard input",
     .parse = argument_string,
     .offset = FIELD(file)},
    {.name = "base",
     .value = "FILE",
     .help = "Compare what each model predicts along the text with this one, computed in fp32: KL divergence, same top token",
     .parse = argument_string,
     .offset = FIELD(base)},
    {.name = "tasks",
     .value = "FILE",
     .help = "A task, as JSON lines in the form of lm-eval's --log_samples; may be given more than once",
     .parse = argument_append,
     .offset = FIELD(tasks)},
    {.name = "log-samples",
     .value = "FILE",
     .help =
         "Write how each item of the tasks came out, as JSON lines: the log-likelihoods of its continuations, or the answer",
     .parse = argument_string,
     .offset = FIELD(log_samples)},
    {.name = "stride",
     .value = "N",
     .help = "Tokens that each window of the text scores (default: half a window)",
     .parse = argument_int,
     .offset = FIELD(stride),
     .low = 1,
     .high = 1 << 24},
    {.name = "plot", .value = "FILE", .help = "Draw quality over size (SVG)", .parse = argument_string, .offset = FIELD(plot)},
    {.name = "json", .help = "Print JSON instead of the table", .parse = argument_flag, .offset = FIELD(json)},
    {0}};

/* "models/x.gguf" is called x. */
static void name_of(char *out, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *stem = slash != NULL ? slash + 1 : path;
    const char *end = strstr(stem, ".gguf");
    snprintf(out, EVALUATION_NAME_BYTES, "%.*s", end != NULL && end - stem < 63 ? (int)(end - stem) : 63, stem);
}

struct audience {
    struct progress_bar bar;
    const char *model;           /* at work */
    struct string_buffer *lines; /* of --log-samples; NULL: none are asked for */
};

static bool go_on(void *context, const char *what, int64_t done, int64_t total)
{
    struct audience *a = context;
    return progress_bar_show(&a->bar, what, done, total);
}

static void hear(void *context, const char *task, const struct task_sample *sample)
{
    const struct audience *a = context;
    if (a->lines != NULL)
        eval_sample_line(a->lines, a->model, task, sample);
}

static enum mr_status open_file(struct mr_model **out, const char *path, int precision, const struct model_arguments *m,
                                struct mr_error *err)
{
    struct model_arguments a = *m;
    struct mr_options options;
    a.model = path;
    a.precision = precision;
    load_options(&options, &a);
    return load_model(out, &a, &options, err);
}

static enum mr_status evaluate_all(struct evaluation *out, const char *const *path, int n, struct evaluation_plan *plan,
                                   const char *base, struct string_buffer *lines, const struct model_arguments *m,
                                   struct mr_error *err)
{
    struct mr_model *model;
    struct audience audience = {.lines = lines};
    progress_bar_begin(&audience.bar);
    plan->go_on = go_on;
    plan->hear = hear;
    plan->context = &audience;
    enum mr_status status = base != NULL ? open_file(&plan->base, base, MR_PRECISION_FP32, m, err) : MR_OK;
    for (int i = 0; i < n && status == MR_OK; i++) {
        name_of(out[i].name, path[i]);
        audience.model = out[i].name;
        status = open_file(&model, path[i], m->precision, m, err);
        if (status != MR_OK)
            break;
        status = evaluate(&out[i], model, plan, err);
        progress_bar_end(&audience.bar);
        mr_model_close(model);
        if (status != MR_OK && status != MR_CANCELLED)
            mr_fail_in(err, status, "%s", path[i]);
    }
    mr_model_close(plan->base);
    return status;
}

static enum mr_status draw(const struct evaluation *e, int n, const char *path, struct mr_error *err)
{
    struct string_buffer plot;
    string_buffer_init(&plot);
    evaluation_plot(e, n, &plot);
    const enum mr_status status = write_output(path, &plot, err);
    string_buffer_release(&plot);
    return status;
}

static int print(const struct evaluation *e, int n, bool json, const char *command)
{
    struct string_buffer text;
    if (json)
        return output_json(command, eval_json(e, n), JSON_INDENT(1) | JSON_REAL_PRECISION(10));
    string_buffer_init(&text);
    evaluation_table(e, n, &text);
    const int status = output_text(command, &text);
    string_buffer_release(&text);
    return status;
}

static int eval(const struct eval_arguments *a, const struct model_arguments *m, const char *const *path, int n,
                const char *command)
{
    struct mr_error err = {{0}};
    struct string_buffer text, lines;
    struct eval_tasks tasks = {0};
    struct evaluation *e = mem_zero_array((size_t)n, sizeof *e);
    string_buffer_init(&text);
    string_buffer_init(&lines);
    interrupt_install();
    enum mr_status status = e != NULL ? eval_tasks_read(&tasks, &a->tasks, &err) : mr_fail(&err, MR_NO_MEMORY, "no memory");
    if (status == MR_OK && a->file != NULL)
        status = read_input(&text, a->file, &err);
    struct evaluation_plan plan = {.text = a->file == NULL  ? NULL
                                           : text.s != NULL ? text.s
                                                            : "",
                                   .n_text = text.n,
                                   .window = m->ctx_size,
                                   .stride = a->stride,
                                   .task = tasks.task,
                                   .task_name = tasks.name,
                                   .n_task = tasks.n};
    if (status == MR_OK)
        status = evaluate_all(e, path, n, &plan, a->base, a->log_samples != NULL ? &lines : NULL, m, &err);
    if (status == MR_OK && a->log_samples != NULL)
        status = write_output(a->log_samples, &lines, &err);
    if (status == MR_OK && a->plot != NULL)
        status = draw(e, n, a->plot, &err);
    const int result = status == MR_OK ? print(e, n, a->json, command) : output_fail_status(command, status, &err);
    eval_tasks_release(&tasks);
    string_buffer_release(&text);
    string_buffer_release(&lines);
    free(e);
    return result;
}

int command_eval(int argc, char **argv)
{
    const char *path[MODELS_MAX] = {NULL};
    struct eval_arguments a = {0};
    struct model_arguments m = {0};
    const struct argument_group groups[] = {{"Measures:", eval_argument, &a}, {NULL, compute_argument, &m}};
    const struct command_line line = {
        .operands = "MODEL...",
        .summary = "Measure what models are worth: perplexity of a text, KL divergence from a base model, right answers to "
                   "tasks; all with 95 % intervals.",
        .example = "  millrace eval small.gguf smaller.gguf --base full.gguf -f text.txt --plot quality.svg\n"
                   "  millrace eval model.gguf --tasks samples_arc_easy.jsonl --json",
        .operand = path,
        .min_operands = 1,
        .max_operands = MODELS_MAX,
        .group = groups,
        .n_groups = 2};
    const int stop = arguments_parse(argc, argv, &line);
    int n = 0;
    if (stop != ARGUMENTS_GO_ON)
        return stop;
    while (n < MODELS_MAX && path[n] != NULL)
        n++;
    if (a.file == NULL && a.tasks.n == 0)
        return arguments_fail(argv[0], "nothing to measure: give a text (--file) or tasks (--tasks)");
    if (a.base != NULL && a.file == NULL)
        return arguments_fail(argv[0], "--base: models are compared along a text (--file)");
    if (a.log_samples != NULL && a.tasks.n == 0)
        return arguments_fail(argv[0], "--log-samples: there are no items without tasks (--tasks)");
    const int window = m.ctx_size > 0 ? m.ctx_size : EVALUATION_WINDOW;
    if (window < 3 || a.stride > window - 2)
        return arguments_fail(argv[0], "--stride: %d is not from 1 to %d, two tokens less than the window", a.stride,
                              window - 2);
    return eval(&a, &m, path, n, argv[0]);
}
