/* arguments.c: tables of options over argp, with errors of one line. */
#include "cli/arguments.h"

#include <argp.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/command.h"

enum {
    KEY_FIRST = 0x200, /* keys of rows without a letter lie above every character */
    HELP_GROUP = -1
};

struct parse {
    const char *command;
    const struct command_line *line;
    struct argp_option *option; /* row i of all groups has key KEY_FIRST + i or its letter */
    const struct argument **row;
    void **into;
    size_t n_rows, n_options;
    struct argp argp;
    char *doc;
    int n_operands;
    int status;
};

int arguments_fail(const char *command, const char *fmt, ...)
{
    struct mr_error err;
    va_list args;
    va_start(args, fmt);
    mr_fail_va(&err, MR_BAD_INPUT, fmt, args);
    va_end(args);
    fprintf(stderr, "%s: %s\n", command, err.message);
    return EXIT_USAGE_ERROR;
}

/* The row that a second name stands for; else row i itself. */
static size_t real_row(const struct parse *p, size_t i)
{
    while (p->row[i]->parse == NULL)
        i--;
    return i;
}

static bool takes_value(const struct parse *p, size_t i) { return p->row[real_row(p, i)]->value != NULL; }

/* The row with this letter; n_rows: none. */
static size_t find_letter(const struct parse *p, int letter)
{
    size_t i = 0;
    while (i < p->n_rows && p->row[i]->letter != letter)
        i++;
    return i;
}

/* A row whose name begins with the n bytes at name, and how many do; an exact name counts alone. */
static size_t find_name(const struct parse *p, const char *name, size_t n, int *n_found)
{
    size_t found = p->n_rows;
    *n_found = 0;
    for (size_t i = 0; i < p->n_rows; i++) {
        if (strncmp(p->row[i]->name, name, n) != 0)
            continue;
        found = i;
        ++*n_found;
        if (p->row[i]->name[n] == '\0') {
            *n_found = 1;
            break;
        }
    }
    return found;
}

static bool explain_long(struct parse *p, const char *arg, bool is_last)
{
    const char *name = arg + 2;
    const size_t n = strcspn(name, "=");
    const bool has_value = name[n] == '=';
    int n_found;
    const size_t i = find_name(p, name, n, &n_found);
    if (n_found == 0)
        p->status = arguments_fail(p->command, "unknown option '--%.*s'", (int)n, name);
    else if (n_found > 1)
        p->status = arguments_fail(p->command, "option '--%.*s' is ambiguous", (int)n, name);
    else if (!takes_value(p, i) && has_value)
        p->status = arguments_fail(p->command, "--%s: takes no value", p->row[i]->name);
    else if (takes_value(p, i) && !has_value && is_last)
        p->status = arguments_fail(p->command, "--%s: needs a value: %s", p->row[i]->name, p->row[real_row(p, i)]->value);
    else
        return false;
    return true;
}

static bool explain_letters(struct parse *p, const char *arg, bool is_last)
{
    for (const char *s = arg + 1; *s != '\0'; s++) {
        const size_t i = find_letter(p, *s);
        if (i == p->n_rows) {
            p->status = arguments_fail(p->command, "unknown option '-%c'", *s);
            return true;
        }
        if (!takes_value(p, i))
            continue;
        if (s[1] != '\0' || !is_last)
            return false;
        p->status = arguments_fail(p->command, "-%c: needs a value: %s", *s, p->row[real_row(p, i)]->value);
        return true;
    }
    return false;
}

/* getopt refused an argument before argv[next], or at it where letters are joined: say which and why. */
static void explain(struct parse *p, const struct argp_state *state)
{
    for (int i = state->next - 1; i <= state->next && i < state->argc; i++) {
        const char *arg = state->argv[i];
        const bool is_last = i + 1 == state->argc;
        if (i < 1 || arg[0] != '-' || arg[1] == '\0')
            continue;
        if (arg[1] == '-' ? explain_long(p, arg, is_last) : explain_letters(p, arg, is_last))
            return;
    }
    p->status = arguments_fail(p->command, "wrong option '%s'", state->argv[state->next - 1]);
}

static error_t take_operand(struct parse *p, char *arg)
{
    if (p->n_operands == p->line->max_operands) {
        p->status = arguments_fail(p->command, "unexpected argument '%s'", arg);
        return EINVAL;
    }
    p->line->operand[p->n_operands++] = arg;
    return 0;
}

