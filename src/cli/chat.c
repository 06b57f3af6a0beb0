/* chat.c: the conversation on a terminal. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/output.h"
#include "cli/run.h"

struct chat {
    struct run *run;
    json_t *messages; /* array, as the template reads it */
    struct generation last;
    bool leave;
};

/* A message; false: the text is not UTF-8, or no memory. */
static bool add_message(struct chat *c, const char *role, const char *text, size_t n)
{
    json_t *message = json_pack("{s:s, s:s%}", "role", role, "content", text != NULL ? text : "", n);
    return message != NULL && json_array_append_new(c->messages, message) == 0;
}

static void drop_last_message(struct chat *c) { json_array_remove(c->messages, json_array_size(c->messages) - 1); }

static bool has_system(const struct chat *c)
{
    const char *role = json_string_value(json_object_get(json_array_get(c->messages, 0), "role"));
    return role != NULL && strcmp(role, "system") == 0;
}

static void on_help(struct chat *c, const char *argument);

static void on_system(struct chat *c, const char *argument)
{
    const bool had = has_system(c);
    if (had)
        json_array_remove(c->messages, 0);
    if (argument[0] == '\0') {
        printf(had ? "The system message is gone.\n" : "There is no system message.\n");
        return;
    }
    json_t *message = json_pack("{s:s, s:s}", "role", "system", "content", argument);
    if (message == NULL || json_array_insert_new(c->messages, 0, message) != 0)
        printf("The system message is not UTF-8.\n");
    else
        printf("The system message is set.\n");
}

static void on_reset(struct chat *c, const char *argument)
{
    (void)argument;
    while (json_array_size(c->messages) > (has_system(c) ? 1u : 0u))
        drop_last_message(c);
    generation_release(&c->last);
    generation_init(&c->last);
    printf("The conversation begins anew.\n");
}

static void on_save(struct chat *c, const char *argument)
{
    if (argument[0] == '\0')
        printf("/save needs a file name.\n");
    else if (json_dump_file(c->messages, argument, JSON_INDENT(2)) != 0)
        printf("%s cannot be written: %s.\n", argument, strerror(errno));
    else
        printf("%zu messages are in %s.\n", json_array_size(c->messages), argument);
}

static void on_stats(struct chat *c, const char *argument)
{
    (void)argument;
    const struct mr_usage *u = &c->last.usage;
    if (u->n_prompt > 0)
        generation_print_stats(&c->last, stdout);
    printf("context: %d of %d tokens; seed %llu\n", u->n_prompt + u->n_generated, mr_engine_n_ctx(c->run->engine),
           (unsigned long long)c->run->sampling.sampling.seed);
}

static void on_exit_command(struct chat *c, const char *argument)
{
    (void)argument;
    c->leave = true;
}

static const struct {
    const char *name, *help;
    void (*run)(struct chat *, const char *argument);
} commands[] = {
    {"/help", "shows this list", on_help},
    {"/system", "TEXT becomes the system message; without TEXT it is removed", on_system},
    {"/reset", "forgets the conversation, not the system message", on_reset},
    {"/save", "FILE receives the messages as JSON", on_save},
    {"/stats", "shows times and tokens of the last answer", on_stats},
    {"/exit", "leaves; so do Ctrl-D, and Ctrl-C twice", on_exit_command},
};

static void on_help(struct chat *c, const char *argument)
{
    (void)c;
    (void)argument;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        printf("  %-8s %s\n", commands[i].name, commands[i].help);
    printf("A backslash at the end of a line goes on in the next one; so does everything between \"\"\" and \"\"\".\n"
           "Ctrl-C stops an answer, or clears the line.\n");
}

/* Run a line that begins with a slash. */
static void run_command(struct chat *c, const char *line)
{
    const size_t n = strcspn(line, " \t\n");
    const char *argument = line + n + strspn(line + n, " \t\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strlen(commands[i].name) == n && memcmp(line, commands[i].name, n) == 0) {
            commands[i].run(c, argument);
            return;
        }
    }
    printf("%.*s is no command; /help lists them.\n", (int)n, line);
}

/* Answer the last message. On failure nothing was added. */
static enum mr_status answer(struct chat *c, struct mr_error *err)
{
    struct run *r = c->run;
    struct token_list prompt = {0};
    generation_release(&c->last);
    generation_init(&c->last);
    enum mr_status status =
        chat_prompt_render(r->chat, c->messages, NULL, (int64_t)time(NULL), r->options.parse_special, &prompt, err);
    if (status == MR_OK) {
        if (r->options.verbose_prompt)
            run_show_prompt(r, &prompt);
        const struct mr_request request = run_request(r, &prompt);
        status = generation_run(&c->last, r->engine, &request, stdout, err);
        interrupt_clear(); /* one Ctrl-C more than it took to stop the answer */
    }
    token_list_release(&prompt);
    printf("\n");
    if (status == MR_OK && !add_message(c, "assistant", c->last.text.s, c->last.text.n))
        status = mr_fail(err, MR_NO_MEMORY, "no memory for the answer");
    if (status == MR_OK && !r->options.quiet)
        generation_print_stats(&c->last, stderr);
    return status;
}

static void take_turn(struct chat *c, const struct string_buffer *text)
{
    struct mr_error err = {{0}};
    if (!add_message(c, "user", text->s, text->n)) {
        printf("The text is not UTF-8.\n");
        return;
    }
    if (answer(c, &err) == MR_OK)
        return;
    drop_last_message(c);
    printf("%s\nThe message was not added; /reset begins anew.\n", err.message);
}

static void converse(struct chat *c, struct line_editor *ed, struct string_buffer *line)
{
    bool interrupted = false;
    while (!c->leave) {
        const enum line_result result = line_editor_read(ed, line);
        if (result == LINE_END || (result == LINE_INTERRUPTED && interrupted))
            break;
        interrupted = result == LINE_INTERRUPTED;
        if (interrupted)
            printf("Ctrl-C once more, Ctrl-D or /exit leaves.\n");
        else if (line->failed)
            printf("There is no memory for this text.\n");
        else if (line->n > 0 && line->s[0] == '/')
            run_command(c, line->s);
        else if (line->n > 0 && strspn(line->s, " \t\n") < line->n)
            take_turn(c, line);
        fflush(stdout);
    }
}

int chat_loop(struct run *r)
{
    struct mr_error err = {{0}};
    struct chat c = {.run = r, .messages = json_array()};
    struct line_editor *ed;
    struct string_buffer line;
    string_buffer_init(&line);
    generation_init(&c.last);
    enum mr_status status = line_editor_create(&ed, &err);
    if (status == MR_OK && r->options.system != NULL &&
        !add_message(&c, "system", r->options.system, strlen(r->options.system)))
        status = mr_fail(&err, MR_BAD_INPUT, "--system is not UTF-8");
    if (status == MR_OK) {
        struct mr_model_info info;
        mr_model_info(r->model, &info);
        printf("%s: %s, %.0f M parameters, %s, %d threads. /help lists the commands.\n", r->model_options.model, info.family,
               (double)info.n_parameters / 1e6, info.precision, info.threads);
        fflush(stdout);
        converse(&c, ed, &line);
    }
    line_editor_free(ed);
    string_buffer_release(&line);
    generation_release(&c.last);
    json_decref(c.messages);
    return status == MR_OK ? EXIT_SUCCESS : output_fail_status(r->command, status, &err);
}
