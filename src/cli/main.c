/* main.c: the program: picks the command. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

static const struct command commands[] = {
    {"bench", "measure speed as a share of what the machine can do", command_bench},
    {"inspect", "show what is in a model file", command_inspect},
    {"template", "show a chat as the text that the model reads", command_template},
    {"tokenize", "show a text as the model's tokens, or tokens as text", command_tokenize},
    {"run", "answer a prompt, or converse on the terminal", command_run},
    {"pack", "write a model as this machine reads it, to start fast", command_pack},
    {"perplexity", "measure how well a model predicts a text", command_perplexity},
    {"version", "print the version", command_version},
};

enum {
    N_COMMANDS = sizeof commands / sizeof *commands
};

static void print_commands(FILE *out)
{
    fprintf(out, "Usage: millrace COMMAND [OPTION...]\n"
                 "Run, inspect and serve large language models.\n\nCommands:\n");
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\n`millrace COMMAND --help` explains a command and gives an example.\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_commands(stderr);
        return EXIT_USAGE_ERROR;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_commands(stdout);
        return 0;
    }
    const char *name = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(name, commands[i].name) != 0)
            continue;
        char full_name[64];
        snprintf(full_name, sizeof full_name, "millrace %s", name);
        argv[1] = full_name;
        return commands[i].run(argc - 1, argv + 1);
    }
    fprintf(stderr, "millrace: unknown command '%s'; `millrace --help` lists them\n", argv[1]);
    return EXIT_USAGE_ERROR;
}
