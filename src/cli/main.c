/* main.c: the program: picks the command. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "server/engine_spawn.h"

static const struct command commands[] = {
    {"bench", "measure speed as a share of what the machine can do", command_bench},
    {"inspect", "show what is in a model file", command_inspect},
    {"template", "show a chat as the text that the model reads", command_template},
    {"tokenize", "show a text as the model's tokens, or tokens as text", command_tokenize},
    {"run", "answer a prompt, or converse on the terminal", command_run},
    {"serve", "answer over HTTP, as OpenAI's API is spoken", command_serve},
    {"batch", "answer a file of requests", command_batch},
    {"embed", "show a text as a vector", command_embed},
    {"pack", "write a model as this machine reads it, to start fast", command_pack},
    {"adapter", "convert a LoRA adapter to GGUF", command_adapter},
    {"init", "make a model with random weights", command_init},
    {"prune", "make a model smaller by leaving out what matters least", command_prune},
    {"redundancy", "measure what share of each layer can go at equal loss", command_redundancy},
    {"distill", "train a model, with a teacher or without", command_distill},
    {"key", "make an API key for the server", command_key},
    {"perplexity", "measure how well a model predicts a text", command_perplexity},
    {"eval", "measure what models are worth, and what a smaller one costs", command_eval},
    {"calibrate", "write statistics of activations, for quantize", command_calibrate},
    {"quantize", "write a model with smaller block types", command_quantize},
    {"sparsify", "drop half of the weights, and store the others only", command_sparsify},
    {"precision", "measure what each precision of a model costs, and choose one", command_precision},
    {"tune", "measure which settings serve a model best here", command_tune},
    {"version", "print the version", command_version},
    {ENGINE_PROCESS_COMMAND, NULL, command_engine_process},
};

enum {
    N_COMMANDS = sizeof commands / sizeof *commands
};

static void print_commands(FILE *out)
{
    fprintf(out, "Usage: millrace COMMAND [OPTION...]\n"
                 "Run, inspect and serve large language models.\n\nCommands:\n");
    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].summary != NULL)
            fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\n`millrace COMMAND --help` explains a command and gives an example.\n");
}

/* Run the command of this name; -1: there is none. */
static int run_command(const char *name, int argc, char **argv)
{
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(name, commands[i].name) != 0)
            continue;
        char full_name[64];
        snprintf(full_name, sizeof full_name, "millrace %s", name);
        argv[0] = full_name;
        return commands[i].run(argc, argv);
    }
    return -1;
}

static int help(const char *command)
{
    char option[] = "--help", *argv[] = {NULL, option, NULL};
    if (command != NULL)
        return run_command(command, 2, argv);
    print_commands(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_commands(stderr);
        return EXIT_USAGE_ERROR;
    }
    const char *name = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    const bool wants_help = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0;
    const int status = wants_help ? help(argv[2]) : run_command(name, argc - 1, argv + 1);
    if (status >= 0)
        return status;
    fprintf(stderr, "millrace: unknown command '%s'; `millrace --help` lists them\n", wants_help ? argv[2] : argv[1]);
    return EXIT_USAGE_ERROR;
}
