/* options.h: the range of each option. */
#ifndef ENGINE_OPTIONS_H
#define ENGINE_OPTIONS_H

#include "base/status.h"

/* BAD_INPUT names the option and its range. */
enum mr_status options_check(const struct mr_options *options, struct mr_error *err);

#endif
