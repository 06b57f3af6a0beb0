/* peft.h: a LoRA adapter as PEFT saves it (adapter_config.json and adapter_model.safetensors) into a GGUF file. */
#ifndef FORMAT_PEFT_H
#define FORMAT_PEFT_H

#include <stdbool.h>

#include "base/status.h"

/* What was written. */
struct peft_summary {
    int n_tensor;
    double alpha;
    bool hub_rows; /* b of q and k has its rows as the hub's files have them, which only this engine reads */
};

/* Convert the folder `dir` into the file `path`. base: a GGUF file of the model that the adapter is for, which says the
 * architecture and the order of rows of q and k; NULL: unknown, then the file says "hub" and the order is found when it is
 * loaded. NO_SUPPORT, BAD_FORMAT, NOT_FOUND: the message names the setting, tensor or file. */
enum mr_status peft_convert(struct peft_summary *out, const char *dir, const char *base, const char *path,
                            struct mr_error *err);

#endif
