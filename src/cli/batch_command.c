/* batch_command.c: `millrace batch`: a file of requests, answered without a server. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/batch_progress.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/load.h"
#include "cli/output.h"
#include "server/batch/batch_job.h"
#include "server/batch/batch_run.h"
#include "server/server.h"
#include "server/settings.h"

enum {
    EXIT_LINES_FAILED = 3,
    AHEAD = 2 /* times max_batch_size: lines that the engine has, so that it never waits for one */
};

struct batch_arguments {
    const char *input, *output, *errors, *state, *alias;
    int max_batch_size;
    bool keep_going, overwrite, quiet;
};

#define FIELD(name) offsetof(struct batch_arguments, name)

static const struct argument rows[] = {
    {.name = "output",
     .letter = 'o',
     .value = "FILE",
     .help = "Answers, in the order of the requests",
     .parse = argument_string,
     .offset = FIELD(output)},
    {.name = "errors",
     .letter = 'e',
     .value = "FILE",
     .help = "Requests that were refused (default: OUTPUT.errors)",
     .parse = argument_string,
     .offset = FIELD(errors)},
    {.name = "state-dir",
     .value = "DIR",
     .help = "Where results are kept until all are there (default: OUTPUT.state)",
     .parse = argument_string,
     .offset = FIELD(state)},
    {.name = "keep-going",
     .help = "Lines that are no requests fail like refused ones; else nothing is run where there are any",
     .parse = argument_flag,
     .offset = FIELD(keep_going)},
    {.name = "overwrite",
     .help = "Begin where the output is there already, and replace it at the end",
     .parse = argument_flag,
     .offset = FIELD(overwrite)},
    {.name = "alias",
     .value = "NAME",
     .help = "The model's name in the requests (default: the file's name without .gguf)",
     .parse = argument_string,
     .offset = FIELD(alias)},
    {.name = "max-batch-size",
     .value = "N",
     .help = "Answers that run at a time (default: 32)",
     .parse = argument_int,
     .offset = FIELD(max_batch_size),
     .low = 1,
     .high = 64},
    {.name = "parallel"},
    {.name = "quiet", .letter = 'q', .help = "No progress on standard error", .parse = argument_flag, .offset = FIELD(quiet)},
    {0}};

/* One job from its files to its files. */
struct batch_command {
    const struct batch_arguments *arguments;
    const struct model_arguments *model_arguments;
    const char *command;
    struct string_buffer errors, state; /* the files' names */
    struct batch_store *store;
    struct batch_job job;
    struct batch_faults faults;
    struct batch_counts counts;
    struct batch_progress_line progress;
};

static bool go_on(void *context)
{
    (void)context;
    return !interrupt_seen();
}

static bool load_on(void *context, size_t n_done, size_t total)
{
    (void)n_done;
    (void)total;
    return go_on(context);
}

static int room(void *context)
{
    const struct batch_command *b = context;
    return b->arguments->max_batch_size * AHEAD;
}

static void show(void *context, const struct batch_progress *p)
{
    struct batch_command *b = context;
    if (!b->arguments->quiet)
        batch_progress_show(&b->progress, p, clock_us());
}

static const char *model_name(const struct batch_command *b, size_t *n)
{
    const char *name = b->arguments->alias, *slash = strrchr(b->model_arguments->model, '/');
    if (name == NULL)
        name = slash != NULL ? slash + 1 : b->model_arguments->model;
    *n = strlen(name) < BATCH_NAME_MAX ? strlen(name) : BATCH_NAME_MAX;
    return name;
}

/* Go on with the job that the state holds, if it is this one. */
static enum mr_status resume(const struct batch_command *b, const struct batch_job *there, struct mr_error *err)
{
    if (strcmp(there->name, b->job.name) != 0)
        return mr_fail(err, MR_BAD_INPUT, "'%s' holds a job with another input; remove it to begin anew", b->state.s);
    if (strcmp(there->model, b->job.model) != 0)
        return mr_fail(err, MR_BAD_INPUT, "'%s' holds a job for the model '%s'; remove it to begin anew", b->state.s,
                       there->model);
    return MR_OK;
}

