/* init_command.c: `millrace init`. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/output.h"
#include "compress/new_model.h"

struct init_arguments {
    struct new_model n;
    int64_t seed;
    int type;
};

static const char *const types[] = {"f32", "f16", "bf16", NULL};
static const enum quant_type quant_of[] = {QUANT_F32, QUANT_F16, QUANT_BF16};

#define FIELD(f)  .offset = offsetof(struct init_arguments, f)
#define INT(l, h) .parse = argument_int, .low = (l), .high = (h)

static const struct argument rows[] = {
    {.name = "tokenizer",
     .value = "FILE",
     .help = "A GGUF file whose tokenizer and chat template are taken",
     .parse = argument_string,
     FIELD(n.tokenizer)},
    {.name = "output", .letter = 'o', .value = "FILE", .help = "Where the model goes", .parse = argument_string, FIELD(n.out)},
    {.name = "layers", .value = "N", .help = "Layers (default: 12)", INT(1, 4096), FIELD(n.n_layer)},
    {.name = "width", .value = "N", .help = "Width of the hidden state (default: 384)", INT(2, 1 << 20), FIELD(n.n_embd)},
    {.name = "heads", .value = "N", .help = "Heads (default: 6)", INT(1, 1 << 16), FIELD(n.n_head)},
    {.name = "kv-heads", .value = "N", .help = "Key/value heads (default: 2)", INT(1, 1 << 16), FIELD(n.n_head_kv)},
    {.name = "head-dim", .value = "N", .help = "Width of a head (default: width / heads)", INT(2, 1024), FIELD(n.head_dim)},
    {.name = "channels",
     .value = "N",
     .help = "Channels of the feed-forward block (default: 1024)",
     INT(1, 1 << 20),
     FIELD(n.n_ff)},
    {.name = "context",
     .value = "N",
     .help = "Tokens of context that the file states (default: 2048)",
     INT(2, 1 << 24),
     FIELD(n.n_ctx)},
    {.name = "rope-base",
     .value = "B",
     .help = "Base of the rotary embedding (default: 10000)",
     .parse = argument_float,
     .low = 1.001,
     .high = 1e9,
     FIELD(n.rope_base)},
    {.name = "untied",
     .help = "An output matrix of its own (default: the embedding serves)",
     .parse = argument_flag,
     FIELD(n.is_untied)},
    {.name = "seed",
     .value = "N",
     .help = "Of the weights (default: 0)",
     .parse = argument_int64,
     .low = 0,
     .high = 1e15,
     FIELD(seed)},
    {.name = "type",
     .value = "TYPE",
     .help = "Weights as f32, f16 or bf16 (default: f32)",
     .parse = argument_choice,
     .choice = types,
     FIELD(type)},
    {0}};

int command_init(int argc, char **argv)
{
    struct init_arguments a = {.n = {.n_layer = 12,
                                     .n_embd = 384,
                                     .n_head = 6,
                                     .n_head_kv = 2,
                                     .n_ff = 1024,
                                     .n_ctx = 2048,
                                     .rope_base = 10000,
                                     .norm_eps = 1e-5f}};
    const struct argument_group groups[] = {{"Shape:", rows, &a}};
    const struct command_line line = {
        .summary = "Make a model with random weights, of the llama family, for `millrace distill` to train.",
        .example =
            "  millrace init --tokenizer models/SmolLM2-135M-Instruct.Q4_1.gguf -o draft.gguf --layers 4 --width 192 \\\n"
            "      --heads 3 --kv-heads 1 --channels 512",
        .group = groups,
        .n_groups = 1};
    struct mr_error err = {{0}};
    size_t n_weight;
    const int stop = arguments_parse(argc, argv, &line);
    if (stop != ARGUMENTS_GO_ON)
        return stop;
    if (a.n.tokenizer == NULL)
        return arguments_fail(argv[0], "--tokenizer: a file is required");
    if (a.n.out == NULL)
        return arguments_fail(argv[0], "-o, --output: a file is required");
    a.n.seed = (uint64_t)a.seed;
    a.n.type = quant_of[a.type];
    const enum mr_status status = new_model_write(&a.n, &n_weight, &err);
    if (status != MR_OK)
        return output_fail_status(argv[0], status, &err);
    fprintf(stderr, "%zu weights\n", n_weight);
    return EXIT_SUCCESS;
}
