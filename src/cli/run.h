/* run.h: the parts of `millrace run`. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cli/constraint_arguments.h"
#include "cli/generation.h"
#include "cli/load.h"
#include "cli/sampling_arguments.h"
#include "cli/tool_arguments.h"

struct run_arguments {
    const char *prompt, *file, *system, *prediction;
    bool raw, json, quiet, verbose_prompt, special, parse_special, ignore_eos, token_healing;
    int max_tokens, best_of, prompt_logprobs;
    struct argument_list stop, bad_word;
};

/* A model that is ready to answer, and how. */
struct run {
    const char *command;
    struct run_arguments options;
    struct model_arguments model_options;
    struct sampling_arguments sampling;
    struct constraint_arguments constraint;
    struct string_buffer file_text; /* of --file: read before the model is, which may take long */
    struct mr_model *model;
    struct mr_engine *engine;
    struct chat_prompt *chat; /* NULL: --raw */
    struct mr_adapter_use adapter[MR_ADAPTERS_MAX];
    int32_t n_adapter;
    struct token_list prediction; /* of --prediction */
    struct tool_arguments tools;
    struct mr_calls *calls; /* NULL: --tools was not given */
};

/* The request of these prompt tokens with the command line's parameters; borrows both. */
struct mr_request run_request(const struct run *r, const struct token_list *prompt);

/* Print each token of a prompt on stderr (--verbose-prompt). */
void run_show_prompt(const struct run *r, const struct token_list *prompt);

/* Converse on the terminal until the user leaves. Returns the exit status. */
int chat_loop(struct run *r);

#endif
