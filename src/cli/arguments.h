/* arguments.h: the options of a command as a table, parsed with argp.
 * A wrong option prints one line that names it and what it takes, and ends the command with exit status 2. */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct argument;

/* Read text into *field. BAD_INPUT: the message says what is wrong and what the option takes, without its name. */
typedef enum mr_status argument_fn(void *field, const char *text, const struct argument *a, struct mr_error *err);

/* One option. A row whose parse is NULL is a second name of the row before it; a row without a name ends the table. */
struct argument {
    const char *name;  /* long name without dashes */
    int letter;        /* short name; 0: none */
    const char *value; /* what the help calls the value; NULL: the option takes none */
    const char *help;
    argument_fn *parse;
    size_t offset;             /* of the field in the group's struct */
    double low, high;          /* range of numbers, both ends included */
    const char *const *choice; /* NULL-terminated, for argument_choice */
};

argument_fn argument_flag;   /* bool: becomes true */
argument_fn argument_unflag; /* bool: becomes false */
argument_fn argument_int;    /* int */
argument_fn argument_int64;  /* int64_t; low and high at most 2^53 */
argument_fn argument_float;  /* float; finite */
argument_fn argument_size;   /* size_t, bytes: 1500, 512K, 2GB, 1.5GiB (powers of 1024) */
argument_fn argument_string; /* const char *, borrowed from argv */
argument_fn argument_choice; /* int: index in choice */

/* A list of strings, in the order given. */
enum {
    ARGUMENT_LIST_MAX = 64
};
struct argument_list {
    const char *s[ARGUMENT_LIST_MAX];
    int n;
};
argument_fn argument_append; /* struct argument_list */

/* Whether this very argument is among them: a command with several faces looks before it parses. */
bool arguments_hold(int argc, char **argv, const char *argument);

struct argument_group {
    const char *title; /* heading in the help */
    const struct argument *rows;
    void *into; /* the struct that offsets count from; its values are the defaults */
};

struct command_line {
    const char *operands; /* how the usage line calls them: "FILE"; NULL: none */
    const char *summary;  /* what the command does */
    const char *example;  /* lines under "Example:" in the help */
    const char **operand; /* receives max_operands strings, NULL where not given */
    int min_operands, max_operands;
    const struct argument_group *group;
    int n_groups;
};

enum {
    ARGUMENTS_GO_ON = -1
};

/* Parse argv[1..argc-1]; argv[0] names the command in messages. Returns ARGUMENTS_GO_ON, or the exit status with which
 * the command ends at once: 0 after --help, 2 after an error, which has been printed. argv may be reordered. */
int arguments_parse(int argc, char **argv, const struct command_line *line);

/* Print "command: message" on stderr and return exit status 2. */
int arguments_fail(const char *command, const char *fmt, ...) MR_PRINTF(2, 3);

#endif