/* Results that have been written are not replaced by accident. */
static enum mr_status check_output(const struct batch_command *b, struct mr_error *err)
{
    if (!b->arguments->overwrite && access(b->arguments->output, F_OK) == 0)
        return mr_fail(err, MR_BAD_INPUT, "'%s' is there already; --overwrite replaces it", b->arguments->output);
    return MR_OK;
}

/* Nothing of the job stays but its files. */
static void remove_state(struct batch_command *b)
{
    batch_store_close(b->store);
    b->store = NULL;
    batch_store_remove(b->state.s);
}

static enum mr_status begin(struct batch_command *b, struct mr_error *err)
{
    const enum mr_status status = check_output(b, err);
    if (status == MR_OK)
        return batch_store_add_job(b->store, &b->job, err);
    remove_state(b);
    return status;
}

static enum mr_status open_store(struct batch_command *b, struct mr_error *err)
{
    enum mr_status status = batch_store_open(&b->store, b->state.s, err);
    if (status != MR_BAD_FORMAT)
        return status;
    fprintf(stderr, "%s: %s; it is put aside, and the job begins anew\n", b->command, err->message);
    MR_TRY(batch_store_put_aside(b->state.s, err));
    return batch_store_open(&b->store, b->state.s, err);
}

static enum mr_status find_job(struct batch_command *b, struct mr_error *err)
{
    struct batch_job there;
    size_t n;
    const char *name = model_name(b, &n);
    memcpy(b->job.model, name, n);
    MR_TRY(batch_input_digest(b->job.name, b->arguments->input, err));
    MR_TRY(open_store(b, err));
    const enum mr_status status = batch_store_first_job(b->store, &there, err);
    if (status == MR_NOT_FOUND)
        return begin(b, err);
    if (status == MR_OK)
        MR_TRY(resume(b, &there, err));
    b->job = there;
    return status;
}

static enum mr_status check_lines(struct batch_command *b, struct mr_error *err)
{
    const struct batch_check check = {
        .input = b->arguments->input, .keep_going = b->arguments->keep_going, .go_on = go_on, .context = b};
    if (b->job.status != BATCH_VALIDATING)
        return MR_OK;
    const enum mr_status status = batch_job_check(b->store, &b->job, &check, &b->faults, err);
    if (status == MR_OK)
        b->job.status = BATCH_IN_PROGRESS;
    else if (status == MR_BAD_INPUT) /* there is nothing to go on with */
        remove_state(b);
    return status;
}

static void tell_faults(const struct batch_command *b)
{
    size_t i;
    const json_t *fault;
    json_array_foreach(b->faults.list, i, fault)
    {
        const char *message = json_string_value(json_object_get(fault, "message"));
        fprintf(stderr, "%s: %s: line %lld: %s\n", b->command, b->arguments->input,
                (long long)json_integer_value(json_object_get(fault, "line")), message != NULL ? message : "");
    }
}

static void make_settings(struct server_settings *s, const struct batch_command *b)
{
    server_settings_defaults(s);
    load_options(&s->engine, b->model_arguments);
    s->engine.max_running = b->arguments->max_batch_size;
    s->engine.admission = false; /* nobody waits for a single line */
    s->engine.itl_target_ms = 0;
    s->model = b->model_arguments->model;
    s->alias = b->arguments->alias;
    s->chat_template = b->model_arguments->chat_template;
}

static enum mr_status run_lines(struct batch_command *b, struct mr_error *err)
{
    struct server_settings settings;
    struct server *server = NULL;
    const struct batch_run_options options = {.store = b->store,
                                              .job = &b->job,
                                              .input = b->arguments->input,
                                              .room = room,
                                              .go_on = go_on,
                                              .progress = show,
                                              .context = b};
    if (b->job.status != BATCH_IN_PROGRESS)
        return MR_OK;
    make_settings(&settings, b);
    enum mr_status status = server_start_local(&server, &settings, err);
    if (status == MR_OK)
        status = server_load(server, load_on, b, err);
    if (status == MR_OK) {
        struct batch_run_options o = options;
        o.server = server;
        batch_progress_begin(&b->progress, clock_us(), isatty(STDERR_FILENO) != 0);
        status = batch_run(&o, err);
        batch_progress_end(&b->progress);
    }
    server_free(server);
    return status;
}