static error_t take_option(struct parse *p, size_t i, const char *arg)
{
    const size_t with = real_row(p, i);
    const struct argument *a = p->row[with];
    struct mr_error err = {{0}};
    if (a->parse((char *)p->into[with] + a->offset, arg, a, &err) == MR_OK)
        return 0;
    p->status = arguments_fail(p->command, "--%s: %s", p->row[i]->name, err.message);
    return EINVAL;
}

static error_t on_key(int key, char *arg, struct argp_state *state)
{
    struct parse *p = state->input;
    if (key == 'h') {
        setenv("ARGP_HELP_FMT", "rmargin=110", 0); /* a line of an example must not be broken */
        argp_help(&p->argp, stdout, ARGP_HELP_STD_HELP, (char *)p->command);
        p->status = EXIT_SUCCESS;
        return ECANCELED;
    }
    if (key == ARGP_KEY_ARG)
        return take_operand(p, arg);
    if (key == ARGP_KEY_ERROR && p->status == ARGUMENTS_GO_ON)
        explain(p, state);
    for (size_t i = 0; i < p->n_rows; i++)
        if (key == KEY_FIRST + (int)i || (p->row[i]->letter != 0 && key == p->row[i]->letter))
            return take_option(p, i, arg);
    return ARGP_ERR_UNKNOWN;
}

/* Answered in on_key, before its parse could be called. */
static const struct argument help_row[] = {{.name = "help", .letter = 'h', .help = "Show this help", .parse = argument_flag},
                                           {0}};

static void add_group(struct parse *p, const struct argument_group *g, int number)
{
    if (g->title != NULL)
        p->option[p->n_options++] = (struct argp_option){.doc = g->title, .group = number};
    for (const struct argument *a = g->rows; a->name != NULL; a++) {
        const bool alias = a->parse == NULL;
        const int key = a->letter != 0 ? a->letter : KEY_FIRST + (int)p->n_rows;
        p->option[p->n_options++] = (struct argp_option){.name = a->name,
                                                         .key = key,
                                                         .arg = alias ? NULL : a->value,
                                                         .flags = alias ? OPTION_ALIAS : 0,
                                                         .doc = alias ? NULL : a->help,
                                                         .group = number};
        p->row[p->n_rows] = a;
        p->into[p->n_rows++] = g->into;
    }
}

static bool build(struct parse *p)
{
    const struct command_line *line = p->line;
    size_t n = 1;
    for (int g = 0; g < line->n_groups; g++)
        for (const struct argument *a = line->group[g].rows; a->name != NULL; a++)
            n++;
    p->option = mem_zero_array(n + (size_t)line->n_groups + 1, sizeof *p->option);
    p->row = mem_array(n, sizeof *p->row);
    p->into = mem_array(n, sizeof *p->into);
    p->doc = mem_array(strlen(line->summary) + strlen(line->example) + 16, 1);
    if (p->option == NULL || p->row == NULL || p->into == NULL || p->doc == NULL)
        return false;
    sprintf(p->doc, "%s\vExample:\n%s\n", line->summary, line->example);
    for (int g = 0; g < line->n_groups; g++)
        add_group(p, &line->group[g], g + 1);
    add_group(p, &(struct argument_group){.rows = help_row}, HELP_GROUP);
    p->argp = (struct argp){.options = p->option, .parser = on_key, .args_doc = line->operands, .doc = p->doc};
    return true;
}

static int run(struct parse *p, int argc, char **argv)
{
    if (!build(p))
        return arguments_fail(p->command, "out of memory");
    for (int i = 0; i < p->line->max_operands; i++)
        p->line->operand[i] = NULL;
    if (argp_parse(&p->argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_EXIT | ARGP_NO_HELP, NULL, p) != 0)
        return p->status;
    if (p->n_operands < p->line->min_operands)
        return arguments_fail(p->command, "missing argument: %s", p->line->operands);
    return ARGUMENTS_GO_ON;
}

int arguments_parse(int argc, char **argv, const struct command_line *line)
{
    struct parse p = {.command = argv[0], .line = line, .status = ARGUMENTS_GO_ON};
    const int status = run(&p, argc, argv);
    free(p.option);
    free(p.row);
    free(p.into);
    free(p.doc);
    return status;
}

bool arguments_hold(int argc, char **argv, const char *argument)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], argument) == 0)
            return true;
    return false;
}
