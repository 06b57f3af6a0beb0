/* adapter_command.c: `millrace adapter`. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "format/peft.h"

struct adapter_arguments {
    const char *out, *base;
};

static const struct argument rows[] = {
    {.name = "output",
     .letter = 'o',
     .value = "FILE",
     .help = "The GGUF file to write",
     .parse = argument_string,
     .offset = offsetof(struct adapter_arguments, out)},
    {.name = "model",
     .letter = 'm',
     .value = "FILE",
     .help = "The model that the adapter is for, a GGUF file; without it only millrace reads the result",
     .parse = argument_string,
     .offset = offsetof(struct adapter_arguments, base)},
    {0}};

int command_adapter(int argc, char **argv)
{
    const char *operand[1] = {NULL};
    struct adapter_arguments a = {0};
    const struct argument_group groups[] = {{.rows = rows, .into = &a}};
    const struct command_line line = {
        .operands = "PEFT_DIR",
        .summary = "Convert a LoRA adapter as PEFT saves it (adapter_config.json, adapter_model.safetensors) to GGUF.",
        .example = "  millrace adapter my-adapter -m models/SmolLM2-135M-Instruct.Q4_1.gguf -o my-adapter.gguf\n"
                   "  millrace run -m models/SmolLM2-135M-Instruct.Q4_1.gguf --lora my-adapter.gguf -p Hello",
        .operand = operand,
        .min_operands = 1,
        .max_operands = 1,
        .group = groups,
        .n_groups = 1};
    const int stop = arguments_parse(argc, argv, &line);
    if (stop != ARGUMENTS_GO_ON)
        return stop;
    if (a.out == NULL)
        return arguments_fail(argv[0], "-o, --output: a file to write is required");
    struct mr_error err = {{0}};
    struct peft_summary done;
    const enum mr_status status = peft_convert(&done, operand[0], a.base, a.out, &err);
    if (status != MR_OK)
        return output_fail_status(argv[0], status, &err);
    fprintf(stderr, "%d tensors, alpha %g%s\n", done.n_tensor, done.alpha,
            done.hub_rows ? "; the order of rows is found when it is loaded, as other programs do not (-m avoids this)" : "");
    return EXIT_SUCCESS;
}
