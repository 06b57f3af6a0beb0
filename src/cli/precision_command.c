/* precision_command.c: `millrace precision`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/command.h"
#include "cli/eval_tasks.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/precision_ladder.h"
#include "cli/precision_report.h"
#include "cli/read_input.h"
#include "cli/write_output.h"
#include "format/gguf.h"

struct precision_arguments {
    const char *calibrate, *file, *output;
    struct argument_list tasks;
    double max_drop;
    bool keep, json;
};

#define FIELD(f) offsetof(struct precision_arguments, f)

/* "1%" or "0.01". */
static enum mr_status argument_share(void *field, const char *given, const struct argument *a, struct mr_error *err)
{
    char *end;
    double v = strtod(given, &end);
    if (end != given && strcmp(end, "%") == 0) {
        v /= 100;
        end++;
    }
    if (end == given || *end != '\0' || !(v >= a->low && v <= a->high))
        return mr_fail(err, MR_BAD_INPUT, "'%s' is not a share from 0 to 1, or 0%% to 100%%", given);
    *(double *)field = v;
    return MR_OK;
}

static const struct argument precision_argument[] = {
    {.name = "calibrate",
     .value = "FILE",
     .help = "A text for the statistics that lead quantisation",
     .parse = argument_string,
     .offset = FIELD(calibrate)},
    {.name = "tasks",
     .value = "FILE",
     .help = "A task, as JSON lines in the form of lm-eval's --log_samples; may be given more than once",
     .parse = argument_append,
     .offset = FIELD(tasks)},
    {.name = "file",
     .letter = 'f',
     .value = "FILE",
     .help = "A text to measure perplexity and KL divergence with; not the one of --calibrate",
     .parse = argument_string,
     .offset = FIELD(file)},
    {.name = "max-drop",
     .value = "SHARE",
     .help = "What a step may lose of fp32's accuracy, or add to its perplexity where there are no tasks (default: 1%)",
     .parse = argument_share,
     .offset = FIELD(max_drop),
     .low = 0,
     .high = 1},
    {.name = "output",
     .letter = 'o',
     .value = "FOLDER",
     .help = "Report, models and deployment file; a run that was interrupted goes on from there",
     .parse = argument_string,
     .offset = FIELD(output)},
    {.name = "keep", .help = "Keep the models of all steps", .parse = argument_flag, .offset = FIELD(keep)},
    {.name = "json", .help = "Print the report as JSON", .parse = argument_flag, .offset = FIELD(json)},
    {0}};

/* A file as part of what the figures depend on. */
static json_t *file_json(const char *path)
{
    struct stat st;
    if (path == NULL || stat(path, &st) != 0)
        return json_null();
    return json_pack("{s:s,s:I,s:I}", "path", path, "bytes", (json_int_t)st.st_size, "changed", (json_int_t)st.st_mtime);
}

/* Whether a tensor has 8 bits a weight or fewer, scales left out. */
static enum mr_status is_quantised(bool *out, const char *path, struct mr_error *err)
{
    struct gguf *g;
    *out = false;
    MR_TRY(gguf_open(&g, path, err));
    for (int i = 0; i < gguf_n_tensors(g); i++)
        *out |= gguf_tensor_at(g, i)->quant->block > 1;
    gguf_close(g);
    return MR_OK;
}

static json_t *run_json(const struct precision_arguments *a, const struct model_arguments *m, bool quantised)
{
    const char *slash = strrchr(m->model, '/');
    json_t *tasks = json_array();
    for (int i = 0; i < a->tasks.n; i++)
        json_array_append_new(tasks, file_json(a->tasks.s[i]));
    return json_pack("{s:s,s:b,s:f,s:i,s:o,s:o,s:o,s:o}", "name", slash != NULL ? slash + 1 : m->model, "is_quantised",
                     quantised, "max_drop", a->max_drop, "threads", m->threads, "model", file_json(m->model), "calibrate",
                     file_json(a->calibrate), "text", file_json(a->file), "tasks", tasks);
}

/* The report of before where it is of the same run, else an empty one. */
static enum mr_status resume(struct ladder *l, json_t *run, struct mr_error *err)
{
    struct string_buffer path;
    json_error_t why;
    string_buffer_init(&path);
    ladder_path(&path, l, "report", ".json");
    json_t *before = path.s != NULL ? json_load_file(path.s, 0, &why) : NULL;
    json_t *steps = json_object_get(before, "steps");
    enum mr_status status = MR_OK;
    if (json_is_array(steps) && json_equal(json_object_get(before, "run"), run)) {
        l->state = json_incref(before);
    } else if (json_array_size(steps) > 0) {
        status = mr_fail(err, MR_BAD_INPUT, "'%s' is of another model, text, task or option: give another folder", path.s);
    } else {
        ladder_forget(l);
        l->state = json_pack("{s:O,s:[]}", "run", run, "steps");
        status = l->state != NULL ? MR_OK : mr_fail(err, MR_NO_MEMORY, "no memory for the report");
    }
    json_decref(before);
    string_buffer_release(&path);
    return status;
}

static enum mr_status write_one(const struct ladder *l, const char *name, const char *suffix, const struct string_buffer *s,
                                struct mr_error *err)
{
    struct string_buffer path;
    string_buffer_init(&path);
    ladder_path(&path, l, name, suffix);
    const enum mr_status status =
        path.failed ? mr_fail(err, MR_NO_MEMORY, "no memory for a name") : write_output(path.s, s, err);
    string_buffer_release(&path);
    return status;
}

