/* serve_arguments.c: options made from the table of settings. */
#include "cli/serve_arguments.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/arguments.h"

enum {
    GROUPS_MAX = 16,
    TITLE_BYTES = 64
};

/* Options as they are given, before the settings are there. */
struct given {
    struct argument_list *list; /* by row of the table */
    struct argument *rows;      /* those of a group behind the other, each group with its end */
    struct argument_group group[GROUPS_MAX];
    char title[GROUPS_MAX][TITLE_BYTES];
    int n_groups;
};

static const struct argument source_rows[] = {
    {.name = "config",
     .value = "FILE",
     .help = "Deployment file in YAML; the environment (MILLRACE_PORT=...) wins over it, and options win over both",
     .parse = argument_string,
     .offset = offsetof(struct serve_arguments, config)},
    {.name = "check",
     .help = "Check all settings, show what holds as a deployment file, and end",
     .parse = argument_flag,
     .offset = offsetof(struct serve_arguments, check)},
    {0}};

/* An option without a value says true, or false where it begins with "no-". */
static enum mr_status note(void *field, const char *text, const struct argument *a, struct mr_error *err)
{
    return argument_append(field, a->value != NULL ? text : strncmp(a->name, "no-", 3) == 0 ? "false" : "true", a, err);
}

/* "server" of "server.port"; "" of "port". */
static size_t section_bytes(const char *path)
{
    const char *dot = strchr(path, '.');
    return dot != NULL ? (size_t)(dot - path) : 0;
}

static void begin_group(struct given *g, const char *path, size_t n, const struct argument *rows)
{
    char *title = g->title[g->n_groups];
    memcpy(title, n > 0 ? path : "model", n > 0 ? n : 5);
    memcpy(title + (n > 0 ? n : 5), ":", 2);
    title[0] = (char)(title[0] - 'a' + 'A');
    for (char *c = title; *c != '\0'; c++)
        *c = *c == '_' ? ' ' : *c;
    g->group[g->n_groups++] = (struct argument_group){title, rows, g->list};
}

static struct argument row_of(const struct setting *s, size_t i)
{
    return (struct argument){.name = s->flag,
                             .letter = s->letter,
                             .value = s->value,
                             .help = s->help,
                             .parse = note,
                             .offset = i * sizeof(struct argument_list)};
}

static bool build(struct given *g)
{
    size_t n = 0, n_section = SIZE_MAX;
    const char *section = "";
    while (setting_table[n].path != NULL)
        n++;
    g->list = mem_zero_array(n, sizeof *g->list);
    g->rows = mem_zero_array(n * (SETTING_ALSO_MAX + 2) + 1, sizeof *g->rows);
    if (g->list == NULL || g->rows == NULL)
        return false;
    struct argument *row = g->rows;
    for (size_t i = 0; i < n; i++) {
        const struct setting *s = &setting_table[i];
        const size_t length = section_bytes(s->path);
        if (length != n_section || strncmp(section, s->path, length) != 0) {
            row += row > g->rows; /* the end of the group before */
            begin_group(g, s->path, length, row);
        }
        section = s->path;
        n_section = length;
        *row++ = row_of(s, i);
        for (int k = 0; k < SETTING_ALSO_MAX && s->also[k] != NULL; k++)
            *row++ = (struct argument){.name = s->also[k]};
    }
    return true;
}

static void release(struct given *g)
{
    free(g->list);
    free(g->rows);
}

static enum mr_status take_given(struct settings *s, const struct given *g, struct mr_error *err)
{
    for (size_t i = 0; setting_table[i].path != NULL; i++) {
        const struct argument_list *list = &g->list[i];
        const struct setting *row = &setting_table[i];
        if (list->n == 0)
            continue;
        const bool is_list = row->kind == SETTING_LIST; /* of others the last one holds */
        const enum mr_status status =
            settings_give(s, row, is_list ? list->s : &list->s[list->n - 1], is_list ? list->n : 1, SETTINGS_COMMAND_LINE, err);
        if (status != MR_OK)
            return mr_fail_in(err, status, "--%s", row->flag);
    }
    return MR_OK;
}

static enum mr_status make_settings(struct serve_arguments *a, const struct given *g, struct mr_error *err)
{
    if (a->config == NULL)
        a->config = getenv("MILLRACE_CONFIG");
    MR_TRY(settings_create(&a->settings, err));
    if (a->config != NULL)
        MR_TRY(settings_read_file(a->settings, a->config, err));
    MR_TRY(settings_read_environment(a->settings, environ, err));
    MR_TRY(take_given(a->settings, g, err));
    MR_TRY(settings_check(a->settings, err));
    if (settings_values(a->settings)->model == NULL && settings_values(a->settings)->n_models == 0 && !a->check)
        return mr_fail(err, MR_BAD_INPUT, "-m, --model: a model file is required, or --models");
    return MR_OK;
}

static int parse(struct serve_arguments *a, struct given *g, int argc, char **argv)
{
    struct mr_error err = {{0}};
    begin_group(g, "settings", strlen("settings"), source_rows);
    g->group[0].into = a;
    if (!build(g))
        return arguments_fail(argv[0], "out of memory");
    const struct command_line line = {.summary = "Answer over HTTP, as OpenAI's API and its kin are spoken.",
                                      .example = "  millrace serve -m models/SmolLM2-135M-Instruct.Q4_1.gguf\n"
                                                 "  curl http://127.0.0.1:8080/v1/models",
                                      .group = g->group,
                                      .n_groups = g->n_groups};
    const int status = arguments_parse(argc, argv, &line);
    if (status != ARGUMENTS_GO_ON)
        return status;
    if (make_settings(a, g, &err) == MR_OK)
        return ARGUMENTS_GO_ON;
    settings_free(a->settings);
    a->settings = NULL;
    return arguments_fail(argv[0], "%s", err.message);
}

int serve_arguments_parse(struct serve_arguments *a, int argc, char **argv)
{
    static char parallel[] = "--parallel";
    struct given g = {0};
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "-np") == 0) /* as llama-server writes it; no option of one letter */
            argv[i] = parallel;
    *a = (struct serve_arguments){0};
    const int status = parse(a, &g, argc, argv);
    release(&g);
    return status;
}
