/* load.h: opens the model that a command's options name. */
#ifndef CLI_LOAD_H
#define CLI_LOAD_H

#include "cli/model_arguments.h"
#include "engine/chat_prompt.h"
#include "millrace.h"

/* The engine's options as the command line gives them; no progress yet. */
void load_options(struct mr_options *out, const struct model_arguments *a);

/* Open the model; on a terminal a bar on stderr shows the progress when it takes longer than half a second. A context beyond
 * what the model was trained for gets a warning on stderr. Installs the handler of interrupt.h. CANCELLED: Ctrl-C. */
enum mr_status load_model(struct mr_model **out, const struct model_arguments *a, struct mr_options *options,
                          struct mr_error *err);

/* Say on stderr why the folder of --cache-dir is not used as it should be, or that files in it were damaged. */
void load_warn_of_cache(const struct mr_engine *engine, const struct model_arguments *a);

/* Write the packed model, with a bar as for loading. CANCELLED: Ctrl-C. */
enum mr_status load_pack(const struct mr_model *model, const char *path, struct mr_error *err);

/* The template of --chat-template, or the model's own. NOT_FOUND: neither is there. */
enum mr_status load_chat_prompt(struct chat_prompt **out, const struct mr_model *model, const struct model_arguments *a,
                                struct mr_error *err);

#endif
