/* pin_option.h: --pin-prompt: texts whose keys and values are ready before the first request and stay in the cache. */
#ifndef CLI_PIN_OPTION_H
#define CLI_PIN_OPTION_H

#include "cli/model_arguments.h"
#include "millrace.h"

/* Room for the prompts among the options of the engine, which is not created yet. */
enum mr_status pin_option_plan(struct mr_options *options, const struct mr_model *model, const struct model_arguments *a,
                               struct mr_error *err);
enum mr_status pin_option_run(struct mr_engine *engine, const struct mr_model *model, const struct model_arguments *a,
                              struct mr_error *err);

#endif