/* A job whose files are written leaves nothing else behind. */
static enum mr_status run(struct batch_command *b, struct mr_error *err)
{
    MR_TRY(find_job(b, err));
    MR_TRY(check_lines(b, err));
    MR_TRY(run_lines(b, err));
    MR_TRY(batch_store_count(b->store, b->job.id, &b->counts, err));
    if (b->job.status != BATCH_COMPLETED)
        MR_TRY(batch_job_write(b->store, &b->job, b->arguments->output, b->errors.s, err));
    remove_state(b);
    return MR_OK;
}

static int conclude(const struct batch_command *b, enum mr_status status, const struct mr_error *err)
{
    if (status != MR_OK) {
        tell_faults(b);
        return output_fail_status(b->command, status, err);
    }
    if (!b->arguments->quiet || b->counts.n_failed > 0)
        fprintf(stderr, "%s: %lld answered%s%s, %lld failed%s%s\n", b->command, (long long)b->counts.n_ok,
                b->counts.n_ok > 0 ? " in " : "", b->counts.n_ok > 0 ? b->arguments->output : "", (long long)b->counts.n_failed,
                b->counts.n_failed > 0 ? " in " : "", b->counts.n_failed > 0 ? b->errors.s : "");
    return b->counts.n_failed > 0 ? EXIT_LINES_FAILED : 0;
}

static void name_files(struct batch_command *b)
{
    const struct batch_arguments *a = b->arguments;
    string_buffer_init(&b->errors);
    string_buffer_init(&b->state);
    string_buffer_printf(&b->errors, "%s%s", a->errors != NULL ? a->errors : a->output, a->errors != NULL ? "" : ".errors");
    string_buffer_printf(&b->state, "%s%s", a->state != NULL ? a->state : a->output, a->state != NULL ? "" : ".state");
}

static int batch(const struct batch_arguments *a, const struct model_arguments *m, const char *command)
{
    struct batch_command b = {.arguments = a, .model_arguments = m, .command = command};
    struct mr_error err = {{0}};
    name_files(&b);
    interrupt_install();
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is told by write */
    const enum mr_status status =
        b.errors.failed || b.state.failed ? mr_fail(&err, MR_NO_MEMORY, "no memory for the batch") : run(&b, &err);
    const int result = conclude(&b, status, &err);
    batch_store_close(b.store);
    json_decref(b.faults.list);
    string_buffer_release(&b.errors);
    string_buffer_release(&b.state);
    return result;
}

static int check_arguments(const struct batch_arguments *a, const struct model_arguments *m, const char *command)
{
    if (a->output == NULL)
        return arguments_fail(command, "-o, --output: a file for the answers is required");
    return model_arguments_check(m, command);
}

int command_batch(int argc, char **argv)
{
    struct batch_arguments a = {.max_batch_size = 32};
    struct model_arguments m = {0};
    const struct argument_group groups[] = {
        {"Model:", model_argument, &m}, {NULL, compute_argument, &m}, {NULL, template_argument, &m}, {"Batch:", rows, &a}};
    const struct command_line line = {
        .summary = "Answer a file of requests, as OpenAI's batches have them. Ended at any moment, by Ctrl-C, kill -9 or a "
                   "failure of power, the same command goes on where it was: results that are there are not computed again. "
                   "Exit status 3: all is done, but some lines failed.",
        .example = "  millrace batch -m models/SmolLM2-135M-Instruct.Q4_1.gguf requests.jsonl -o answers.jsonl",
        .operands = "INPUT.jsonl",
        .operand = &a.input,
        .min_operands = 1,
        .max_operands = 1,
        .group = groups,
        .n_groups = 4};
    int result = arguments_parse(argc, argv, &line);
    if (result == ARGUMENTS_GO_ON)
        result = check_arguments(&a, &m, argv[0]);
    return result == ARGUMENTS_GO_ON ? batch(&a, &m, argv[0]) : result;
}
