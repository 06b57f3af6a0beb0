/* peft_config.h: what adapter_config.json says. */
#ifndef FORMAT_PEFT_CONFIG_H
#define FORMAT_PEFT_CONFIG_H

#include "base/status.h"

/* The alpha that makes alpha / rank the adapter's scale. NO_SUPPORT: a setting that changes what the adapter computes, by
 * name. */
enum mr_status peft_config_alpha(double *alpha, const char *path, struct mr_error *err);

#endif
