/* model_arguments.c: the options of every command that runs a model. */
#include "cli/model_arguments.h"

#include <stdio.h>

#include "base/cpu_limit.h"
#include "cli/adapter_list.h"

/* In the order of enum precision. */
static const char *const precisions[] = {"auto", "fp32", "bf16", "fp16", "int8", "int4", NULL};
static const char *const kv_types[] = {"auto", "int8", NULL};

/* In the order of enum mr_speculation. */
static const char *const speculations[] = {"auto",      "off",    "draft", "ngram", "reference",
                                           "lookahead", "layers", "heads", "none",  NULL};

const char *model_speculation_name(int speculation) { return speculations[speculation]; }

static const char *const on_off[] = {"on", "off", NULL};

const struct argument model_argument[] = {{.name = "model",
                                           .letter = 'm',
                                           .value = "FILE",
                                           .help = "GGUF file of the model",
                                           .parse = argument_string,
                                           .offset = offsetof(struct model_arguments, model)},
                                          {0}};

const struct argument compute_argument[] = {
    {.name = "threads",
     .letter = 't',
     .value = "N",
     .help = "Threads that compute (default: one for each CPU); results do not depend on it",
     .parse = argument_int,
     .offset = offsetof(struct model_arguments, threads),
     .low = 1,
     .high = 1024},
    {.name = "precision",
     .value = "NAME",
     .help = "Arithmetic: auto, fp32, bf16, fp16, int8 or int4 (default: auto)",
     .parse = argument_choice,
     .offset = offsetof(struct model_arguments, precision),
     .choice = precisions},
    {.name = "kv-type",
     .value = "NAME",
     .help = "Keys and values in the cache: auto, as the precision says, or int8, about half of 16 bits (default: auto)",
     .parse = argument_choice,
     .offset = offsetof(struct model_arguments, kv_type),
     .choice = kv_types},
    {.name = "ctx-size",
     .letter = 'c',
     .value = "N",
     .help = "Context in tokens, prompt and answer together (default: 0, the model's own up to 32768)",
     .parse = argument_int,
     .offset = offsetof(struct model_arguments, ctx_size),
     .low = 0,
     .high = 1 << 24},
    {.name = "prompt-chunk",
     .value = "N",
     .help = "Rows of a prompt in one step (default: the engine's choice); results do not depend on it",
     .parse = argument_int,
     .offset = offsetof(struct model_arguments, prompt_chunk),
     .low = 1,
     .high = 65536},
    {.name = "pin",
     .help = "Each thread stays on a CPU of its own; helps where nothing else runs on them",
     .parse = argument_flag,
     .offset = offsetof(struct model_arguments, pin)},
    {.name = "fusion",
     .value = "on|off",
     .help = "off: run every op step by step, as a reference; results do not depend on it (default: on)",
     .parse = argument_choice,
     .offset = offsetof(struct model_arguments, fusion),
     .choice = on_off},
    {.name = "speculation",
     .value = "NAME",
     .help = "Guesses scored several tokens a step: auto, off, draft, ngram, reference, lookahead, layers or heads; results do "
             "not depend on it (default: auto)",
     .parse = argument_choice,
     .offset = offsetof(struct model_arguments, speculation),
     .choice = speculations},
    {.name = "draft-model",
     .value = "FILE",
     .help = "A smaller model of the same vocabulary that guesses ahead (default: none)",
     .parse = argument_string,
     .offset = offsetof(struct model_arguments, draft_model)},
    {.name = "draft-layers",
     .value = "N",
     .help = "First layers of the model that guess with --speculation layers (default: 0, a quarter)",
     .parse = argument_int,
     .offset = offsetof(struct model_arguments, draft_layers),
     .low = 0,
     .high = 1 << 16},
    {.name = "max-draft-tokens",
     .value = "N",
     .help = "Guesses of one answer in one step (default: 16)",
     .parse = argument_int,
     .offset = offsetof(struct model_arguments, draft_tokens),
     .low = 1,
     .high = MR_DRAFT_TOKENS_MAX},
    {.name = "forced-drafts",
     .value = "on|off",
     .help = "Text to which a constraint leaves no choice is scored several tokens a step; results do not depend on it "
             "(default: on)",
     .parse = argument_choice,
     .offset = offsetof(struct model_arguments, forced_drafts),
     .choice = on_off},
    {0}};

const struct argument cache_argument[] = {
    {.name = "pin-prompt",
     .value = "FILE",
     .help = "Compute this text first and keep it in the cache (may be repeated)",
     .parse = argument_append,
     .offset = offsetof(struct model_arguments, pin_prompt)},
    {.name = "cache-dir",
     .value = "DIR",
     .help = "Keep prompts' keys and values in this folder, for the next start (default: none)",
     .parse = argument_string,
     .offset = offsetof(struct model_arguments, cache_dir)},
    {.name = "cache-bytes",
     .value = "N",
     .help = "Bytes of files there at most, such as 500M or 8G (default: 4G)",
     .parse = argument_size,
     .offset = offsetof(struct model_arguments, cache_bytes),
     .low = 1,
     .high = 9007199254740992.0},
    {.name = "cache-host-bytes",
     .value = "N",
     .help = "Host memory for keys and values that leave the cache (default: none; 256M with --cache-dir)",
     .parse = argument_size,
     .offset = offsetof(struct model_arguments, cache_host_bytes),
     .low = 1,
     .high = 9007199254740992.0},
    {0}};

const struct argument template_argument[] = {
    {.name = "chat-template",
     .value = "NAME|FILE",
     .help = "Chat template: a built-in name or a Jinja file (default: the model's own)",
     .parse = argument_string,
     .offset = offsetof(struct model_arguments, chat_template)},
    {0}};

const struct argument adapter_argument[] = {{.name = "lora",
                                             .value = "FILE",
                                             .help = "LoRA adapter, a GGUF file (may be repeated)",
                                             .parse = argument_append,
                                             .offset = offsetof(struct model_arguments, lora)},
                                            {.name = "lora-scaled",
                                             .value = "FILE:SCALE",
                                             .help = "The same, times SCALE, from -100 to 100",
                                             .parse = argument_append,
                                             .offset = offsetof(struct model_arguments, lora_scaled)},
                                            {0}};

int model_arguments_check(const struct model_arguments *o, const char *command)
{
    if (o->model == NULL)
        return arguments_fail(command, "-m, --model: a model file is required");
    char path[ADAPTER_PATH_MAX];
    float scale;
    struct mr_error err = {{0}};
    enum mr_status status = MR_OK;
    for (int i = 0; status == MR_OK; i++)
        status = adapter_list_at(o, i, path, &scale, &err);
    if (status == MR_BAD_INPUT)
        return arguments_fail(command, "%s", err.message);
    if (o->threads > cpu_limit())
        fprintf(stderr, "%s: warning: --threads %d is more than the %d CPUs of this process; it will be slower\n", command,
                o->threads, cpu_limit());
    return ARGUMENTS_GO_ON;
}
