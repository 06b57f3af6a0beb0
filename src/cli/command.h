/* command.h: what a command is. One file per command, one row in main.c. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

struct command {
    const char *name;
    const char *summary;               /* one line for the list of commands; NULL: not for people, and not listed */
    int (*run)(int argc, char **argv); /* argv[0] is "millrace NAME"; returns the exit status */
};

enum {
    EXIT_USAGE_ERROR = 2
}; /* unknown flag, value out of range, missing argument */

int command_adapter(int argc, char **argv);
int command_batch(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_engine_process(int argc, char **argv);
int command_distill(int argc, char **argv);
int command_calibrate(int argc, char **argv);
int command_embed(int argc, char **argv);
int command_eval(int argc, char **argv);
int command_init(int argc, char **argv);
int command_inspect(int argc, char **argv);
int command_key(int argc, char **argv);
int command_pack(int argc, char **argv);
int command_perplexity(int argc, char **argv);
int command_precision(int argc, char **argv);
int command_prune(int argc, char **argv);
int command_quantize(int argc, char **argv);
int command_redundancy(int argc, char **argv);
int command_run(int argc, char **argv);
int command_serve(int argc, char **argv);
int command_sparsify(int argc, char **argv);
int command_template(int argc, char **argv);
int command_tokenize(int argc, char **argv);
int command_tune(int argc, char **argv);
int command_version(int argc, char **argv);

#endif
