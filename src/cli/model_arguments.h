/* model_arguments.h: the options of every command that runs a model. */
#ifndef CLI_MODEL_ARGUMENTS_H
#define CLI_MODEL_ARGUMENTS_H

#include "cli/arguments.h"

struct model_arguments {
    const char *model;                      /* file; NULL: not given */
    int threads;                            /* 0: one for each CPU */
    int precision;                          /* enum precision of model.h */
    int kv_type;                            /* index of "auto", "int8" */
    int ctx_size;                           /* tokens; 0: what the model was trained for, at most MR_CTX_DEFAULT_MAX */
    bool pin;                               /* threads stay on one CPU each */
    int fusion;                             /* index of "on", "off" */
    int speculation;                        /* enum mr_speculation */
    const char *draft_model;                /* file; NULL: none */
    int draft_layers;                       /* 0: the engine's choice */
    int draft_tokens;                       /* of one answer in one step; 0: the engine's choice */
    int forced_drafts;                      /* 1: off */
    int prompt_chunk;                       /* rows of a prompt in one step; 0: the engine's choice */
    struct argument_list pin_prompt;        /* files */
    const char *cache_dir;                  /* NULL: none */
    size_t cache_bytes, cache_host_bytes;   /* 0: the engine's choice */
    const char *chat_template;              /* built-in name or file; NULL: the model's own */
    struct argument_list lora, lora_scaled; /* files of adapters; FILE:SCALE */
};

/* Rows for arguments_parse. */
extern const struct argument model_argument[];    /* -m alone */
extern const struct argument compute_argument[];  /* --threads, --precision, --kv-type, -c, --prompt-chunk, --fusion */
extern const struct argument cache_argument[];    /* --cache-dir, --cache-bytes, --cache-host-bytes, --pin-prompt */
extern const struct argument template_argument[]; /* --chat-template */
extern const struct argument adapter_argument[];  /* --lora, --lora-scaled */

/* As --speculation takes it. */
const char *model_speculation_name(int speculation);

/* After parsing: -m must be there; more threads than CPUs get a warning on stderr. Returns ARGUMENTS_GO_ON or an exit
 * status, the error being printed. */
int model_arguments_check(const struct model_arguments *o, const char *command);

#endif
