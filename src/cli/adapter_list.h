/* adapter_list.h: the adapters that --lora and --lora-scaled name, in this order. */
#ifndef CLI_ADAPTER_LIST_H
#define CLI_ADAPTER_LIST_H

#include "cli/model_arguments.h"
#include "millrace.h"

/* The i-th one: its path, behind which a NUL is written into `path`, and its scale; NOT_FOUND: there are fewer. BAD_INPUT:
 * --lora-scaled without a scale. */
enum {
    ADAPTER_PATH_MAX = 4096
};
enum mr_status adapter_list_at(const struct model_arguments *a, int i, char path[ADAPTER_PATH_MAX], float *scale,
                               struct mr_error *err);

/* Load all of them for requests, at most MR_ADAPTERS_MAX. */
enum mr_status adapter_list_load(struct mr_adapter_use use[MR_ADAPTERS_MAX], int32_t *n, struct mr_model *model,
                                 const struct model_arguments *a, struct mr_error *err);

#endif