/* report.json last where there is more: what it tells of is there. */
static enum mr_status save(const struct ladder *l, struct mr_error *err)
{
    struct string_buffer s;
    string_buffer_init(&s);
    precision_report(l->state, &s);
    enum mr_status status = write_one(l, "report", ".md", &s, err);
    string_buffer_clear(&s);
    if (status == MR_OK && json_array_size(json_object_get(l->state, "steps")) > 0) {
        precision_plot(l->state, &s);
        status = write_one(l, "report", ".svg", &s, err);
    }
    string_buffer_clear(&s);
    precision_deployment(l->state, l->folder, &s);
    if (status == MR_OK && s.n > 0)
        status = write_one(l, "deployment", ".yaml", &s, err);
    string_buffer_clear(&s);
    char *dump = json_dumps(l->state, JSON_INDENT(1) | JSON_REAL_PRECISION(10));
    s.failed = s.failed || dump == NULL;
    if (dump != NULL)
        string_buffer_printf(&s, "%s\n", dump);
    free(dump);
    if (status == MR_OK)
        status = write_one(l, "report", ".json", &s, err);
    string_buffer_release(&s);
    return status;
}

static int print(const struct ladder *l, bool json, const char *command)
{
    struct string_buffer s;
    if (json)
        return output_json(command, json_incref(l->state), JSON_INDENT(1) | JSON_REAL_PRECISION(10));
    string_buffer_init(&s);
    precision_report(l->state, &s);
    const int status = output_text(command, &s);
    string_buffer_release(&s);
    return status;
}

static enum mr_status run_ladder(struct ladder *l, const struct precision_arguments *a, struct mr_error *err)
{
    bool quantised;
    MR_TRY(is_quantised(&quantised, l->model->model, err));
    if (mkdir(l->folder, 0777) != 0 && errno != EEXIST)
        return mr_fail(err, MR_IO, "cannot make folder '%s': %s", l->folder, strerror(errno));
    json_t *run = run_json(a, l->model, quantised);
    enum mr_status status = run != NULL ? resume(l, run, err) : mr_fail(err, MR_NO_MEMORY, "no memory for the report");
    json_decref(run);
    if (status == MR_OK)
        status = save(l, err);
    if (status == MR_OK)
        status = ladder_run(l, save, err);
    return status == MR_OK ? save(l, err) : status;
}

static int precision(const struct precision_arguments *a, const struct model_arguments *m, const char *command)
{
    struct mr_error err = {{0}};
    struct string_buffer calibration, text;
    struct eval_tasks tasks = {0};
    string_buffer_init(&calibration);
    string_buffer_init(&text);
    interrupt_install();
    enum mr_status status = eval_tasks_read(&tasks, &a->tasks, &err);
    if (status == MR_OK)
        status = read_file(&calibration, a->calibrate, &err);
    if (status == MR_OK && a->file != NULL)
        status = read_file(&text, a->file, &err);
    struct ladder l = {.model = m,
                       .folder = a->output,
                       .calibration = &calibration,
                       .calibration_name = a->calibrate,
                       .max_drop = a->max_drop,
                       .keep = a->keep,
                       .plan = {.text = a->file == NULL  ? NULL
                                        : text.s != NULL ? text.s
                                                         : "",
                                .n_text = text.n,
                                .task = tasks.task,
                                .task_name = tasks.name,
                                .n_task = tasks.n}};
    if (status == MR_OK)
        status = run_ladder(&l, a, &err);
    const int result = status == MR_OK ? print(&l, a->json, command) : output_fail_status(command, status, &err);
    json_decref(l.state);
    eval_tasks_release(&tasks);
    string_buffer_release(&calibration);
    string_buffer_release(&text);
    return result;
}

int command_precision(int argc, char **argv)
{
    struct precision_arguments a = {.max_drop = 0.01};
    struct model_arguments m = {0};
    static const struct argument threads[] = {{.name = "threads",
                                               .letter = 't',
                                               .value = "N",
                                               .help = "Threads that compute (default: one for each CPU)",
                                               .parse = argument_int,
                                               .offset = offsetof(struct model_arguments, threads),
                                               .low = 1,
                                               .high = 1024},
                                              {0}};
    const struct argument_group groups[] = {
        {"Model:", model_argument, &m}, {NULL, threads, &m}, {"Ladder:", precision_argument, &a}};
    const struct command_line line = {
        .summary = "Take a model from fp32 to fp16, int8 and int4, then to mixes, bf16 beside them; measure accuracy, speed, "
                   "first token and memory of each step, stop where too much is lost, and write what to deploy.",
        .example = "  millrace precision -m model-f16.gguf --calibrate text.txt --tasks samples_arc_easy.jsonl --max-drop 1% "
                   "-o ladder\n"
                   "  millrace serve --config ladder/deployment.yaml",
        .group = groups,
        .n_groups = 3};
    int status = arguments_parse(argc, argv, &line);
    if (status == ARGUMENTS_GO_ON)
        status = model_arguments_check(&m, argv[0]);
    if (status != ARGUMENTS_GO_ON)
        return status;
    if (a.calibrate == NULL)
        return arguments_fail(argv[0], "--calibrate: a text is required");
    if (a.output == NULL)
        return arguments_fail(argv[0], "-o, --output: a folder is required");
    if (a.tasks.n == 0 && a.file == NULL)
        return arguments_fail(argv[0], "nothing to measure: give tasks (--tasks), a text (--file), or both");
    return precision(&a, &m, argv[0]);
}
